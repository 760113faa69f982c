"""The fused hop on a CUDA device, in Triton: one pass over the edges of a row for all relations and channels.

The backward pass is the same loop over the transposed edges. It also leaves one inner product per (row, relation)
segment and channel, which are then added up in a fixed order: no atomic additions, so two runs give the same bits.
This file is imported only where a hop runs on such a device; CUDA builds of torch bring Triton along.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Operator


class TritonHop(torch.autograd.Function):
    """One hop, behind autograd."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, *values: Tensor) -> Tensor:
        h = h.contiguous()
        for edges in operator.edges:
            edges.segments.check()
        if operator.diagonal is not None:
            operator.diagonal.check()
        ctx.operator = operator
        ctx.save_for_backward(h, filters, loops, *values)
        out = h.new_empty(operator.num_rows, *h.shape[1:])
        for number, (edges, value) in enumerate(zip(operator.edges, values, strict=True)):
            own = _own(operator, loops, number)
            sweep(edges.segments, value, filters[:, edges.columns], h, out, own=own, keep=number > 0)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, filters, loops, *values = ctx.saved_tensors
        grad = grad.contiguous()
        h_grad, filter_grad, loop_grad = torch.empty_like(h), torch.zeros_like(filters), torch.zeros_like(loops)
        value_grads: list[Tensor | None] = []
        for number, (edges, value) in enumerate(zip(ctx.operator.edges, values, strict=True)):
            turned, order = edges.segments.transposed
            alpha, own = filters[:, edges.columns], _own(ctx.operator, loops, number)
            dots, own_dots = sweep(
                turned, value.detach()[order], alpha, grad, h_grad, own=own, keep=number > 0, probe=h
            )
            filter_grad[:, edges.columns] = _sums(dots, turned.relation, alpha.size(1)).T
            if own is not None:
                loop_grad += _sums(own_dots, own[1], loops.size(0))
            wanted = ctx.needs_input_grad[4 + number]
            value_grads.append(_value_gradient(edges.segments, alpha, grad, h) if wanted else None)
        return None, h_grad, filter_grad, loop_grad, *value_grads


def _own(operator: Operator, loops: Tensor, number: int) -> tuple[Tensor, Tensor] | None:
    """The self-loops, which are added with the first edges only."""
    return None if number or operator.diagonal is None else (loops.contiguous(), operator.diagonal.pattern)


def sweep(
    segments: Segments,
    values: Tensor,
    alpha: Tensor,
    x: Tensor,
    out: Tensor,
    *,
    own: tuple[Tensor, Tensor] | None = None,
    keep: bool = False,
    probe: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Write ``loops * x + sum_t alpha_t A_t x`` into `out`, or add it.

    Returns:
        With a probe, the inner products with it of each segment, [S, C], and of each row's own features, [R, C].
    """
    num_rows, (C, d) = segments.num_rows, x.shape[1:]
    loops, pattern = own if own is not None else (x.new_zeros(1, C), segments.row_ptr[:0])
    dots = x.new_empty(segments.relation.numel() if probe is not None else 1, C)
    own_dots = x.new_empty(max(pattern.numel(), 1), C)
    if num_rows:
        _sweep[(num_rows,)](
            segments.row_ptr,
            segments.relation,
            segments.seg_ptr,
            segments.col,
            values.contiguous(),
            alpha.contiguous(),
            loops,
            pattern,
            x,
            out,
            x if probe is None else probe,
            dots,
            own_dots,
            C,
            d,
            alpha.size(1),
            pattern.numel(),
            KEEP=keep,
            PROBE=probe is not None,
            CHANNELS=triton.next_power_of_2(C),
            WIDTH=triton.next_power_of_2(d),
        )
    return dots, own_dots[: pattern.numel()]


@triton.jit
def _sweep(  # type: ignore[no-untyped-def]
    row_ptr,
    relation,
    seg_ptr,
    col,
    val,
    alpha,
    loops,
    pattern,
    x,
    out,
    probe,
    dots,
    own_dots,
    C,
    d,
    T,
    num_own,
    KEEP: tl.constexpr,
    PROBE: tl.constexpr,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """One row of all channels."""
    i = tl.program_id(0).to(tl.int64)
    c, k = tl.arange(0, CHANNELS), tl.arange(0, WIDTH)
    is_channel = c < C
    inside = is_channel[:, None] & (k < d)[None, :]
    place = c[:, None] * d + k[None, :]
    row = i * C * d + place
    total = tl.zeros([CHANNELS, WIDTH], dtype=x.dtype.element_ty)
    if KEEP:
        total += tl.load(out + row, mask=inside, other=0.0)
    if PROBE:
        against = tl.load(probe + row, mask=inside, other=0.0)
    if i < num_own:
        own = tl.load(x + row, mask=inside, other=0.0)
        weight = tl.load(loops + tl.load(pattern + i) * C + c, mask=is_channel, other=0.0)
        total += weight[:, None] * own
        if PROBE:
            tl.store(own_dots + i * C + c, tl.sum(own * against, axis=1), mask=is_channel)
    for s in range(tl.load(row_ptr + i), tl.load(row_ptr + i + 1)):
        part = tl.zeros([CHANNELS, WIDTH], dtype=x.dtype.element_ty)
        for e in range(tl.load(seg_ptr + s), tl.load(seg_ptr + s + 1)):
            start = tl.load(col + e).to(tl.int64) * C * d
            weight_of_edge = tl.load(val + e).to(x.dtype.element_ty)
            part += weight_of_edge * tl.load(x + start + place, mask=inside, other=0.0)
        weight = tl.load(alpha + c * T + tl.load(relation + s), mask=is_channel, other=0.0)
        total += weight[:, None] * part
        if PROBE:
            tl.store(dots + s * C + c, tl.sum(part * against, axis=1), mask=is_channel)
    tl.store(out + row, total, mask=inside)


def _sums(parts: Tensor, group: Tensor, count: int) -> Tensor:
    """The sum of the rows of each group, [count, C], each in one order: there are few groups, of many rows."""
    none = parts.new_zeros(0, parts.size(1))
    return torch.cat([none, *((parts * (group == number)[:, None]).sum(0, keepdim=True) for number in range(count))])


def _value_gradient(segments: Segments, alpha: Tensor, grad: Tensor, h: Tensor) -> Tensor:
    """For each edge the inner product of its two ends, weighed by channel."""
    dots = (grad[segments.edge_rows()] * h[segments.col.long()]).sum(-1)  # [E, C]
    return (dots * alpha.T[segments.edge_relations()]).sum(-1)


def hop(operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, values: Sequence[Tensor]) -> Tensor:
    """One hop in Triton; the arguments are those of the plain torch version."""
    out: Tensor = TritonHop.apply(operator, h, filters, loops, *values)
    return out
