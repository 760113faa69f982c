"""Links between nodes of one type have no direction, however their edges are stored."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.links import LinkTask, fit_links
from fastgtn.links.edges import undirected
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.task.splits import times_of
from fastgtn.relations import Relation

NODES = 40
WITH = Relation("d", "with", "d")


def distinct(rng: np.random.Generator, count: int) -> np.ndarray:
    pairs = np.sort(rng.integers(NODES, size=(2, count)), axis=0)
    return np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)


@pytest.fixture
def graph() -> HeteroData:
    rng = np.random.default_rng(0)
    made = HeteroData()
    made["d"].num_nodes, made["c"].num_nodes = NODES, 15
    links = distinct(rng, 160)
    made["d", "with", "d"].edge_index = torch.from_numpy(links)
    made["d", "with", "d"].time = torch.from_numpy(rng.permutation(links.shape[1]).astype(float))
    half = distinct(rng, 80)
    most = half[:, : 3 * half.shape[1] // 4]  # only most edges are stored in the opposite direction too
    made["d", "near", "d"].edge_index = torch.from_numpy(np.concatenate([half, most[::-1]], axis=1))
    ends = np.stack([rng.integers(15, size=90), rng.integers(NODES, size=90)])
    made["c", "treats", "d"].edge_index = torch.from_numpy(np.unique(ends, axis=1))
    return made


@pytest.mark.parametrize("by", ["random", "time"])
def test_the_stored_direction_does_not_matter(graph: HeteroData, by: str) -> None:
    other = graph.clone()
    flipped = np.arange(other["d", "with", "d"].edge_index.size(1)) % 3 == 0
    other["d", "with", "d"].edge_index[:, flipped] = other["d", "with", "d"].edge_index[:, flipped].flip(0)
    first, second = (LinkTask.from_graph(one, "with", by=by) for one in (graph, other))  # type: ignore[arg-type]
    assert np.array_equal(first.train, second.train)
    assert fit_links(first, longest=3).test == fit_links(second, longest=3).test


def test_the_time_of_a_pair_is_found_in_either_direction(graph: HeteroData) -> None:
    store = graph["d", "with", "d"]
    wanted = store.time.clone()
    store.edge_index = store.edge_index.flip(0)  # every edge leads from the higher number to the lower one
    assert times_of(undirected(graph, WITH), WITH, store.edge_index.flip(0).numpy()).tolist() == wanted.tolist()
    assert LinkTask.from_graph(graph, "with", by="time").train.shape[1] == round(0.8 * len(wanted))


def test_what_belongs_to_an_edge_belongs_to_both_directions(graph: HeteroData) -> None:
    store = graph["d", "with", "d"]
    both = undirected(graph, WITH)["d", "with", "d"]
    count = store.edge_index.size(1)
    assert both.edge_index.size(1) == 2 * count == len(both.time)
    assert both.time[count:].equal(store.time)
    whole = undirected(graph, WITH)
    assert undirected(whole, WITH) is whole
    treats = Relation("c", "treats", "d")
    assert undirected(graph, treats) is graph  # links between two types have one direction


def test_a_path_and_its_reverse_are_one(graph: HeteroData) -> None:
    paths = JoinedPaths.of(undirected(graph, WITH), WITH, longest=3)
    reverse = {t: paths.relations.index(paths.reverses[r]) for t, r in enumerate(paths.relations)}
    near = paths.relations.index(Relation("d", "near", "d"))
    assert paths.mirrored[near] is None  # it is not its own transpose
    exact = [word for word in paths.words if near not in word]
    assert len(exact) > 3
    for word in exact:
        turned = tuple(reverse[t] for t in reversed(word))
        assert turned == word or turned not in exact


def test_every_pair_has_the_same_strength_in_lists_and_alone(graph: HeteroData) -> None:
    paths = JoinedPaths.of(undirected(graph, WITH), WITH, longest=4)
    everyone = np.arange(NODES)
    u, v = (a.ravel() for a in np.meshgrid(everyone, everyone, indexing="ij"))
    strengths = paths.scores(u, v)
    np.testing.assert_allclose(strengths, paths.scores(v, u), atol=1e-14)
    shapes = paths.row_shapes(everyone, np.ones((len(paths), 2)))
    listed = np.stack([one.strength.toarray().ravel() for one in shapes], axis=1)
    np.testing.assert_allclose(listed, strengths, atol=1e-14)
    weights = np.random.default_rng(1).normal(size=len(paths))
    np.testing.assert_allclose(paths.rows(everyone, weights).ravel(), strengths @ weights, atol=1e-5)
    dense = {t: matrix.toarray() for t, matrix in enumerate(paths.matrices)}
    for column, word in enumerate(paths.words):  # the definition: the product of all steps, in both directions
        product = np.linalg.multi_dot([np.eye(NODES), *(dense[t] for t in word)])
        np.testing.assert_allclose(strengths[:, column], ((product + product.T) / 2).ravel(), atol=1e-14)
