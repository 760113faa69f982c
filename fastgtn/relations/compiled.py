"""One hop as an operator of torch, ``torch.ops.fastgtn.hop``, for torch.compile and torch.export.

The eager path does not use this module. The operator takes tensors alone, so an exported program holds its graph as
constants, and runs in any process that has imported this module.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.checks import check_hop
from fastgtn.relations.layout.diagonal import Diagonal
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator, fused_backward, fused_forward

_KEPT = 8  # operators whose layout for the kernels is kept: as many hops as a model usually has

_operators: OrderedDict[tuple[int, ...], Operator] = OrderedDict()


def hop(operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, values: Sequence[Tensor]) -> Tensor:
    """The same as the fused kernels, one call per block of edges."""
    pattern = None if operator.diagonal is None else operator.diagonal.pattern
    out: Tensor | None = None
    for number, (edges, value) in enumerate(zip(operator.edges, values, strict=True)):
        layout, own = edges.segments, pattern if number == 0 else None
        part = hop_op(
            h,
            filters[:, edges.columns],
            loops if own is not None else loops[:0],
            value,
            layout.row_ptr,
            layout.relation,
            layout.seg_ptr,
            layout.col,
            layout.row_ptr[:0] if own is None else own,
            layout.num_relations,
        )
        out = part if out is None else out + part
    assert out is not None  # every operator has a block of edges, if only an empty one
    return out


@torch.library.custom_op("fastgtn::hop", mutates_args=())
def hop_op(
    h: Tensor,
    filters: Tensor,
    loops: Tensor,
    values: Tensor,
    row_ptr: Tensor,
    relation: Tensor,
    seg_ptr: Tensor,
    col: Tensor,
    pattern: Tensor,
    num_relations: int,
) -> Tensor:
    """One hop along one block of edges: features [columns, C, d] → [rows, C, d]."""
    check_hop(h, filters, h.size(0), num_relations)
    operator = _operator(h.size(0), values, row_ptr, relation, seg_ptr, col, pattern, num_relations)
    _check_loops(operator, loops, h.size(1))
    return fused_forward(operator, h.contiguous(), filters, loops, (values,))


@torch.library.custom_op("fastgtn::hop_backward", mutates_args=())
def hop_backward_op(
    grad: Tensor,
    h: Tensor,
    filters: Tensor,
    loops: Tensor,
    values: Tensor,
    row_ptr: Tensor,
    relation: Tensor,
    seg_ptr: Tensor,
    col: Tensor,
    pattern: Tensor,
    num_relations: int,
    wants_values: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of features, filters, self-loops and, if wanted, values."""
    check_hop(h, filters, h.size(0), num_relations)
    operator = _operator(h.size(0), values, row_ptr, relation, seg_ptr, col, pattern, num_relations)
    _check_loops(operator, loops, h.size(1))
    h_grad, filter_grad, loop_grad, value_grad = fused_backward(
        operator,
        grad,
        h.contiguous(),
        filters,
        loops,
        (values,),
        wants_filters=True,
        wants_values=(wants_values,),
    )
    assert h_grad is not None
    assert filter_grad is not None
    assert loop_grad is not None
    return h_grad, filter_grad, loop_grad, values.new_empty(0, dtype=h.dtype) if value_grad is None else value_grad


def _fake(h: Tensor, *others: Any) -> Tensor:
    row_ptr = others[3]
    return h.new_empty(row_ptr.size(0) - 1, h.size(1), h.size(2))


def _fake_backward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    _, h, filters, loops, values, *_, wants_values = inputs
    shapes = (h.shape, filters.shape, loops.shape, (values.size(0) if wants_values else 0,))
    made = [h.new_empty(shape) for shape in shapes]
    return made[0], made[1], made[2], made[3]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    *tensors, num_relations = inputs
    ctx.save_for_backward(*tensors)
    ctx.num_relations = num_relations


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    wants_values = ctx.needs_input_grad[3]
    found = hop_backward_op(grad, *ctx.saved_tensors, ctx.num_relations, wants_values)
    return *found[:3], found[3] if wants_values else None, None, None, None, None, None, None


hop_op.register_fake(_fake)
hop_backward_op.register_fake(_fake_backward)
hop_op.register_autograd(_gradients, setup_context=_setup)


def _check_loops(operator: Operator, loops: Tensor, channels: int) -> None:
    patterns = 0 if operator.diagonal is None else operator.diagonal.marks.size(0)
    if loops.dim() != 2 or loops.size(0) < patterns or loops.size(1) != channels:
        raise InputError(f"a hop with {patterns} patterns takes loops [≥ {patterns}, C], but got {tuple(loops.shape)}.")


def _operator(
    num_cols: int,
    values: Tensor,
    row_ptr: Tensor,
    relation: Tensor,
    seg_ptr: Tensor,
    col: Tensor,
    pattern: Tensor,
    num_relations: int,
) -> Operator:
    """The operator of these arrays, with what was computed for the kernels in earlier calls.

    The kept operators hold their arrays, so an address stands for the same array as long as its entry exists.
    """
    arrays = (values, row_ptr, relation, seg_ptr, col, pattern)
    key = (num_cols, num_relations, *(number for array in arrays for number in (array.data_ptr(), array.numel())))
    found = _operators.get(key)
    if found is None:
        segments = Segments(row_ptr, relation, seg_ptr, col, num_cols, num_relations)
        diagonal = None
        if pattern.numel():
            patterns = int(pattern.max()) + 1
            diagonal = Diagonal(torch.zeros(patterns, num_relations, dtype=torch.bool), pattern)
        edges = Edges(segments, values.detach())
        found = _operators[key] = Operator(segments.num_rows, num_cols, num_relations, (edges,), diagonal)
        while len(_operators) > _KEPT:
            _operators.popitem(last=False)
    return found
