"""The obviously right version of everything: dense matrices, one loop per formula, no cleverness."""

import torch
from torch import Tensor

from fastgtn.relations import RelationStack


def dense(stack: RelationStack) -> Tensor:
    """All relations as matrices [T, N, N]."""
    return torch.stack([stack[t].to_dense() for t in range(len(stack))])


def mixed(matrices: Tensor, filters: Tensor) -> Tensor:
    """Soft relations Q_c = Σ_t α_ct A_t, [C, N, N]."""
    return torch.einsum("ct,tij->cij", filters, matrices)


def row_normalized(matrix: Tensor, empty_rows: str = "zero") -> Tensor:
    """Divide rows by their sums; rows without a sum stay zero or become self-loops."""
    degree = matrix.sum(-1, keepdim=True)
    out = matrix / torch.where(degree > 0, degree, 1)
    if empty_rows == "self":
        out = out + torch.diag_embed((degree[..., 0] == 0).to(matrix))
    return out


def learned_graph(matrices: Tensor, filters: Tensor) -> Tensor:
    """GTN's meta-path graphs of the paper, D^-1 after every product, [C, N, N]."""
    product = mixed(matrices, filters[0])
    for hop in filters[1:]:
        product = row_normalized(product @ mixed(matrices, hop))
    return product


def gtn(matrices: Tensor, filters: Tensor, z: Tensor, gamma: float) -> Tensor:
    """One convolution on the learned graphs, D̃^-1 (A + γI) z for every channel: [N, d] → [N, C, d]."""
    graph = learned_graph(matrices, filters)
    return (row_normalized(graph + gamma * torch.eye(graph.size(-1)).to(graph)) @ z).transpose(0, 1)


def fast_gtn(matrices: Tensor, filters: Tensor, z: Tensor, gamma: float) -> Tensor:
    """γ z_c + (1 - γ) F_1 … F_K z_c for every channel: [N, C, d] → [N, C, d]."""
    h = z.transpose(0, 1)
    for hop in filters.flip(0):
        h = mixed(matrices, hop) @ h
    return gamma * z + (1 - gamma) * h.transpose(0, 1)


def non_local(g: Tensor, n: int, *, exclude_self: bool = False) -> Tensor:
    """softmax over the n largest entries of each row of G Gᵀ, as a dense matrix."""
    similarity = g @ g.T
    if exclude_self:
        similarity = similarity.masked_fill(torch.eye(len(g), dtype=torch.bool), -torch.inf)
    top = similarity.topk(n, dim=1)
    return torch.zeros_like(similarity).scatter(1, top.indices, top.values.softmax(1))
