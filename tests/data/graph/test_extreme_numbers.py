"""What is written can be read again: numbers that float32 does not hold are refused before writing."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from fastgtn.data import archive, tables
from fastgtn.data.importers import import_graph
from fastgtn.errors import InputError
from fastgtn.relations import RelationStack


def graph_of(weight: Any, *, pairs: Any = ((0, 1), (1, 0))) -> HeteroData:
    graph = HeteroData()
    graph["a"].num_nodes = 2
    graph["a", "r", "a"].edge_index = torch.tensor(pairs).T.contiguous()
    graph["a", "r", "a"].edge_weight = torch.as_tensor(weight)
    return graph


@pytest.mark.parametrize(
    "weight",
    [
        torch.tensor([float("nan"), 1]),
        torch.tensor([float("inf"), 1]),
        torch.tensor([-float("inf"), 1]),
        torch.tensor([1e300, 1], dtype=torch.float64),
        torch.tensor([-1e300, 1], dtype=torch.float64),
    ],
    ids=["nan", "inf", "minus inf", "1e300", "-1e300"],
)
def test_weights_are_checked_as_they_are_stored(weight: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'relation "r" has 1 weights that are NaN, infinite or .* beyond 3.4e38'):
        archive.write(tmp_path / "g.npz", graph_of(weight), None)
    assert not list(tmp_path.iterdir())


def test_repeated_edges_are_checked_as_their_sum(tmp_path: Path) -> None:
    graph = graph_of([3e38, 3e38, 1.0], pairs=((0, 1), (0, 1), (1, 0)))
    with pytest.raises(InputError, match="with repeated edges added"):
        archive.write(tmp_path / "g.npz", graph, None)
    archive.write(tmp_path / "g.npz", graph_of([1e38, 1e38, 1e-38], pairs=((0, 1), (0, 1), (1, 0))), None)
    stored, _ = archive.read(tmp_path / "g.npz")
    assert bool(torch.isfinite(RelationStack.from_hetero(stored).mix(torch.ones(1, 2))[0].to_dense()).all())


@pytest.mark.parametrize(
    ("pairs", "weight", "message"),
    [
        (torch.tensor([0, 1]), [1.0, 1], r"edge_index must be a tensor of shape \[2, E\]"),
        (torch.tensor([[0, 1], [1, 0]]) / 1, [1.0, 1], "edge_index must contain integers"),
        (torch.tensor([[0, 1], [1, 2]]), [1.0, 1], "target nodes must lie in 0 … 1"),
        (torch.tensor([[0, 1], [1, 0]]), [1.0], r"2 edges, but edge_weight has shape \[1\]: give one weight per edge"),
    ],
)
def test_edges_of_another_shape_are_named(
    pairs: torch.Tensor, weight: list[float], message: str, tmp_path: Path
) -> None:
    graph = graph_of(weight)
    graph["a", "r", "a"].edge_index = pairs
    with pytest.raises(InputError, match=message):
        archive.write(tmp_path / "g.npz", graph, None)


def test_a_negative_number_of_nodes_is_named(tmp_path: Path) -> None:
    graph = graph_of([1.0, 1])
    graph["b"].num_nodes = -1
    with pytest.raises(InputError, match='num_nodes of "b" must be a whole number, at least 0'):
        archive.write(tmp_path / "g.npz", graph, None)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -1e39])
def test_features_are_checked_as_they_are_stored(value: float, tmp_path: Path) -> None:
    graph = graph_of([1.0, 1])
    graph["a"].x = torch.tensor([[value], [0]], dtype=torch.float64)
    with pytest.raises(InputError, match=r"NaN or infinite numbers, or numbers beyond 3.4e38"):
        archive.write(tmp_path / "g.npz", graph, None)


@pytest.mark.parametrize("value", ["nan", "inf", "1e39", "-1e300"])
def test_hgb_weights(value: str, tmp_path: Path) -> None:
    (tmp_path / "node.dat").write_text("0\ta\t0\n1\tb\t0\n")
    (tmp_path / "link.dat").write_text(f"0\t1\t0\t{value}\n")
    graph, task = import_graph("hgb", tmp_path)
    with pytest.raises(InputError, match="weights that are NaN, infinite"):
        archive.write(tmp_path / "g.npz", graph, task)


@pytest.mark.parametrize("value", [float("nan"), 1e300])
def test_pyg_weights_and_features(value: float, tmp_path: Path) -> None:
    index = torch.tensor([[0], [1]])
    torch.save(Data(edge_index=index, edge_weight=torch.tensor([value]).double(), num_nodes=2), tmp_path / "w.pt")
    graph, task = import_graph("pyg", tmp_path / "w.pt")
    with pytest.raises(InputError, match="weights that are NaN, infinite"):
        archive.write(tmp_path / "g.npz", graph, task)
    torch.save(Data(edge_index=index, x=torch.tensor([[value], [1]]).double()), tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"x of node: 1 values are NaN, infinite or beyond 3.4e38"):
        import_graph("pyg", tmp_path / "x.pt")


def test_pickled_weights(tmp_path: Path) -> None:
    matrix = sp.coo_matrix(([1e300, 1.0], ([0, 1], [1, 0])), shape=(2, 2))
    for name, value in {
        "edges": [matrix],
        "node_features": np.eye(2),
        "labels": [[[0, 0]], [[1, 0]], []],
    }.items():
        (tmp_path / f"{name}.pkl").write_bytes(pickle.dumps(value))
    with pytest.raises(InputError, match=r"weights that are NaN, infinite or beyond 3.4e38"):
        import_graph("gtn", tmp_path)


def test_weights_of_tables_are_checked_as_their_sum(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id\n1\n2\n")
    (tmp_path / "e.csv").write_text("a,b,w\n1,2,3e38\n1,2,3e38\n")
    (tmp_path / "graph.toml").write_text(
        '[nodes.n]\ntable = "n.csv"\nid = "id"\n[relations.r]\ntable = "e.csv"\nweight = "w"\n'
        'source = { type = "n", column = "a" }\ntarget = { type = "n", column = "b" }\n'
    )
    graph, task = tables.build(tmp_path / "graph.toml")
    with pytest.raises(InputError, match=r'relation "r" has 1 weights that are NaN, infinite'):
        archive.write(tmp_path / "g.npz", graph, task)
