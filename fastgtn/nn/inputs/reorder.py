"""Rows in another order. The gradient is a copy as well; that of an index adds rows up, which takes much longer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def reordered(rows: Tensor, order: Tensor, back: Tensor) -> Tensor:
    """The same as ``rows[order]``.

    Args:
        order: A permutation of the rows.
        back: The permutation that undoes it, see :func:`inverse`.
    """
    out: Tensor = _Reordered.apply(rows, order, back)
    return out


def inverse(order: Tensor) -> Tensor:
    """The permutation that undoes another one."""
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


class _Reordered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(order, back)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        order, back = ctx.saved_tensors
        return reordered(grad, back, order), None, None  # which has a gradient itself
