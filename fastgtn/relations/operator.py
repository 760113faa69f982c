r"""The linear map behind every hop, :math:`h_c \mapsto \sum_t \alpha_{ct} A_t h_c`, never built as a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.relations.checks import check_hop, check_part, check_shape, check_times, check_values
from fastgtn.relations.kernels import hop as kernels
from fastgtn.relations.kernels.buffers import empty_tensor
from fastgtn.relations.layout.diagonal import Diagonal
from fastgtn.relations.layout.segments import Segments

FEW = 32  # a selection that is this many times smaller than the graph is sorted, which reads no table of all nodes


@dataclass(frozen=True, eq=False)
class Edges:
    """Stored edges of the relations ``first … first + segments.num_relations``, their weights and maybe their times."""

    segments: Segments
    values: Tensor  # [E]; may require a gradient
    first: int = 0
    times: Tensor | None = None  # float64 [E], NaN = always there; None where no edge has a time

    def __post_init__(self) -> None:
        check_values(self.values, self.segments.num_edges, self.first)
        if self.times is not None:
            check_times(self.times, self.segments.num_edges)

    def __reduce__(self) -> tuple[Any, ...]:
        return Edges, (self.segments, self.values, self.first, self.times)

    @property
    def columns(self) -> slice:
        """The columns of the filters that belong to these relations."""
        return slice(self.first, self.first + self.segments.num_relations)

    @cached_property
    def transposed_values(self) -> Tensor:
        """The values in the order of the transposed segments; built once, for the backward passes."""
        return self.transpose(self.values)

    def transpose(self, values: Tensor) -> Tensor:
        return values.detach().index_select(0, self.segments.transposed[1])  # faster than an index

    def at(self, first: int) -> "Edges":
        """The same edges as the relations from `first` on."""
        return replace(self, first=first)

    def divided(self, divisors: Tensor) -> "Edges":
        """Every value divided, in double precision; zero divisors leave it as it is."""
        values = self.values.double() / torch.where(divisors > 0, divisors, 1.0)
        return replace(self, values=values.to(self.values.dtype))

    def within(self, num_cols: int) -> "Edges":
        """Only the edges from the first columns."""
        return self._where(self.segments.col < num_cols, num_cols)

    def before(self, moment: float) -> "Edges":
        """Only the edges that are older than a moment; they need no times any more."""
        if self.times is None:
            return self
        past = self._where(~(self.times >= moment), self.segments.num_cols)  # NaN is not later than anything
        return replace(past, times=None)

    def _where(self, kept: Tensor, num_cols: int) -> "Edges":
        times = None if self.times is None else self.times[kept]
        return Edges(self.segments.keep(kept, num_cols), self.values[kept], self.first, times)

    def to(self, target: torch.device | str | torch.dtype) -> "Edges":
        times = self.times
        if isinstance(target, torch.dtype):
            return Edges(self.segments, self.values.to(target), self.first, times)
        times = None if times is None else times.to(target)
        return Edges(self.segments.to(target), self.values.to(target), self.first, times)


@dataclass(frozen=True, eq=False)
class Operator:
    """T relations over the same rows and columns; row i and column i are the same node for every row i."""

    num_rows: int
    num_cols: int
    num_relations: int
    edges: tuple[Edges, ...]
    diagonal: Diagonal | None

    def __post_init__(self) -> None:
        check_shape(self.num_rows, self.num_cols, self.num_relations)
        for edges in self.edges:
            segments = edges.segments
            check_part((segments.num_rows, segments.num_cols), edges.columns.stop, self._shape)
        if self.diagonal is not None:
            marks, pattern = self.diagonal.marks, self.diagonal.pattern
            check_part((pattern.numel(), self.num_cols), marks.size(1), self._shape, loops=True)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.num_rows, self.num_cols, self.num_relations

    def __reduce__(self) -> tuple[Any, ...]:
        return Operator, (*self._shape, self.edges, self.diagonal)

    def apply(self, h: Tensor, filters: Tensor) -> Tensor:
        r"""Compute :math:`\sum_t \alpha_{ct} A_t h_c` for all channels in one pass, in the precision of h.

        Args:
            h: Features, shape [columns, C, d].
            filters: Weights :math:`\alpha`, shape [C, T].
        """
        check_hop(h, filters, self.num_cols, self.num_relations)
        kind = h.device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            with torch.autocast(h.device.type, enabled=False):  # which would round the filters
                return self.apply(h, filters)
        on_cpu = h.device.type == "cpu"
        if h.dtype in (torch.bfloat16, torch.float16):
            return self.apply(h.float(), filters).to(h.dtype)  # sums of many neighbours need the longer numbers
        filters = filters.to(h.dtype)
        loops = h.new_zeros(0, h.size(1)) if self.diagonal is None else self.diagonal.pattern_weights(filters)
        values = [e.values.to(h.dtype) if e.values.requires_grad else e.values for e in self.edges]
        in_kernel = h.dtype in (torch.float32, torch.float64)
        if in_kernel and has_triton(h.device):
            from fastgtn.relations.kernels import gpu

            return gpu.hop(self, h, filters, loops, values)
        if not on_cpu or not in_kernel:
            return propagate_reference(self, h, filters, loops, values)
        if torch.compiler.is_compiling():
            from fastgtn.relations import compiled

            return compiled.hop(self, h, filters, loops, values)
        out: Tensor = _Fused.apply(self, h, filters, loops, *values)
        return out

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
            all_columns: Also keep columns without edges.
        """
        kept = [e.segments.select_rows(rows) for e in self.edges]
        read = [segments.col for segments, _ in kept]
        is_few = not all_columns and FEW * (rows.numel() + sum(map(len, read))) < self.num_cols
        columns, numbers = (
            _sorted_columns(rows, read) if is_few else _marked_columns(rows, read, self.num_cols, all_columns)
        )
        edges = tuple(
            Edges(
                segments.relabelled(number, columns.numel()),
                e.values[places],
                e.first,
                None if e.times is None else e.times[places],
            )
            for e, (segments, places), number in zip(self.edges, kept, numbers, strict=True)
        )
        diagonal = None if self.diagonal is None else self.diagonal.rows(rows)
        return Operator(rows.numel(), columns.numel(), self.num_relations, edges, diagonal), columns

    def to(self, target: torch.device | str | torch.dtype) -> "Operator":
        edges = tuple(e.to(target) for e in self.edges)
        diagonal = self.diagonal
        if diagonal is not None and not isinstance(target, torch.dtype):
            diagonal = diagonal.to(target)
        return Operator(self.num_rows, self.num_cols, self.num_relations, edges, diagonal)


def _marked_columns(
    rows: Tensor, read: Sequence[Tensor], num_cols: int, all_columns: bool
) -> tuple[Tensor, list[Tensor]]:
    """The rows and then the other columns that are read, in order; and the places of those that were read."""
    device = rows.device
    number = torch.full((num_cols,), -1, dtype=torch.int32, device=device)
    number[rows] = torch.arange(rows.numel(), dtype=torch.int32, device=device)
    reached = torch.full((num_cols,), all_columns, dtype=torch.bool, device=device)
    for col in read:
        reached[col.long()] = True
    others = (reached & (number < 0)).nonzero()[:, 0]
    columns = torch.cat([rows, others])
    number[others] = torch.arange(rows.numel(), columns.numel(), dtype=torch.int32, device=device)
    return columns, [number[col.long()] for col in read]


def _sorted_columns(rows: Tensor, read: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The same for few rows of a large graph."""
    found = torch.cat([rows[:0], *(col.long() for col in read)]).unique()
    columns = torch.cat([rows, found[~torch.isin(found, rows)]])
    in_order, place = columns.sort(stable=True)
    return columns, [place[torch.searchsorted(in_order, col.long())].int() for col in read]


def has_triton(device: torch.device) -> bool:
    """Whether a hop on this device runs in the fused Triton kernel; CUDA builds of torch bring Triton along."""
    return device.type == "cuda" and find_spec("triton") is not None


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


class _Fused(torch.autograd.Function):
    """The numba kernels behind autograd: forward over the rows, backward in one pass over the columns."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, *values: Tensor) -> Tensor:
        h = h.contiguous()
        ctx.operator = operator
        ctx.save_for_backward(h, filters, loops, *values)
        return fused_forward(operator, h, filters, loops, values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, filters, loops, *values = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return None, *fused_backward(
            ctx.operator, grad, h, filters, loops, values, wants_filters=any(wanted[2:4]), wants_values=wanted[4:]
        )


def fused_forward(operator: Operator, h: Tensor, filters: Tensor, loops: Tensor, values: Sequence[Tensor]) -> Tensor:
    """One hop in the kernels, without gradients; h is contiguous."""
    if operator.diagonal is not None:
        operator.diagonal.check()
    out = empty_tensor((operator.num_rows, *h.shape[1:]), h.dtype)
    for number, (edges, value) in enumerate(zip(operator.edges, values, strict=True)):
        alpha, own = _array(filters[:, edges.columns]), _loops(operator, loops, number)
        kernels.sweep(edges.segments, _array(value), alpha, _table(h), _table(out), loops=own, keep=number > 0)
    return out


def fused_backward(
    operator: Operator,
    grad: Tensor,
    h: Tensor,
    filters: Tensor,
    loops: Tensor,
    values: Sequence[Tensor],
    *,
    wants_filters: bool,
    wants_values: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of h, filters, self-loops and each of the values."""
    g, table = _table(grad.contiguous()), _table(h)
    h_grad, filter_grad, loop_grad = empty_tensor(h.shape, h.dtype), torch.zeros_like(filters), torch.zeros_like(loops)
    value_grads: list[Tensor | None] = []
    for number, (edges, value) in enumerate(zip(operator.edges, values, strict=True)):
        alpha, own = _array(filters[:, edges.columns]), _loops(operator, loops, number)
        weights = _array(edges.transposed_values if value is edges.values else edges.transpose(value))
        dots = kernels.sweep(
            edges.segments.transposed[0],
            weights,
            alpha,
            g,
            _table(h_grad),
            loops=own,
            keep=number > 0,
            probe=table if wants_filters else None,
        )
        if dots is not None:
            filter_grad[:, edges.columns] = torch.from_numpy(dots.alpha)
            loop_grad[: len(dots.loops)] += torch.from_numpy(dots.loops)
        value_grads.append(_edge_gradient(edges, alpha, g, table) if wants_values[number] else None)
    return h_grad, filter_grad, loop_grad, *value_grads


def _loops(operator: Operator, weights: Tensor, number: int) -> kernels.Loops | None:
    """The self-loops, which are added with the first edges only."""
    if number or operator.diagonal is None:
        return None
    return kernels.Loops(_array(weights), _array(operator.diagonal.pattern))


def _edge_gradient(edges: Edges, alpha: np.ndarray, g: np.ndarray, table: np.ndarray) -> Tensor:
    return torch.from_numpy(kernels.edge_dots(edges.segments, alpha, g, table))


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().contiguous().numpy()
    return array


def _table(tensor: Tensor) -> np.ndarray:
    """Channels side by side, one row per node, so that an edge gathers contiguous memory."""
    return _array(tensor).reshape(tensor.size(0), tensor.size(1) * tensor.size(2))
