"""Embeddings of knowledge graphs, as PyTorch Geometric has them: every relation is a kind of triple."""

from __future__ import annotations

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.kge import ComplEx, DistMult, KGEModel, RotatE, TransE

from fastgtn.links.edges import Array
from fastgtn.links.rivals.scorer import Scorer, Union
from fastgtn.links.task import LinkTask, Stage

WIDTH, RATE, EPOCHS, BATCH, PATIENCE = 64, 0.01, 40, 8192, 4


def trans_e(task: LinkTask, seed: int) -> Scorer:
    """Bordes et al.: a relation is a translation."""
    return _trained(task, seed, TransE)


def dist_mult(task: LinkTask, seed: int) -> Scorer:
    """Yang et al.: a relation weights the coordinates of an inner product."""
    return _trained(task, seed, DistMult)


def complex_kge(task: LinkTask, seed: int) -> Scorer:
    """Trouillon et al.: the same with complex numbers."""
    return _trained(task, seed, ComplEx)


def rotat_e(task: LinkTask, seed: int) -> Scorer:
    """Sun et al.: a relation turns complex coordinates."""
    return _trained(task, seed, RotatE)


def _trained(task: LinkTask, seed: int, kind: type[KGEModel]) -> Scorer:
    torch.manual_seed(seed)
    union = Union.of(task, "val")
    model = kind(union.num_nodes, union.num_kinds, hidden_channels=WIDTH)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    head, tail = union.edge_index
    first, second = union.starts[task.relation.source], union.starts[task.relation.target]

    @torch.no_grad()
    def rows(sources: Array, stage: Stage) -> Array:  # noqa: ARG001
        tails = torch.arange(second, second + task.num_targets)
        scores: Array = all_tails(model, torch.from_numpy(sources) + first, union.target_kind, tails).numpy()
        return scores

    scorer = Scorer(rows)
    best, weights, waited = -1.0, deepcopy(model.state_dict()), 0
    for _ in range(EPOCHS):
        model.train()
        for part in torch.randperm(len(head)).split(BATCH):
            optimizer.zero_grad()
            model.loss(head[part], union.kinds[part], tail[part]).backward()
            optimizer.step()
        model.eval()
        now = scorer.choice(task)
        waited = 0 if now > best else waited + 1
        if now > best:
            best, weights = now, deepcopy(model.state_dict())
        if waited >= PATIENCE:
            break
    model.load_state_dict(weights)
    return scorer


def all_tails(model: KGEModel, heads: Tensor, kind: int, tails: Tensor) -> Tensor:
    """Scores of some heads with some tails in one relation, [heads, tails], as the model scores single triples."""
    head, tail, relation = model.node_emb(heads), model.node_emb(tails), model.rel_emb.weight[kind]
    if isinstance(model, TransE):
        norm = model.p_norm
        return -torch.cdist(F.normalize(head, p=norm, dim=-1) + relation, F.normalize(tail, p=norm, dim=-1), p=norm)
    if isinstance(model, RotatE):
        head_im, tail_im = model.node_emb_im(heads), model.node_emb_im(tails)
        turned = head * relation.cos() - head_im * relation.sin(), head * relation.sin() + head_im * relation.cos()
        return model.margin - torch.cdist(torch.cat(turned, 1), torch.cat([tail, tail_im], 1))
    if isinstance(model, ComplEx):
        head_im, tail_im, relation_im = (
            model.node_emb_im(heads),
            model.node_emb_im(tails),
            model.rel_emb_im.weight[kind],
        )
        real = (head * relation - head_im * relation_im) @ tail.T
        return real + (head_im * relation + head * relation_im) @ tail_im.T
    return (head * relation) @ tail.T
