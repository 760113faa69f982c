"""Explicit sparse products with gradients: meta-path graphs that can be inspected, exported and checked."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.kernels.compile import kernel
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator


class Coordinates(NamedTuple):
    """A sparse matrix as (row, column, value) triples, sorted by row and column, each place once."""

    rows: Tensor
    cols: Tensor
    values: Tensor


def coordinates(operator: Operator, relation: int) -> Coordinates:
    """One relation with its implicit self-loops written out."""
    places, parts = [], []
    for edges in operator.edges:
        edges.segments.check()
        mine = (edges.segments.edge_relations() + edges.first == relation).nonzero()[:, 0]
        rows, cols = edges.segments.edge_rows()[mine], edges.segments.col[mine].long()
        places.append(rows * operator.num_cols + cols)
        parts.append(edges.values[None, mine])
    if operator.diagonal is not None:
        looped = operator.diagonal.marks[:, relation][operator.diagonal.pattern].nonzero()[:, 0]
        places.append(looped * (operator.num_cols + 1))
        parts.append(parts[0].new_ones(1, looped.numel()))
    return _coalesced(places, parts, operator.num_cols)[0]


def mix(operator: Operator, filters: Tensor) -> Operator:
    r"""Build :math:`Q_c = \sum_t \alpha_{ct} A_t` for every channel, with gradients for the filters."""
    places, parts = [], []
    for edges in operator.edges:
        edges.segments.check()
        places.append(edges.segments.edge_rows() * operator.num_cols + edges.segments.col.long())
        weights = filters[:, edges.columns]
        parts.append(weights[:, edges.segments.edge_relations()] * edges.values.to(filters.dtype))  # [C, E]
    if operator.diagonal is not None:
        looped = operator.diagonal.marks.any(1)[operator.diagonal.pattern].nonzero()[:, 0]
        places.append(looped * (operator.num_cols + 1))
        parts.append(operator.diagonal.weights(filters)[looped].T)
    shape = (operator.num_rows, operator.num_cols)
    return _stacked(_coalesced(places, parts, operator.num_cols), shape)


def _coalesced(places: list[Tensor], parts: list[Tensor], num_cols: int) -> list[Coordinates]:
    """Add values at the same position ``row * num_cols + col``; one matrix per row of the values."""
    place, index = torch.cat(places).unique(return_inverse=True)
    values = torch.cat(parts, 1)
    sums = values.new_zeros(values.size(0), place.numel()).index_add(1, index, values)
    rows, cols = place // max(num_cols, 1), place % max(num_cols, 1)
    return [Coordinates(rows, cols, value) for value in sums]


def compose(left: Operator, right: Operator) -> Operator:
    """Multiply relation by relation, :math:`A_t B_t`, with gradients for the values of both."""
    if left.num_cols != right.num_rows:
        raise InputError(f"a product needs as many rows as columns, but got {right.num_rows} and {left.num_cols}.")
    shape = (left.num_rows, right.num_cols)
    pairs = zip(_matrices(left), _matrices(right), strict=True)
    return _stacked([_product(a, b, left.num_rows, left.num_cols, right.num_cols) for a, b in pairs], shape)


def heaviest_entries(operator: Operator, filters: Tensor, top: int, *, normalize: bool) -> Operator:
    r"""The `top` largest entries per row of :math:`F_{1c} ⋯ F_{Kc}`, divided by the sum of the whole row.

    Rows are computed one at a time, so that memory is O(N·top) and the product itself is never held.
    """
    K = len(filters)
    mixes = [_matrices(mix(operator, filters[k])) for k in range(K)]
    kept = []
    for hops in zip(*mixes, strict=True):
        ptr = np.stack([_pointers(hop.rows, operator.num_rows) for hop in hops])
        offsets = np.cumsum([0, *(hop.rows.numel() for hop in hops)])
        col = np.concatenate([hop.cols.numpy() for hop in hops])
        values = np.concatenate([hop.values.double().numpy() for hop in hops])
        found = _heaviest(ptr + offsets[:-1, None], col, values, operator.num_cols, top, normalize)
        rows, cols, weights = (torch.from_numpy(array) for array in found)
        kept.append(Coordinates(rows, cols, weights.to(filters.dtype)))
    return _stacked(kept, (operator.num_rows, operator.num_cols))


def _matrices(operator: Operator) -> list[Coordinates]:
    return [coordinates(operator, t) for t in range(operator.num_relations)]


def _stacked(matrices: list[Coordinates], shape: tuple[int, int]) -> Operator:
    """One operator from explicit matrices, one relation each."""
    counts = torch.tensor([m.rows.numel() for m in matrices])
    segments, order = Segments.build(
        torch.cat([m.rows for m in matrices]),
        torch.cat([m.cols for m in matrices]),
        torch.repeat_interleave(torch.arange(len(matrices)), counts),
        shape=shape,
        num_relations=len(matrices),
    )
    device = matrices[0].values.device
    values = torch.cat([m.values for m in matrices])[order.to(device)]
    return Operator(*shape, len(matrices), (Edges(segments.to(device), values),), None)


def _product(a: Coordinates, b: Coordinates, rows: int, inner: int, columns: int) -> Coordinates:
    a_ptr, b_ptr = _pointers(a.rows, rows), _pointers(b.rows, inner)
    a_col, b_col = a.cols.numpy(), b.cols.numpy()
    ptr, col = _pattern(a_ptr, a_col, b_ptr, b_col, columns)
    values: Tensor = _Product.apply((a_ptr, a_col, b_ptr, b_col, ptr, col, columns), a.values, b.values)
    return Coordinates(torch.from_numpy(np.repeat(np.arange(rows), np.diff(ptr))), torch.from_numpy(col), values)


def _pointers(rows: Tensor, count: int) -> np.ndarray:
    return np.searchsorted(rows.numpy(), np.arange(count + 1))


class _Product(torch.autograd.Function):
    """The values of a sparse product whose places are known."""

    @staticmethod
    def forward(ctx: Any, pattern: tuple[Any, ...], a: Tensor, b: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(a, b)
        out = np.empty(len(pattern[5]), a.detach().numpy().dtype)
        _product_values(pattern, a.detach().numpy(), b.detach().numpy(), out)
        return torch.from_numpy(out)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        a, b = ctx.saved_tensors
        a_grad, b_grad = torch.empty_like(a), torch.zeros_like(b)
        arrays = (t.detach().contiguous().numpy() for t in (a, b, grad, a_grad, b_grad))
        _product_gradients(ctx.pattern, *arrays)
        return None, a_grad, b_grad


@kernel
def _pattern(
    a_ptr: np.ndarray, a_col: np.ndarray, b_ptr: np.ndarray, b_col: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the product of two sparse matrices can be non-zero: row pointers and sorted columns."""
    rows = len(a_ptr) - 1
    seen = np.full(columns, -1, np.int64)
    ptr = np.zeros(rows + 1, np.int64)
    for i in range(rows):
        for e in range(a_ptr[i], a_ptr[i + 1]):
            for f in range(b_ptr[a_col[e]], b_ptr[a_col[e] + 1]):
                if seen[b_col[f]] != i:
                    seen[b_col[f]] = i
                    ptr[i + 1] += 1
    ptr = np.cumsum(ptr)
    col = np.empty(ptr[-1], np.int64)
    seen[:] = -1
    for i in range(rows):
        place = ptr[i]
        for e in range(a_ptr[i], a_ptr[i + 1]):
            for f in range(b_ptr[a_col[e]], b_ptr[a_col[e] + 1]):
                if seen[b_col[f]] != i:
                    seen[b_col[f]] = i
                    col[place] = b_col[f]
                    place += 1
        col[ptr[i] : ptr[i + 1]] = np.sort(col[ptr[i] : ptr[i + 1]])
    return ptr, col


@kernel
def _product_values(pattern: tuple[Any, ...], a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    a_ptr, a_col, b_ptr, b_col, ptr, col, columns = pattern
    row = np.zeros(columns, out.dtype)
    for i in range(len(ptr) - 1):
        for e in range(a_ptr[i], a_ptr[i + 1]):
            for f in range(b_ptr[a_col[e]], b_ptr[a_col[e] + 1]):
                row[b_col[f]] += a[e] * b[f]
        for g in range(ptr[i], ptr[i + 1]):
            out[g] = row[col[g]]
            row[col[g]] = 0


@kernel
def _product_gradients(
    pattern: tuple[Any, ...], a: np.ndarray, b: np.ndarray, grad: np.ndarray, a_grad: np.ndarray, b_grad: np.ndarray
) -> None:
    a_ptr, a_col, b_ptr, b_col, ptr, col, columns = pattern
    row = np.zeros(columns, grad.dtype)
    for i in range(len(ptr) - 1):
        for g in range(ptr[i], ptr[i + 1]):
            row[col[g]] = grad[g]
        for e in range(a_ptr[i], a_ptr[i + 1]):
            dot = 0.0
            for f in range(b_ptr[a_col[e]], b_ptr[a_col[e] + 1]):
                dot += row[b_col[f]] * b[f]
                b_grad[f] += row[b_col[f]] * a[e]
            a_grad[e] = dot
        for g in range(ptr[i], ptr[i + 1]):
            row[col[g]] = 0


@kernel
def _heaviest(
    ptr: np.ndarray, col: np.ndarray, values: np.ndarray, columns: int, top: int, normalize: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiply one unit row at a time through all hops and keep its largest entries."""
    rows = ptr.shape[1] - 1
    row, nxt = np.zeros(columns), np.zeros(columns)
    here, there = np.empty(columns, np.int64), np.empty(columns, np.int64)
    out_row, out_col = np.empty(rows * min(top, columns), np.int64), np.empty(rows * min(top, columns), np.int64)
    out_value = np.empty(rows * min(top, columns))
    size = 0
    for i in range(rows):
        here[0], count = i, 1
        row[i] = 1.0
        for k in range(ptr.shape[0]):
            reached = 0
            for a in range(count):
                j = here[a]
                for e in range(ptr[k, j], ptr[k, j + 1]):
                    weight = row[j] * values[e]
                    if weight == 0.0:  # a relation that is not chosen at all
                        continue
                    if nxt[col[e]] == 0.0:
                        there[reached] = col[e]
                        reached += 1
                    nxt[col[e]] += weight
                row[j] = 0.0
            row, nxt = nxt, row
            here, there = there, here
            count = reached
        ends = here[:count].copy()
        weights = row[ends]
        row[ends] = 0.0
        total = weights.sum() if normalize else 1.0
        for a in np.argsort(-weights, kind="mergesort")[:top]:
            if weights[a] > 0.0:
                out_row[size], out_col[size], out_value[size] = i, ends[a], weights[a] / total
                size += 1
    return out_row[:size], out_col[:size], out_value[:size]
