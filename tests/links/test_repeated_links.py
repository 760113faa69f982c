"""Links that occur several times, such as purchases that are repeated, in a split by time."""

import torch
from torch_geometric.data import HeteroData

from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.links import LinkTask
from fastgtn.links.edges import Array
from fastgtn.links.task.splits import times_of

BUYS = ("user", "buys", "item")


def bought(edges: torch.Tensor, time: torch.Tensor) -> HeteroData:
    graph = make_planted_links(users=60, items=40, seed=1)
    graph[BUYS].edge_index, graph[BUYS].time = edges, time
    return graph


def pairs(links: Array) -> set[tuple[int, int]]:
    return set(map(tuple, links.T.tolist()))


def test_a_repeated_link_has_the_time_of_its_first_edge_and_later_ones_are_hidden() -> None:
    once = make_planted_links(users=60, items=40, seed=1)[BUYS].edge_index
    time = torch.arange(once.size(1), dtype=torch.float64)
    plain = LinkTask.from_graph(bought(once, time), "buys", by="time")
    again = torch.full((20,), 1e6, dtype=torch.float64)  # the first twenty links come again, after all others
    graph = bought(torch.cat([once[:, :20], once], 1), torch.cat([again, time]))
    task = LinkTask.from_graph(graph, "buys", by="time")
    assert times_of(task.graph, task.relation, once[:, :20].numpy()).tolist() == list(range(20))
    assert pairs(task.train) == pairs(plain.train)
    assert pairs(task.val.links) == pairs(plain.val.links)
    assert pairs(task.test.links) == pairs(plain.test.links)
    assert task.graph_at("val")[BUYS].edge_index.equal(plain.graph_at("val")[BUYS].edge_index)
    assert task.graph_at("test")[BUYS].edge_index.equal(plain.graph_at("test")[BUYS].edge_index)
    assert task.graph_at("use")[BUYS].edge_index.size(1) == once.size(1) + 20


def test_a_repeated_link_without_direction_has_the_earlier_time_of_both() -> None:
    graph = HeteroData()
    graph["p"].num_nodes = 3
    graph["p", "knows", "p"].edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
    graph["p", "knows", "p"].time = torch.tensor([9.0, 1.0, 5.0], dtype=torch.float64)
    relation = LinkTask.for_use(graph, "knows").relation
    assert times_of(graph, relation, graph["p", "knows", "p"].edge_index.numpy()[:, [0, 2]]).tolist() == [1.0, 5.0]
