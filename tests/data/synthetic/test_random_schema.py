"""A graph of a random schema: its label is read off the planted paths, and the schema keeps to what was asked for."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, make_random_schema
from fastgtn.data.synthetic.planted.features import message_matrix
from fastgtn.errors import InputError
from fastgtn.relations import RelationStack


def means(graph: HeteroData, path: list[list[str]]) -> NDArray[Any]:
    """The features at the end of a path (the nodes themselves where there are none), averaged along it."""
    end = graph[path[-1][0]]
    x: NDArray[Any] = end.x.numpy() if "x" in end else np.eye(end.num_nodes)
    x = (x - x.mean(0)) / x.std()
    for edge_type in reversed(path):
        x = message_matrix(graph, tuple(edge_type)) @ x  # type: ignore[arg-type]
    return x / x.std()


def accuracy(graph: HeteroData, task: NodeTask) -> float:
    """Test accuracy of a linear classifier on the planted paths, minus the share of the largest class."""
    x = np.concatenate([means(graph, path) for path in graph.planted["paths"]], axis=1)
    train, test = task.train.nodes.numpy(), task.test_nodes.numpy()
    answers = LogisticRegression(max_iter=500).fit(x[train], task.train.labels.numpy()).predict(x[test])
    labels = task._labels.numpy()[test]
    return float((answers == labels).mean() - np.bincount(labels).max() / len(labels))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("paths", [1, 2])
def test_the_planted_paths_show_the_label(seed: int, paths: int) -> None:
    graph, task = make_random_schema(seed, paths=paths)
    assert len(graph.planted["paths"]) == paths
    for path in graph.planted["paths"]:
        assert path[0][2] == task.target
        assert all(near[0] == far[2] for near, far in pairwise(path))
    assert accuracy(graph, task) > 0.15


def test_permuted_labels_follow_nothing() -> None:
    excess = [accuracy(*make_random_schema(seed, permuted=True)) for seed in range(4)]
    assert np.mean(excess) < 0.05


def test_a_schema_has_what_was_asked_for() -> None:
    graph, task = make_random_schema(3, types=4, relations=11, steps=2, targets=50)
    assert len(graph.node_types) == 4
    assert 11 <= len(graph.edge_types) <= 14  # a type that no walk could leave gets one relation more
    assert len(graph.planted["relations"]) == 2
    assert graph[task.target].num_nodes == 50
    assert len(RelationStack.from_hetero(graph)) == len(graph.edge_types) + 1


def test_the_same_seed_gives_the_same_graph() -> None:
    (one, first), (two, second) = (make_random_schema(5, paths=2) for _ in range(2))
    assert one.planted == two.planted
    assert first.train.labels.equal(second.train.labels)
    assert all(one[e].edge_index.equal(two[e].edge_index) for e in one.edge_types)
    assert make_random_schema(6, paths=2)[0].planted != one.planted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": 1}, "types is 1; give a whole number from 2 to 8"),
        ({"relations": 50}, "relations is 50; give a whole number from 4 to 40"),
        ({"steps": 5}, "steps is 5; give a whole number from 1 to 4"),
        ({"paths": 3}, "paths is 3; give a whole number from 1 to 2"),
        ({"targets": 3}, "targets is 3; give at least 20 labelled nodes"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_random_schema(**options)  # type: ignore[arg-type]
