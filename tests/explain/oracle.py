"""Effective meta-paths the slow way: all T^K sequences, dense matrices, every step really taken or not."""

from collections import defaultdict

import torch
from torch import Tensor

from fastgtn.relations import IDENTITY, RelationStack

Steps = tuple[int, ...]


def split_matrices(raw: RelationStack, stack: RelationStack) -> list[tuple[Tensor, Tensor]]:
    """Each matrix as the part that moves and the part that stays, judged by the edges of the raw graph."""
    parts = []
    for t, relation in enumerate(stack.relations):
        matrix = stack[t].to_dense()
        moving = torch.zeros_like(matrix)
        if relation != IDENTITY:
            for i in range(len(matrix)):
                if raw[t].to_dense()[i].any():
                    moving[i] = matrix[i]
        parts.append((moving, matrix - moving))
    return parts


def path_operators(parts: list[tuple[Tensor, Tensor]], filters: Tensor) -> dict[Steps, Tensor]:
    """The weighted matrix of every effective path of one channel; filters [K, T]. Together they are the product."""
    found: dict[Steps, Tensor] = defaultdict(lambda: torch.zeros_like(parts[0][0]))

    def extend(k: int, taken: Steps, matrix: Tensor) -> None:
        if k == len(filters):
            found[taken] = found[taken] + matrix
            return
        for t, (moving, staying) in enumerate(parts):
            for part, longer in ((moving, (*taken, t)), (staying, taken)):
                product = filters[k, t] * matrix @ part
                if product.any():
                    extend(k + 1, longer, product)

    extend(0, (), torch.eye(len(parts[0][0]), dtype=filters.dtype))
    return dict(found)


def mean_shares(operators: dict[Steps, Tensor], rows: Tensor) -> dict[Steps, float]:
    """The mean over the rows that have any path of w_p (A_p 1)_i / v_i."""
    if not operators:
        return {}
    total = torch.stack([m.sum(1) for m in operators.values()]).sum(0)[rows]
    alive = total > 0
    if not alive.any():
        return {}
    shares = {p: float((m.sum(1)[rows][alive] / total[alive]).mean()) for p, m in operators.items()}
    return {p: share for p, share in shares.items() if share > 0}
