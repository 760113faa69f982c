"""Predictors whose score is the inner product of two vectors: BPR and LightGCN."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastgtn.links.edges import Array
from fastgtn.links.negatives import Negatives
from fastgtn.links.rivals.scorer import Scorer
from fastgtn.links.task import LinkTask, Stage

WIDTH, RATE, EPOCHS, PATIENCE = 64, 0.01, 1000, 8
CHECK_EVERY = 10

Encode = Callable[[Stage], tuple[Tensor, Tensor]]  # vectors of sources and targets


class _Bias(nn.Module):
    """One number per target, beside the inner product."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(count))


def bpr(task: LinkTask, seed: int) -> Scorer:
    """Matrix factorisation, trained so that links score above other pairs of the same source.

    Between nodes of one type both ends share one table.
    """
    torch.manual_seed(seed)
    counts = (task.num_sources,) if task.is_within_one_type else (task.num_sources, task.num_targets)
    tables = nn.ModuleList(
        nn.Embedding.from_pretrained(0.1 * torch.randn(count, WIDTH), freeze=False) for count in counts
    )
    return _trained(task, tables, lambda _: (_weight(tables[0]), _weight(tables[-1])), seed)


def light_gcn(task: LinkTask, seed: int) -> Scorer:
    """PyG's LightGCN: embeddings smoothed over the links that are predicted."""
    from torch_geometric.nn import LightGCN

    torch.manual_seed(seed)
    first = 0 if task.is_within_one_type else task.num_sources  # the place of the first target
    model = LightGCN(first + task.num_targets, WIDTH, num_layers=3)
    links: dict[Stage, Tensor] = {}

    def encode(stage: Stage) -> tuple[Tensor, Tensor]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse (CSR tensor support is in beta|invariant checks)")
            if stage not in links:
                links[stage] = _both_ways(task.links_at(stage), first, first + task.num_targets)
            z = model.get_embedding(links[stage])
        return z[: task.num_sources], z[first:]

    return _trained(task, model, encode, seed)


def _both_ways(links: Array, first: int, count: int) -> Tensor:
    """Links in both directions as a sparse matrix, which PyG multiplies several times faster than an edge list."""
    source, target = torch.from_numpy(np.ascontiguousarray(links)).long() + torch.tensor([[0], [first]])
    ends = torch.stack([torch.cat([target, source]), torch.cat([source, target])])
    return torch.sparse_coo_tensor(ends, torch.ones(ends.size(1)), (count, count)).to_sparse_csr()


def _trained(task: LinkTask, model: nn.Module, encode: Encode, seed: int) -> Scorer:
    """Adam on all links with the pairwise loss; the metric that chooses all models chooses the epoch."""
    bias = _Bias(task.num_targets)
    optimizer = torch.optim.Adam([*model.parameters(), *bias.parameters()], lr=RATE, weight_decay=1e-5)
    negatives = Negatives.of(task.graph, task.relation, task.train, kind=task.negatives)
    own = task.is_within_one_type  # pairs have no direction: either end is the source, and both biases count
    best, chosen, waited = -1.0, (deepcopy(model.state_dict()), bias.value.detach().clone()), 0
    for epoch in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        links = task.train[::-1] if own and epoch % 2 else task.train
        loss = _loss(*encode("val"), bias.value, *negatives.beside(links, seed=seed * EPOCHS + epoch))
        loss.backward()
        optimizer.step()
        if (epoch + 1) % CHECK_EVERY == 0:
            score = Scorer(_rows(model, encode, bias.value.detach(), own=own)).choice(task)
            waited = 0 if score > best else waited + 1
            if score > best:
                best, chosen = score, (deepcopy(model.state_dict()), bias.value.detach().clone())
            if waited >= PATIENCE:
                break
    model.load_state_dict(chosen[0])
    return Scorer(_rows(model, encode, chosen[1], own=own))


def _loss(z: Tensor, y: Tensor, bias: Tensor, links: Array, others: Array) -> Tensor:
    """Links should score above other targets of the same source (Rendle et al.)."""
    u, i, j = (torch.from_numpy(np.ascontiguousarray(side)) for side in (links[0], links[1], others))
    difference = (z[u] * (y[i] - y[j])).sum(1) + bias[i] - bias[j]
    return -F.logsigmoid(difference).mean()


def _rows(model: nn.Module, encode: Encode, bias: Tensor, *, own: bool) -> Callable[[Array, Stage], Array]:
    kept: dict[Stage, tuple[Tensor, Tensor]] = {}

    def rows(sources: Array, stage: Stage) -> Array:
        if stage not in kept:
            model.eval()
            with torch.no_grad():
                z, y = encode(stage)
            kept[stage] = z.detach(), y.detach()
        z, y = kept[stage]
        chosen = torch.from_numpy(sources)
        values: Array = (z[chosen] @ y.T + bias + (bias[chosen, None] if own else 0)).numpy()
        return values

    return rows


def _weight(table: nn.Module) -> Tensor:
    assert isinstance(table, nn.Embedding)
    return table.weight
