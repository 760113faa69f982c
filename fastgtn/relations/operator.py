r"""The linear map behind every hop, :math:`h_c \mapsto \sum_t \alpha_{ct} A_t h_c`, never built as a matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.relations import kernels
from fastgtn.relations.diagonal import Diagonal
from fastgtn.relations.segments import Segments

_CACHE_LINE = 64  # bytes


@dataclass(frozen=True, eq=False)
class Edges:
    """Stored edges of the relations ``first … first + segments.num_relations`` and what they weigh."""

    segments: Segments
    values: Tensor  # [E]; may require a gradient
    first: int = 0

    @property
    def columns(self) -> slice:
        """The columns of the filters that belong to these relations."""
        return slice(self.first, self.first + self.segments.num_relations)

    @cached_property
    def transposed_values(self) -> Tensor:
        """The values in the order of the transposed segments; built once, for the backward passes."""
        return self.transpose(self.values)

    def transpose(self, values: Tensor) -> Tensor:
        return values.detach()[self.segments.transposed[1]]

    def at(self, first: int) -> "Edges":
        """The same edges as the relations from `first` on."""
        return replace(self, first=first)

    def divided(self, divisors: Tensor) -> "Edges":
        """Every value divided, in double precision; zero divisors leave it as it is."""
        values = self.values.double() / torch.where(divisors > 0, divisors, 1.0)
        return replace(self, values=values.to(self.values.dtype))

    def within(self, num_cols: int) -> "Edges":
        """Only the edges that come from the first columns."""
        kept = self.segments.col < num_cols
        return Edges(self.segments.keep(kept, num_cols), self.values[kept], self.first)

    def to(self, target: torch.device | str | torch.dtype) -> "Edges":
        segments = self.segments if isinstance(target, torch.dtype) else self.segments.to(target)
        return Edges(segments, self.values.to(target), self.first)


@dataclass(frozen=True, eq=False)
class Operator:
    """T relations over the same rows and columns; row i and column i are the same node for every row i."""

    num_rows: int
    num_cols: int
    num_relations: int
    edges: tuple[Edges, ...]
    diagonal: Diagonal | None

    def apply(self, h: Tensor, filters: Tensor) -> Tensor:
        r"""Compute :math:`\sum_t \alpha_{ct} A_t h_c` for all channels in one pass, in the precision of h.

        Args:
            h: Features, shape [columns, C, d].
            filters: Weights :math:`\alpha`, shape [C, T].
        """
        filters = filters.to(h.dtype)
        loops = h.new_zeros(0, h.size(1)) if self.diagonal is None else self.diagonal.pattern_weights(filters)
        values = [e.values.to(h.dtype) if e.values.requires_grad else e.values for e in self.edges]
        if h.device.type == "cpu" and h.dtype in (torch.float32, torch.float64):
            out: Tensor = _fused(self, h, filters, loops, values)
            return out
        return propagate_reference(self, h, filters, loops, values)

    @cached_property
    def smallest_value(self) -> float:
        """The smallest weight of an edge, at most zero."""
        return min([0.0, *(float(e.values.detach().min()) for e in self.edges if e.values.numel())])

    def widened(self, columns: Sequence[int], num_relations: int) -> "Operator":
        """Make room for other relations: relation t becomes relation ``columns[t]``."""
        edges = tuple(replace(e, first=columns[e.first] if e.segments.num_relations else 0) for e in self.edges)
        diagonal = None
        if self.diagonal is not None:
            marks = self.diagonal.marks.new_zeros(self.diagonal.marks.size(0), num_relations)
            marks[:, list(columns)] = self.diagonal.marks
            diagonal = Diagonal(marks, self.diagonal.pattern)
        return Operator(self.num_rows, self.num_cols, num_relations, edges, diagonal)

    def with_edges(self, edges: Edges) -> "Operator":
        """Fill the room of :meth:`widened`."""
        return replace(self, edges=(*self.edges, edges))

    def with_missing_loops(self, relations: int) -> "Operator":
        """Add a self-loop wherever a row has no edge of one of the first relations."""
        missing = torch.zeros(self.num_rows, self.num_relations, dtype=torch.bool)
        missing[:, :relations] = True
        for edges in self.edges:
            rows, relation = edges.segments.segment_rows.cpu(), edges.segments.relation.long().cpu()
            missing[rows, relation + edges.first] = False
        loops = Diagonal.from_marks(missing).to(self.edges[0].values.device)
        if self.diagonal is not None:
            loops = self.diagonal.merged(loops)
        return replace(self, diagonal=loops)

    def select_rows(self, rows: Tensor, *, all_columns: bool = False) -> "tuple[Operator, Tensor]":
        """The part that computes the given rows, and the columns it reads: the rows first, then the others.

        Args:
            all_columns: Keep the columns that no edge comes from, too.
        """
        kept = [e.segments.select_rows(rows) for e in self.edges]
        device = rows.device
        number = torch.full((self.num_cols,), -1, dtype=torch.int32, device=device)
        number[rows] = torch.arange(rows.numel(), dtype=torch.int32, device=device)
        reached = torch.full((self.num_cols,), all_columns, dtype=torch.bool, device=device)
        for segments, _ in kept:
            reached[segments.col.long()] = True
        others = (reached & (number < 0)).nonzero()[:, 0]
        columns = torch.cat([rows, others])
        number[others] = torch.arange(rows.numel(), columns.numel(), dtype=torch.int32, device=device)
        edges = tuple(
            Edges(segments.relabelled(number[segments.col.long()], columns.numel()), e.values[places], e.first)
            for e, (segments, places) in zip(self.edges, kept, strict=True)
        )
        diagonal = None if self.diagonal is None else self.diagonal.rows(rows)
        return Operator(rows.numel(), columns.numel(), self.num_relations, edges, diagonal), columns

    def to(self, target: torch.device | str | torch.dtype) -> "Operator":
        edges = tuple(e.to(target) for e in self.edges)
        diagonal = self.diagonal
        if diagonal is not None and not isinstance(target, torch.dtype):
            diagonal = diagonal.to(target)
        return Operator(self.num_rows, self.num_cols, self.num_relations, edges, diagonal)


def propagate_reference(
    operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, values: Sequence[Tensor]
) -> Tensor:
    """The same map in plain torch, one relation after the other: for other devices, and to check against."""
    out = h.new_zeros(operator.num_rows, *h.shape[1:])
    for edges, value in zip(operator.edges, values, strict=True):
        rows, relation, cols = edges.segments.edge_rows(), edges.segments.edge_relations(), edges.segments.col
        for t in range(edges.segments.num_relations):
            mine = (relation == t).nonzero()[:, 0]
            message = h[cols[mine].long()] * value[mine].to(h.dtype)[:, None, None]
            out = out + filters[:, edges.first + t, None] * torch.zeros_like(out).index_add(0, rows[mine], message)
    if operator.diagonal is not None:
        out = out + loops[operator.diagonal.pattern][:, :, None] * h[: operator.num_rows]
    return out


@torch.compiler.disable
def _fused(operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, values: list[Tensor]) -> Tensor:
    out: Tensor = _Fused.apply(operator, h, filters, loops, *values)
    return out


class _Fused(torch.autograd.Function):
    """The numba kernels behind autograd: forward over the rows, backward in one pass over the columns."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, *values: Tensor) -> Tensor:
        h = h.contiguous()
        ctx.operator = operator
        ctx.save_for_backward(h, filters, loops, *values)
        out = _empty((operator.num_rows, *h.shape[1:]), h)
        for number, (edges, value) in enumerate(zip(operator.edges, values, strict=True)):
            alpha, own = _array(filters[:, edges.columns]), _loops(operator, loops, number)
            kernels.sweep(
                edges.segments, _array(value), alpha, _table(h), _table(out), loops=own, keep=number > 0
            )  # fmt: skip
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, filters, loops, *values = ctx.saved_tensors
        g, table = _table(grad.contiguous()), _table(h)
        h_grad, filter_grad, loop_grad = _empty(h.shape, h), torch.zeros_like(filters), torch.zeros_like(loops)
        value_grads: list[Tensor | None] = []
        for number, (edges, value) in enumerate(zip(ctx.operator.edges, values, strict=True)):
            alpha, own = _array(filters[:, edges.columns]), _loops(ctx.operator, loops, number)
            weights = _array(edges.transposed_values if value is edges.values else edges.transpose(value))
            dots = kernels.sweep(
                edges.segments.transposed[0], weights, alpha, g, _table(h_grad),
                loops=own, keep=number > 0, probe=table if any(ctx.needs_input_grad[2:4]) else None,
            )  # fmt: skip
            if dots is not None:
                filter_grad[:, edges.columns] = torch.from_numpy(dots.alpha)
                loop_grad[: len(dots.loops)] += torch.from_numpy(dots.loops)
            wanted = ctx.needs_input_grad[4 + number]
            value_grads.append(_edge_gradient(edges, alpha, g, table) if wanted else None)
        return None, h_grad, filter_grad, loop_grad, *value_grads


def _loops(operator: Operator, weights: Tensor, number: int) -> kernels.Loops | None:
    """The self-loops, for the first edges; the others find them added."""
    if number or operator.diagonal is None:
        return None
    return kernels.Loops(_array(weights), _array(operator.diagonal.pattern))


def _edge_gradient(edges: Edges, alpha: np.ndarray, g: np.ndarray, table: np.ndarray) -> Tensor:
    return torch.from_numpy(kernels.edge_dots(edges.segments, alpha, g, table))


def _empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """Memory from numpy, which asks for huge pages: fewer page faults and address look-ups on large graphs.

    It begins at a cache line, where numpy may begin anywhere: else every row would touch one line more.
    """
    dtype = _array(like[:0]).dtype
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(num_bytes + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return torch.from_numpy(memory[start : start + num_bytes].view(dtype).reshape(shape))


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().contiguous().numpy()
    return array


def _table(tensor: Tensor) -> np.ndarray:
    """Channels side by side, one row per node: what one edge gathers is contiguous."""
    return _array(tensor).reshape(tensor.size(0), tensor.size(1) * tensor.size(2))
