"""A planted graph's label is read off the planted path, and off no other path that is as short."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive, load, make_planted
from fastgtn.data.synthetic.planted.features import message_matrix
from fastgtn.errors import InputError

EdgeType = tuple[str, str, str]
SEEDS = range(3)


def walks(graph: HeteroData, target: str, length: int) -> list[tuple[EdgeType, ...]]:
    """All sequences of relations that lead away from the target, each step against the messages."""
    found: list[tuple[EdgeType, ...]] = [()]
    for _ in range(length):
        found = [
            (*walk, edge_type)
            for walk in found
            for edge_type in graph.edge_types
            if edge_type[2] == (walk[-1][0] if walk else target)
        ]
    return found


def oracle(graph: HeteroData, task: NodeTask, walk: tuple[EdgeType, ...]) -> float:
    """Test accuracy of a linear classifier on the mean of features over the walk."""
    x: NDArray[Any] = graph[walk[-1][0] if walk else task.target].x.numpy()
    for edge_type in reversed(walk):
        x = message_matrix(graph, edge_type) @ x
    x = np.round(x, 4)  # what float32 rounds differently would betray a hub
    train, test = task.train.nodes.numpy(), task.test_nodes.numpy()
    x = (x - x[train].mean(0)) / (x[train].std(0) + 1e-9)
    answers = LogisticRegression(max_iter=500).fit(x[train], task.train.labels.numpy()).predict(x[test])
    return float((answers == task._labels.numpy()[test]).mean())


LONG = [pytest.param(path, marks=pytest.mark.slow) for path in ("APVP", "PVPA", "APTPA", "APAPA", "APVPT")]


@pytest.mark.parametrize("path", ["AP", "APV", "APA", "APVPA", *LONG])
def test_only_the_planted_path_shows_the_label(path: str) -> None:
    """Three equal classes: chance is a third. Every other path up to the same length is tried, all relations."""
    planted_scores, other_scores = [], defaultdict(list)
    for seed in SEEDS:
        graph, task = make_planted(path, seed=seed)
        planted = tuple(tuple(edge_type) for edge_type in graph.planted["relations"])
        planted_scores.append(oracle(graph, task, planted))
        for length in range(len(path)):
            for walk in walks(graph, task.target, length):
                if walk != planted:
                    other_scores[walk].append(oracle(graph, task, walk))
    assert min(planted_scores) >= 0.8
    assert np.mean(planted_scores) >= 0.85
    assert max(np.mean(scores) for scores in other_scores.values()) <= 0.45
    assert np.mean([np.mean(scores) for scores in other_scores.values()]) == pytest.approx(1 / 3, abs=0.05)


def test_the_answer_names_relations_in_the_order_of_the_product() -> None:
    graph, task = make_planted("APV")
    assert graph.planted["relations"] == [["paper", "PA", "author"], ["venue", "VP", "paper"]]
    assert graph.planted["path"] == "APV"
    assert task.target == "author"
    assert make_planted("PVPA")[1].target == "paper"


def test_every_relation_has_its_reverse_and_misleading_ones_are_added() -> None:
    graph, _ = make_planted(misleading=3)
    names = [name for _, name, _ in graph.edge_types]
    assert names == ["PA", "AP", "PV", "VP", "PT", "TP", "friend", "cites", "cited_by", "visits", "visited_by"]
    there, back = graph["paper", "PA", "author"].edge_index, graph["author", "AP", "paper"].edge_index
    assert set(map(tuple, there.T.tolist())) == set(map(tuple, back.flip(0).T.tolist()))
    friends = set(map(tuple, graph["author", "friend", "author"].edge_index.T.tolist()))
    assert {(b, a) for a, b in friends} == friends


def test_same_seed_same_graph() -> None:
    assert archive.content_checksum(*make_planted(seed=1)) == archive.content_checksum(*make_planted(seed=1))
    assert archive.content_checksum(*make_planted(seed=1)) != archive.content_checksum(*make_planted(seed=2))


def test_label_noise_exchanges_that_share_of_labels() -> None:
    clean, noisy = (make_planted(label_noise=noise, authors=5000)[1]._labels for noise in (0.0, 0.3))
    assert float((clean != noisy)[clean >= 0].float().mean()) == pytest.approx(0.3, abs=0.03)
    assert bool(((clean >= 0) == (noisy >= 0)).all())


def test_the_answer_is_stored_with_the_graph(tmp_path: Path) -> None:
    graph, task = make_planted("APT", classes=4)
    archive.write(tmp_path / "g.npz", graph, task, planted=graph.planted)
    copy, _ = archive.read(tmp_path / "g.npz")
    assert copy.planted == graph.planted


def test_the_built_in_graph_needs_no_file() -> None:
    graph, task = load("planted", seed=5)
    assert task is not None
    assert graph.num_nodes == 2000
    assert archive.content_checksum(graph, task) == archive.content_checksum(*make_planted())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "AV"}, 'path "AV" cannot be planted'),
        ({"path": "A"}, "2 to 5 letters"),
        ({"path": "APAPAP"}, "2 to 5 letters"),
        ({"path": "APX"}, r"A \(author\), P \(paper\)"),
        ({"venues": 3}, "3 nodes of type venue are too few"),
        ({"classes": 1}, "at least 2 classes"),
        ({"classes": 9}, "9 classes with 4 features"),
        ({"misleading": 4}, "misleading is 4"),
        ({"label_noise": 1.0}, "label_noise is 1.0"),
        ({"edge_noise": -0.1}, "edge_noise is -0.1"),
        ({"seed": -1}, "the seed is -1; give a whole number, at least 0"),
        ({"feature_noise": -1.0}, "feature_noise is -1.0; it is a standard deviation, from 0 to 1,000,000"),
        ({"feature_noise": float("inf")}, "feature_noise is inf"),
        ({"distraction": float("nan")}, "distraction is nan"),
        ({"features": 10**8}, r"2,000 nodes with 100,000,000 features and 3 classes need about 320,\d{3},\d{3} GB"),
        ({"authors": 10**12}, r"1,000,000,001,100 nodes .* need about [\d,]+ GB of memory, of [\d,]+ GB here"),
    ],
)
def test_mistakes_in_the_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_planted(**options)
