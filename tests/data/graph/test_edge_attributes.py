"""Attributes of edges in graphs of PyG: summarised as features of nodes, or refused, but never ignored."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data, HeteroData

import fastgtn
from fastgtn.data import NodeTask, archive, with_edge_features
from fastgtn.data.importers import import_graph
from fastgtn.errors import InputError
from fastgtn.relations import RelationStack


def payments(num_users: int = 400, seed: int = 0) -> tuple[HeteroData, np.ndarray]:
    """Users who pay large amounts are fraudulent; the amount is the second column of the edges."""
    draw = np.random.default_rng(seed)
    user, shop = draw.integers(num_users, size=8 * num_users), draw.integers(20, size=8 * num_users)
    is_fraud = draw.random(num_users) < 0.3
    amount = draw.lognormal(size=len(user)) * np.where(is_fraud[user], 6, 1)
    graph = HeteroData()
    graph["user"].num_nodes, graph["shop"].num_nodes = num_users, 20
    graph["user"].x = torch.from_numpy(draw.normal(size=(num_users, 2))).float()
    graph["shop", "sold_to", "user"].edge_index = torch.from_numpy(np.stack([shop, user]))
    attributes = np.stack([draw.normal(size=len(user)), amount], 1)
    graph["shop", "sold_to", "user"].edge_attr = torch.from_numpy(attributes).float()
    return graph, is_fraud


def test_edges_are_summarised_at_both_ends() -> None:
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes = 3, 1
    graph["a"].x = torch.ones(3, 1)
    graph["a", "r", "b"].edge_index = torch.tensor([[0, 0, 1], [0, 0, 0]])
    graph["a", "r", "b"].edge_attr = torch.tensor([1.0, 3.0, 5.0])
    found = with_edge_features(graph)
    assert "edge_attr" in graph["a", "r", "b"]  # the graph itself is left as it is
    assert "edge_attr" not in found["a", "r", "b"]
    columns = [c for c in found.meta["edge_summaries"]["a"] if c["column"] == "r.0.sum"]
    encoder = columns[0]["encoder"]
    place = 1 + [n for c in found.meta["edge_summaries"]["a"] for n in [c["column"]]].index("r.0.sum")
    raw = found["a"].x[:, place] * encoder["deviation"] + encoder["mean"]
    assert raw.tolist() == pytest.approx([4, 5, 0], abs=1e-5)
    assert found["b"].x.size(0) == 1


def test_they_help_and_travel_to_new_graphs(tmp_path: Path) -> None:
    graph, is_fraud = payments()
    nodes = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    parts = {"train": nodes[:200], "val": nodes[200:280], "test": nodes[280:]}
    task = NodeTask.from_labels("user", "single", is_fraud.astype(int), **parts)
    with pytest.raises(InputError, match=r'edges of "shop-sold_to-user" have edge_attr, .*with_edge_features'):
        fastgtn.fit(graph, task)
    result = fastgtn.fit(with_edge_features(graph), task, {"fit": {"epochs": 40}})
    assert result.test["roc_auc"] > 0.95
    result.save(tmp_path / "run")
    run = fastgtn.load_run(tmp_path / "run")
    again = with_edge_features(graph, like=run.graph)
    assert run.predict(again).equals(run.predict().set_column(1, "split", run.predict(again)["split"]))
    new, truth = payments(seed=1)
    scores = run.predict(with_edge_features(new, like=run.graph))["p_1"].to_numpy()
    assert roc_auc_score(truth, scores) > 0.95


def test_attributes_are_never_ignored() -> None:
    graph, _ = payments()
    with pytest.raises(InputError, match="use one column as edge_weight, or delete edge_attr"):
        RelationStack.from_hetero(graph)
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, edge_attr=torch.ones(1, 3))
    with pytest.raises(InputError, match='edges of "edge" have edge_attr'):
        RelationStack.from_data(data)
    assert with_edge_features(data)["node"].x.size(0) == 2
    with pytest.raises(InputError, match="like needs a graph that with_edge_features has returned"):
        with_edge_features(graph, like=graph)
    graph["shop", "sold_to", "user"].edge_attr = torch.ones(3, 2)
    with pytest.raises(InputError, match=r"a row for each of its 3200 edges, not \[3, 2\]"):
        with_edge_features(graph)
    graph["shop", "sold_to", "user"].edge_attr = torch.full((3200,), torch.nan)
    with pytest.raises(InputError, match="NaN or infinite"):
        with_edge_features(graph)


def test_an_imported_file_keeps_them_as_features(tmp_path: Path) -> None:
    graph, _ = payments()
    torch.save(graph, tmp_path / "g.pt")
    with pytest.warns(UserWarning, match="edge_attr is summarised to the nodes at both ends"):
        found, _ = import_graph("pyg", tmp_path / "g.pt")
    assert torch.equal(found["user"].x, with_edge_features(graph)["user"].x)
    archive.write(tmp_path / "g.npz", found, None, meta=found.meta)
    assert archive.read(tmp_path / "g.npz")[0].meta["edge_summaries"].keys() == {"user", "shop"}
