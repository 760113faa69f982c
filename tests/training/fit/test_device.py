"""Training on another device: nothing on the way may need the memory of the processor, and the numbers are the same."""

from collections.abc import Iterator
from copy import copy

import pytest
import torch
from pretend_device import DEVICE, Far, PretendDevice
from quick_config import META_PATH_MODELS, TWO_HOPS
from torch_geometric.data import HeteroData

from fastgtn.config import Config
from fastgtn.config.tuned_configs import model_values, models
from fastgtn.data import make_planted
from fastgtn.nn.inputs.features import SparseMatrix
from fastgtn.relations.kernels.attention import attend, edge_dots, edge_sums
from fastgtn.training import device as devices
from fastgtn.training import fit as fitting
from fastgtn.training.build import Inputs

GRAPH, TASK = make_planted(authors=60, papers=60, venues=8, terms=12)
QUICK = {
    "fit": {"epochs": 3, "patience": 0},
    "model": {"hidden": 8, "dropout": 0.0, "head_dropout": 0.0},
}
SAMPLERS = {  # without threads that make batches ahead: the pretended device exists in one thread only
    "whole graph": {},
    "neighbor": {"batch": {"size": 16, "sampler": "neighbor", "eval": "batches", "prefetch": 0}},
    "layer": {"batch": {"size": 16, "sampler": "layer", "budget": 20, "prefetch": 0}},
}


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Training goes to the device that is not there."""
    monkeypatch.setattr(fitting, "chosen_device", lambda *_: DEVICE)
    with PretendDevice():
        yield


def config(name: str, **more: dict[str, object]) -> Config:
    heads = {"model": {"heads": 2}} if name in ("gat", "han", "hgt") else {}
    walks = {"model": {"walks_per_node": 1, "walk_length": 3}} if name == "node2vec" else {}
    no_edge_dropout = {"model": {"attention_dropout": 0.0}} if name in ("gat", "han") else {}
    hops = {"model": TWO_HOPS} if name in META_PATH_MODELS else {}
    return Config.of(model_values(name), QUICK, hops, heads, walks, no_edge_dropout, more)


def trained(chosen: Config, graph: HeteroData = GRAPH) -> fitting.Trained:
    return fitting.fit_inputs(Inputs.of(graph, chosen), TASK, chosen)


def without_features(*types: str) -> HeteroData:
    """The same graph, in which nodes of these types have learned embeddings instead of features."""
    graph = copy(GRAPH)
    graph.shared_features = False
    for node_type in types:
        count = graph[node_type].num_nodes
        del graph[node_type].x
        graph[node_type].num_nodes = count
    return graph


@pytest.mark.parametrize("model", models())
def test_every_model_trains_there_and_gives_the_same_numbers(model: str, far_away: None) -> None:  # noqa: ARG001
    far = trained(config(model))
    assert all(not isinstance(p, Far) for p in far.model.parameters())  # it comes back for whoever uses it
    with pytest.MonkeyPatch.context() as near:
        near.setattr(fitting, "chosen_device", devices.chosen_device)
        here = trained(config(model))
    losses = [[record["loss"] for record in one.history] for one in (far, here)]
    if model == "fast_gtn_non_local":  # among nearly equal neighbours, the last digit of a product decides
        assert losses[0] == pytest.approx(losses[1], rel=2e-2)
        return
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    torch.testing.assert_close(far.representations, here.representations, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", models())
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_are_handed_over(model: str, sampler: str, far_away: None) -> None:  # noqa: ARG001
    result = trained(config(model, **SAMPLERS[sampler]))
    assert all(torch.isfinite(p).all() for p in result.model.parameters())


@pytest.mark.parametrize("model", models())
def test_nodes_without_features_have_embeddings_there(model: str, far_away: None) -> None:  # noqa: ARG001
    for types in (GRAPH.node_types, ["paper"]):
        result = trained(config(model, fit={"epochs": 1}, features={"shared": False}), without_features(*types))
        assert len(result.history) == 1


@pytest.mark.parametrize("model", models())
def test_dropout_works_there(model: str, far_away: None) -> None:  # noqa: ARG001
    of_edges = {"attention_dropout": 0.5} if model in ("gat", "han") else {}
    dropped = {"dropout": 0.5, "head_dropout": 0.5, **of_edges}
    chosen = config(model, fit={"epochs": 1}, model=dropped, features={"drop_from": 0})
    assert len(trained(chosen).history) == 1


def test_unrolled_rows_work_there(far_away: None) -> None:  # noqa: ARG001
    result = trained(config("fast_gtn", model={"propagation": "unrolled"}))
    assert len(result.history) == 3


def test_sparse_features_stay_where_they_are() -> None:
    words = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    with PretendDevice():
        matrix = SparseMatrix.from_torch(words.to(DEVICE))
        assert ((matrix @ torch.eye(3).to(DEVICE)).cpu() == words).all()


def test_the_pretended_device_refuses_what_a_gpu_would() -> None:
    with PretendDevice():
        far = torch.ones(3).to(DEVICE)
        with pytest.raises(AssertionError, match="numpy"):
            far.numpy()
        with pytest.raises(AssertionError, match="two devices"):
            far + torch.ones(3)
        with pytest.raises(AssertionError, match="two devices"):
            torch.ones(3)[torch.tensor([1], device=DEVICE)]
        assert far[torch.tensor([1])].cpu().tolist() == [1]  # a GPU takes indices from the processor
        assert (far + far).cpu().tolist() == [2, 2, 2]


def test_attention_is_the_same_in_plain_torch() -> None:
    g = torch.Generator().manual_seed(0)
    edges = torch.randint(7, (2, 30), generator=g)
    tables = [torch.randn(7, 2, 3, generator=g, dtype=torch.float64) for _ in range(3)]

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        scores = edge_dots(ends, q, k) + edge_sums(ends, q[:, :, 0], k[:, :, 0], slope=0.2)
        return attend(ends, scores, v, 7)

    here = [table.clone().requires_grad_() for table in tables]
    out = run(*here, edges)
    out.sum().backward()
    with PretendDevice():
        far = [table.to(DEVICE).requires_grad_() for table in tables]
        there = run(*far, edges.to(DEVICE))
        there.sum().backward()
        torch.testing.assert_close(there.detach().cpu(), out.detach())
        for mine, theirs in zip(far, here, strict=True):
            assert mine.grad is not None
            torch.testing.assert_close(mine.grad.cpu(), theirs.grad)
