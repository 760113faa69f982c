"""Features are brought to a scale by what their numbers are, and models read another graph in the same way."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.nn.inputs.columns import Scaling, column_scales
from fastgtn.nn.inputs.features import Features, SparseMatrix
from fastgtn.training.prepare.scaling import scaled, suitable

DRAW = torch.Generator().manual_seed(0)
NORMAL = torch.randn(200, 10, generator=DRAW)
COUNTS = torch.poisson(torch.full((200, 10), 1.5), generator=DRAW)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (COUNTS, "count"),
        (COUNTS[:, :3], "scale"),  # a few whole numbers, such as ages, are not counts of words
        (COUNTS + 1, "scale"),  # and neither are those without zeros
        ((COUNTS > 1).float(), "none"),
        (10 * NORMAL, "scale"),
        (NORMAL * torch.logspace(0, 3, 10), "standard"),  # metres beside millimetres
        (torch.cat([NORMAL, (3 * NORMAL[:, :1]).exp()], 1), "log"),  # amounts with a long tail beside others
        (torch.cat([NORMAL, (torch.arange(200) == 7).float()[:, None]], 1), "scale"),  # a rare category has no tail
        (torch.full((200, 2), 7.0), "none"),
        (SparseMatrix.from_torch((NORMAL * (NORMAL > 1)).to_sparse()), "none"),
        (SparseMatrix.from_torch(COUNTS.to_sparse()), "count"),
    ],
)
def test_the_numbers_decide(matrix: torch.Tensor | SparseMatrix, expected: str) -> None:
    assert suitable(matrix) == expected


@pytest.mark.parametrize(("scaling", "proportion"), [("scale", 10.0), ("standard", 1.0)])
def test_scale_keeps_the_proportions_of_columns_and_standard_does_not(scaling: Scaling, proportion: float) -> None:
    x = (NORMAL - NORMAL.mean(0)) / NORMAL.std(0, correction=0) * torch.tensor([1.0, 0.1] * 5) + 3
    x[:, 9] = -5.0
    mean, size = column_scales(x, scaling)
    read = (x - mean) / size
    assert read[:, :9].mean(0).abs().max() < 1e-5
    assert read[:, 9].unique().tolist() == [-1.0]  # a constant is kept: messages of it tell how many there are
    assert float(read[:, 0].std() / read[:, 1].std()) == pytest.approx(proportion, rel=1e-4)
    assert float(read[:, :9].var(0, correction=0).mean()) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(("numbers", "scaling"), [(10 * NORMAL + 4, "scale"), ((2.5 * NORMAL).exp(), "log")])
def test_another_graph_is_read_with_the_statistics_of_the_training(numbers: torch.Tensor, scaling: str) -> None:
    graph = HeteroData()
    graph["user"].x, graph["user"].num_nodes = numbers, 200
    graph["user", "knows", "user"].edge_index = torch.randint(0, 200, (2, 800), generator=DRAW)
    labels = (NORMAL[:, 0] > 0).long()
    task = NodeTask.from_labels("user", "single", labels, train=range(100), val=range(100, 150), test=range(150, 200))
    small = {"model": {"hidden": 8, "path_length": 1, "num_channels": 1}, "fit": {"epochs": 20}}
    result = fastgtn.fit(graph, task, Config.of(small))
    assert result.config.features.normalize == scaling
    part = HeteroData()
    part["user"].x, part["user"].num_nodes = graph["user"].x[:50], 50
    part["user", "knows", "user"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    alone = HeteroData()
    alone["user"].x, alone["user"].num_nodes = graph["user"].x[:1], 1
    alone["user", "knows", "user"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    many, one = result.predict(part)["p_1"].to_pylist(), result.predict(alone)["p_1"].to_pylist()
    assert one[0] == pytest.approx(many[0], abs=1e-6)  # its own mean and deviation play no part


def test_large_constants_do_not_switch_a_model_off() -> None:
    """All messages share a large part; enlarging it would leave no activation that tells nodes apart."""
    graph = HeteroData()
    topics = torch.randint(0, 3, (300,), generator=DRAW)
    rates = torch.rand(3, 40, generator=DRAW) + 5
    graph["page"].x = torch.poisson(rates[topics], generator=DRAW).to_sparse()
    graph["page"].num_nodes = 300
    graph["page", "links", "page"].edge_index = torch.randint(0, 300, (2, 3000), generator=DRAW)
    model = fastgtn.FastGTN(Features.from_hetero(graph), 16, fastgtn.RelationStack.from_hetero(graph).relations)
    stack = fastgtn.RelationStack.from_hetero(graph).row_normalized()
    model.rescale(Features.from_hetero(graph), stack.hops(2))
    assert model.scales is not None
    assert float(model.scales.max()) < 1.5


def test_logarithms_are_taken_of_dense_and_sparse_numbers_and_keep_signs() -> None:
    x = torch.tensor([[0.0, 1e6], [-3.0, 1.0], [0.5, 0.0]])
    graph = HeteroData()
    graph["user"].x = x
    graph["user", "knows", "user"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    read = scaled(Features.from_hetero(graph), "log").blocks[0]
    assert isinstance(read.matrix, torch.Tensor)
    expected = torch.tensor([[0.0, np.log1p(1e6)], [-np.log(4.0), np.log(2.0)], [np.log(1.5), 0.0]])
    torch.testing.assert_close(read.matrix, expected.float())
    graph["user"].x = x.to_sparse()
    sparse = scaled(Features.from_hetero(graph), "log").blocks[0].matrix
    assert isinstance(sparse, SparseMatrix)
    torch.testing.assert_close(sparse @ torch.eye(2), expected.float())


def test_amounts_with_a_long_tail_are_learned() -> None:
    """Whether an account moves more than the usual amount, which spreads over several orders of magnitude."""
    draw = torch.Generator().manual_seed(3)
    size = torch.randn(900, generator=draw)
    graph = HeteroData()
    graph["account"].x = torch.stack([(2.5 * size).exp(), (2.5 * torch.randn(900, generator=draw)).exp()], 1)
    graph["account", "pays", "account"].edge_index = torch.randint(0, 900, (2, 1800), generator=draw)
    parts = {"train": range(300), "val": range(300, 600), "test": range(600, 900)}
    task = NodeTask.from_labels("account", "single", (size > 0).long(), **parts)
    given = {"model": {"path_length": 1, "num_channels": 1, "start": "uniform", "hidden": 8}, "fit": {"epochs": 60}}
    given["fit"]["trial_seconds"] = 0
    found, raw = (fastgtn.fit(graph, task, {**given, "features": {"normalize": n}}) for n in ("auto", "standard"))
    assert found.config.features.normalize == "log"
    assert found.test["micro_f1"] > raw.test["micro_f1"] + 0.05
    assert found.test["micro_f1"] > 0.9
