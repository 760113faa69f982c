"""Amounts of transactions give fraud away: with edge features, the defaults find it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, tables
from fastgtn.runs import fit

GRAPH = """
[graph]
reverse = true
[nodes.customer]
table = "customers.csv"
id = "id"
features = ["age"]
[nodes.merchant]
table = "merchants.csv"
id = "id"
[relations.paid]
table = "paid.csv"
source = { type = "customer", column = "customer" }
target = { type = "merchant", column = "merchant" }
features = ["amount", "day"]
[task]
target = "customer"
label = "fraud"
split = { train = 0.5, val = 0.2, test = 0.3 }
"""


@pytest.mark.filterwarnings("ignore:.*are missing")
def test_sums_of_edges_find_fraud(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    is_fraud = draw.random(1500) < 0.05
    customer = draw.integers(1500, size=9000)
    amount = draw.lognormal(3, 1, size=9000) * np.where(is_fraud[customer] & (draw.random(9000) < 0.6), 12, 1)
    labels = np.where(is_fraud, "yes", "no")
    (tmp_path / "customers.csv").write_text(
        "id,age,fraud\n" + "".join(f"{i},{draw.integers(18, 80)},{labels[i]}\n" for i in range(1500))
    )
    (tmp_path / "merchants.csv").write_text("id\n" + "".join(f"m{i}\n" for i in range(60)))
    rows = (
        f"{c},m{draw.integers(60)},{a:.2f},2024-{draw.integers(1, 13):02}-01\n"
        for c, a in zip(customer, amount, strict=True)
    )
    (tmp_path / "paid.csv").write_text("customer,merchant,amount,day\n" + "".join(rows))
    (tmp_path / "graph.toml").write_text(GRAPH)
    graph, task = tables.build(tmp_path / "graph.toml")
    assert task is not None
    result = fit(graph, task)
    x, test = graph["customer"].x.to_dense().numpy(), task.test_nodes.numpy()
    known = np.concatenate([task.train.nodes.numpy(), task.val.nodes.numpy()])
    plain = LogisticRegression(max_iter=1000).fit(x[known], is_fraud[known]).predict_proba(x[test])[:, 1]
    assert result.test["roc_auc"] >= max(0.95, roc_auc_score(is_fraud[test], plain) - 0.02)


def test_sums_of_weights_survive_the_logarithmic_normalisation() -> None:
    """Without edge features: the weight of a row is a mean with "row", and an amount with "log"."""
    draw = np.random.default_rng(0)
    is_fraud = draw.random(600) < 0.2
    customer, shop = draw.integers(600, size=4000), draw.integers(20, size=4000)
    amount = draw.lognormal(size=4000) * np.where(is_fraud[customer], 8, 1)
    graph = HeteroData()
    graph["customer"].x, graph["shop"].x = torch.ones(600, 1), torch.ones(20, 1)
    graph["customer"].num_nodes, graph["shop"].num_nodes = 600, 20
    graph["shop", "sold_to", "customer"].edge_index = torch.from_numpy(np.stack([shop, customer]))
    graph["shop", "sold_to", "customer"].edge_weight = torch.from_numpy(amount).float()
    nodes = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    parts = {"train": nodes[:300], "val": nodes[300:400], "test": nodes[400:]}
    task = NodeTask.from_labels("customer", "single", is_fraud.astype(int), **parts)
    found = {
        how: fit(graph, task, {"graph": {"normalize": how}, "model": {"start": "uniform"}, "fit": {"epochs": 40}})
        for how in ("row", "log")
    }
    assert found["row"].test["roc_auc"] < 0.7
    assert found["log"].test["roc_auc"] > 0.9
