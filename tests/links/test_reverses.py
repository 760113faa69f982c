"""Which relation is the reverse of which: the same at every stage, and in the names of joined meta-paths."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.links import LinkTask, fit_encoders, fit_links, load_links
from fastgtn.links.folder import save
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.reverses import both_directions, find_reverses
from fastgtn.links.settings import LinkSettings
from fastgtn.relations import Relation

BUYS = Relation("user", "buys", "item")
VISITS = ("user", "visits", "shop"), ("shop", "visited_by", "user")


def visited_both_ways() -> HeteroData:
    """Links follow tags; visits, which come before them in the graph, are stored in both directions."""
    graph = make_planted_links("UTI", users=80, items=50, seed=0)
    graph[VISITS[1]].edge_index = graph[VISITS[0]].edge_index.flip(0)
    return graph


def without_visits(graph: HeteroData) -> HeteroData:
    fewer = graph.__copy__()
    for name in VISITS:
        fewer[name].edge_index = torch.zeros(2, 0, dtype=torch.long)
    return fewer


def edges(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs).T.contiguous()


def test_relations_that_agree_best_are_matched_and_every_relation_has_one_reverse() -> None:
    graph = HeteroData()
    graph["u"].num_nodes = graph["i"].num_nodes = 6
    bought = [(0, 0), (1, 1), (2, 2)]
    graph["u", "viewed", "i"].edge_index = edges(*bought, (3, 3), (4, 4))  # three of five were bought
    graph["u", "buys", "i"].edge_index = edges(*bought)
    graph["i", "bought_by", "u"].edge_index = edges(*bought).flip(0)
    graph["u", "knows", "u"].edge_index = edges((0, 1), (1, 0))
    found = find_reverses(graph)
    buys, bought_by = Relation("u", "buys", "i"), Relation("i", "bought_by", "u")
    assert found[buys] == bought_by
    assert found[Relation("u", "viewed", "i")] == Relation("i", "rev_viewed", "u")
    assert found[Relation("u", "knows", "u")] == Relation("u", "knows", "u")
    assert all(found[other] == relation for relation, other in found.items())
    both, _ = both_directions(graph)
    assert torch.equal(both["i", "rev_viewed", "u"].edge_index, graph["u", "viewed", "i"].edge_index.flip(0))


def test_a_stored_relation_is_not_overwritten_by_a_reverse_of_the_same_name() -> None:
    graph = HeteroData()
    graph["u"].num_nodes = graph["i"].num_nodes = 4
    graph["u", "buys", "i"].edge_index = edges((0, 0), (1, 1))
    graph["i", "rev_buys", "u"].edge_index = edges((2, 3))
    both, _ = both_directions(graph)
    assert both["i", "rev_buys", "u"].edge_index.tolist() == [[2], [3]]
    assert len(both.edge_types) == 4
    for name in graph.edge_types:
        graph[name].edge_index = torch.zeros(2, 0, dtype=torch.long)
    assert len(both_directions(graph)[0].edge_types) == 2  # without edges, the names say it


def test_steps_are_named_in_the_direction_in_which_they_are_walked() -> None:
    paths = JoinedPaths.of(make_planted_links(users=30, items=20), BUYS, longest=3)
    names = set(paths.names())
    assert {"U[viewed_0]I", "U[viewed_1]I", "USI"} <= names
    assert "U[buys]I[rev_buys]U[buys]I" in names
    assert len(names) == len(paths)


def test_the_paths_of_encoders_have_the_same_names() -> None:
    task = LinkTask.from_graph(make_planted_links(users=40, items=30, seed=0), "buys")
    paths = fit_encoders(task, "fast_gtn", {"model": {"hidden": 8, "path_length": 2}, "fit": {"epochs": 1}}).metapaths()
    named = {path.name: path for path in paths}
    assert named["U[buys]I[rev_buys]U·U[buys]I"].p_value is not None  # the p-value of the whole path
    assert len(named) == len(paths)


def test_a_relation_whose_edges_all_come_later_does_not_change_the_paths() -> None:
    graph = visited_both_ways()
    count = graph[tuple(BUYS)].edge_index.size(1)
    graph[tuple(BUYS)].time = torch.from_numpy(np.random.default_rng(0).permutation(count)).double()
    for name in VISITS:
        graph[name].time = torch.full(
            (graph[name].edge_index.size(1),), 0.85 * count
        ).double()  # after training, before the test
    result = fit_links(LinkTask.from_graph(graph, "buys", by="time"))
    assert result.metapaths(1)[0].types == ("user", "tag", "item")
    assert result.test["roc_auc"] > 0.7


@pytest.mark.parametrize("model", ["joined_paths", "fast_gtn"])
def test_a_new_graph_may_lack_the_edges_of_a_relation(tmp_path: Path, model: str) -> None:
    graph = visited_both_ways()
    task = LinkTask.from_graph(graph, "buys")
    small = {"model": {"hidden": 8}, "fit": {"epochs": 2}}
    result = fit_links(task) if model == "joined_paths" else fit_encoders(task, model, small)
    archive.write(tmp_path / "shop.npz", graph, None)
    values = {} if model == "joined_paths" else small
    save(result, LinkSettings(str(tmp_path / "shop.npz"), relation="buys", model=model, values=values), tmp_path)
    fewer = load_links(tmp_path, graph=without_visits(graph))
    users, items = np.arange(20), np.arange(20)
    found = fewer.predict(users, items)
    if model == "joined_paths":  # the only path leads over tags
        assert result.model.names == ("UTI",)  # type: ignore[union-attr]
        np.testing.assert_allclose(found, result.predict(users, items))
    assert fewer.explain(0, 5).logit == pytest.approx(fewer.predict([0], [5])[0], abs=1e-5)


def test_a_run_is_evaluated_on_a_graph_whose_relations_are_in_another_order(tmp_path: Path) -> None:
    graph = make_planted_links(users=60, items=40, seed=0)
    result = fit_links(LinkTask.from_graph(graph, "buys"))
    turned = HeteroData()
    for node_type in graph.node_types:
        turned[node_type].num_nodes, turned[node_type].node_id = graph[node_type].num_nodes, graph[node_type].node_id
    for name in reversed(graph.edge_types):
        turned[name].edge_index = graph[name].edge_index
    archive.write(tmp_path / "turned.npz", turned, None)
    save(result, LinkSettings("elsewhere.npz", relation="buys"), tmp_path)
    task = load_links(tmp_path, graph=str(tmp_path / "turned.npz")).task
    assert task.graph.edge_types == graph.edge_types
    assert np.array_equal(task.test.source, result.task.test.source)
