"""What makes large graphs affordable gives the same numbers as the plain way."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from fastgtn.links import LinkTask, fit_links
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.metrics import rank_all
from fastgtn.relations import Relation


def test_a_hub_does_not_hide_the_path_through_others_who_bought_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    users, items = 60, 30
    edges = np.array([(u, i) for u in range(users) for i in {0, 1 + u % (items - 1), 1 + u * 7 % (items - 1)}]).T
    graph = HeteroData()
    graph["user"].num_nodes, graph["item"].num_nodes = users, items
    graph["user", "buys", "item"].edge_index = torch.from_numpy(edges)  # everybody bought item 0
    monkeypatch.setattr("fastgtn.links.joined.paths.MOST_ENTRIES", 1000)  # users who share an item: 3,600 pairs
    relation = Relation("user", "buys", "item")
    paths = JoinedPaths.of(graph, relation, longest=3)
    assert paths.names() == ["UIUI"]
    step = paths.matrices[paths.words[0][0]].toarray()
    u, i = (a.ravel() for a in np.meshgrid(np.arange(users), np.arange(items), indexing="ij"))
    np.testing.assert_allclose(paths.scores(u, i)[:, 0], (step @ step.T @ step).ravel(), atol=1e-14)
    np.testing.assert_allclose(paths.rows(np.arange(users), np.ones(1)), step @ step.T @ step, atol=1e-6)
    monkeypatch.setattr("fastgtn.links.joined.paths.MOST_ENTRIES", 10)
    assert JoinedPaths.of(graph, relation, longest=3).words == ()
    result = fit_links(LinkTask.from_graph(graph, "buys"), longest=3)
    assert result.notes() == ["One joined meta-path was not looked at because of size or number, such as UIUI."]


def test_places_and_filtered_ranks_among_ties_are_those_of_a_sorted_list() -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(4, size=(20, 30)).astype(np.float32)  # many equal scores
    links = np.unique(np.stack([rng.integers(20, size=60), rng.integers(30, size=60)]), axis=1)
    tally = rank_all(lambda sources: rows[sources], links, sp.csr_matrix((20, 30), dtype=bool), at=5)
    for source, (recall, _, _) in zip(np.unique(links[0]), tally.lists.tolist(), strict=True):
        first = np.lexsort((np.arange(30), -rows[source]))[:5]
        mine = links[1][links[0] == source]
        assert recall == np.isin(mine, first).mean()
    wanted = []
    for source, target in links.T[np.argsort(links[0], kind="stable")]:
        others = np.delete(rows[source], links[1][links[0] == source])
        value = rows[source, target]
        wanted.append(1 / (1 + (others > value).sum() + (others == value).sum() / 2))
    assert tally.reciprocal.tolist() == wanted
