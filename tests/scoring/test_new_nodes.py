"""A new node is scored as in a graph to which it and its edges were added."""

from typing import Any

import numpy as np
import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.runs import Result

Academic = tuple[HeteroData, NodeTask]
SECTIONS: list[dict[str, Any]] = [
    {},
    {"model": {"name": "gtn"}},
    {"model": {"path_length": 1}},
    {"model": {"num_layers": 2}},
    {"graph": {"normalize": "symmetric"}},
    {"graph": {"normalize": "none"}},
    {"features": {"normalize": "row"}},
    {"model": {"non_local": {"enabled": True}}},
    {"model": {"name": "gcn"}},
    {"model": {"name": "han"}},
    {"model": {"name": "mlp"}},
    {"model": {"name": "node2vec"}},
]


def newcomers(width: int) -> list[dict[str, Any]]:
    g = torch.Generator().manual_seed(7)
    x = torch.randn(3, width, generator=g).double()
    edges: list[dict[str, Any]] = [{"AP": [3, 77, 5], "friend": ["a-05", "a-71"]}, {"AP": [77]}, {}]
    return [{"id": f"n{k}", "features": x[k].tolist(), "edges": edges[k]} for k in range(3)]


def added(graph: HeteroData, nodes: list[dict[str, Any]], *, target: str = "author") -> HeteroData:
    """The graph with the nodes in it, built from their edges by hand."""
    wider, count = graph.clone(), int(graph[target].num_nodes or 0)
    if "x" in graph[target]:
        rows = torch.tensor([node["features"] for node in nodes]).to(graph[target].x.dtype)
        wider[target].x = torch.cat([graph[target].x.to_dense(), rows])
        if graph[target].x.layout != torch.strided:
            wider[target].x = wider[target].x.to_sparse_csr()
    wider[target].num_nodes = count + len(nodes)
    wider[target].node_id = np.array([*map(str, graph[target].node_id), *(node["id"] for node in nodes)])
    del wider[target].node_name
    papers = [(count + k, paper) for k, node in enumerate(nodes) for paper in node["edges"].get("AP", [])]
    friends = [(count, 5), (count, 71), (5, count), (71, count)]
    for edge_type, new in (
        (("author", "AP", "paper"), papers),
        (("paper", "PA", "author"), [pair[::-1] for pair in papers]),
        (("author", "friend", "author"), friends),
    ):
        wider[edge_type].edge_index = torch.cat([graph[edge_type].edge_index, torch.tensor(new).T], 1)
    return wider


def expected(run: Result, graph: HeteroData) -> list[dict[str, Any]]:
    return run.predict(graph, nodes=["n0", "n1", "n2"]).to_pylist()


def assert_alike(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    assert [row["node"] for row in rows] == [row["node"] for row in others]
    for row, other in zip(rows, others, strict=True):
        for key, value in other.items():
            assert row[key] == (pytest.approx(value, abs=1e-6) if isinstance(value, float) else value)


@pytest.mark.parametrize("sections", SECTIONS, ids=str)
@pytest.mark.filterwarnings("ignore:.*were not seen in training")
def test_new_nodes_are_scored_as_if_they_were_in_the_graph(academic: Academic, sections: dict[str, Any]) -> None:
    graph = academic[0]
    run = fastgtn.fit(*academic, quick(**sections, fit={"epochs": 2}))
    nodes = newcomers(graph["author"].x.size(1))
    if sections.get("model", {}).get("name") == "node2vec":
        nodes = [node | {"features": None} for node in nodes]
        assert_alike(run.predict_new(nodes).to_pylist(), expected(run, added(graph, newcomers(8))))
        return
    assert_alike(run.predict_new(nodes).to_pylist(), expected(run, added(graph, nodes)))


def own_types(graph: HeteroData, *, sparse: bool = False, embedded: bool = False) -> HeteroData:
    """The same graph with separate features of each type; authors have sparse features, or none."""
    graph = graph.clone()
    graph.shared_features = False
    graph["paper"].x = graph["paper"].x[:, :5]
    if sparse:
        graph["author"].x = graph["author"].x.relu().to_sparse_csr()
    if embedded:
        del graph["author"].x
    return graph


@pytest.mark.parametrize("kind", ["dense", "sparse", "embedded", "reversed", "weighted"])
@pytest.mark.filterwarnings("ignore:.*were not seen in training", "ignore:Sparse CSR")
def test_features_and_relations_of_all_kinds(academic: Academic, kind: str) -> None:
    graph, task = own_types(academic[0], sparse=kind == "sparse", embedded=kind == "embedded"), academic[1]
    nodes = newcomers(8)
    if kind == "sparse":
        nodes = [node | {"features": [max(value, 0.0) for value in node["features"]]} for node in nodes]
    if kind == "embedded":
        nodes = [node | {"features": None} for node in nodes]
    wider = added(graph, nodes)
    if kind == "reversed":
        for one in (graph, wider):
            del one["paper", "PA", "author"], one["author", "friend", "author"]
        del nodes[0]["edges"]["friend"]
    if kind == "weighted":
        nodes[0]["edges"]["AP"] = [{"node": paper, "weight": 2.0 + paper} for paper in (3, 77, 5)]
        nodes[1]["edges"]["AP"] = [{"node": 77, "weight": 1.5}, {"node": 77, "weight": 2.5}]
        for one in (graph, wider):
            for edge_type in (("author", "AP", "paper"), ("paper", "PA", "author")):
                one[edge_type].edge_weight = torch.ones(one[edge_type].edge_index.size(1))
                if one is wider:
                    one[edge_type].edge_weight[-4:] = torch.tensor([5.0, 79.0, 7.0, 4.0])
    run = fastgtn.fit(graph, task, quick(fit={"epochs": 2}, graph={"reverse": kind == "reversed"}))
    assert_alike(run.predict_new(nodes).to_pylist(), expected(run, wider))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "a-05"}, 'the new node "a-05" has the id or name of a node of the graph'),
        ({"features": [1.0]}, 'node "n0": features are a list of 8 numbers, but got 1 numbers'),
        ({"features": None}, "features are a list of 8 numbers, but got none"),
        ({"features": [1e300] * 8}, "a feature is too large for 32 bits"),
        ({"features": [float("nan")] * 8}, "new node: features.0: Input should be a finite number"),
        ({"features": ["a"] * 8}, "new node: features"),
        ({"edges": {"AAP": [1]}}, 'no relation "AAP" of author nodes; did you mean "AP"'),
        ({"edges": {"PV": [1]}}, 'no relation "PV" of author nodes'),
        ({"edges": {"AP": [999]}}, 'node "n0": "AP": no paper node "999"; use an id of the graph'),
        ({"edges": {"AP": [{"node": 1, "weight": 2.0}]}}, 'edges of "AP" have no weights; leave out "weight"'),
        (
            {"edges": {"AP": [{"node": 1, "weight": -2.0}]}},
            "edges.AP.0.weight: Input should be greater than 0",
        ),
        (
            {"edges": {"AP": [{"node": 1, "incoming": True}]}},
            '"incoming" is only for relations between nodes of one type, not for "AP"',
        ),
        ({"edges": {"AP": [{"node": 1, "amount": 3}]}}, 'edges of "AP" have no column "amount"'),
        ({"colour": 1}, "new node: colour: there is no such key"),
    ],
)
def test_new_nodes_that_do_not_fit_are_refused(run: Result, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run.predict_new([newcomers(8)[0] | change])


def test_several_new_nodes_need_different_ids(run: Result) -> None:
    with pytest.raises(InputError, match='two new nodes have the id "n0"'):
        run.predict_new(newcomers(8)[:1] * 2)
    with pytest.raises(InputError, match="there are no new nodes"):
        run.predict_new([])


def test_directed_relations_within_the_type_have_two_ends(academic: Academic) -> None:
    graph = academic[0].clone()
    pairs = graph["author", "friend", "author"].edge_index
    graph["author", "friend", "author"].edge_index = pairs[:, pairs[0] < pairs[1]]
    run = fastgtn.fit(graph, academic[1], quick(fit={"epochs": 2}))
    node = newcomers(8)[0]
    for edge, ends in (("a-05", [90, 5]), ({"node": "a-05", "incoming": True}, [5, 90])):
        wider = graph.clone()
        wider["author"].x = torch.cat([graph["author"].x, torch.tensor([node["features"]]).float()])
        wider["author"].num_nodes, wider["author"].node_id = 91, np.array([*graph["author"].node_id, "n0"])
        index = graph["author", "friend", "author"].edge_index
        wider["author", "friend", "author"].edge_index = torch.cat([index, torch.tensor(ends)[:, None]], 1)
        sent = node | {"edges": {"friend": [edge]}}
        assert_alike(run.predict_new([sent]).to_pylist(), run.predict(wider, nodes=["n0"]).to_pylist())
