"""The fused kernels: one pass over the edges for all relations and channels, forward and backward.

Threads share the arrays, so nothing inside a loop over rows may count references to them: no views, and no calls of
other kernels, which numba accompanies with atomic counters. What is called there are the functions of `row_sums`.
"""

from typing import NamedTuple

import numpy as np

from fastgtn.errors import InputError
from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.row_sums import add_edges, add_rows
from fastgtn.relations.kernels.team import on_team
from fastgtn.relations.layout.segments import Segments

Array = np.ndarray


@kernel
def _sweep(
    first: int,
    last: int,
    chunks: Array,
    edge_ptr: Array,
    relation: Array,
    col: Array,
    val: Array,
    alpha: Array,
    loops: Array,
    pattern: Array,
    x: Array,
    out: Array,
    keep: bool,
) -> None:
    """Compute chunks of rows of ``out = loops[pattern] * x + sum_t alpha_t A_t x``; with `keep`, add them to `out`.

    It reads the edges of a row in one loop, with a relation for each; the end of every short segment would be a branch
    that the processor guesses wrong.
    """
    num_channels, num_relations = alpha.shape
    width = out.shape[1]
    d = width // num_channels
    flat, flat_out, flat_alpha = x.reshape(-1), out.reshape(-1), alpha.reshape(-1)
    for i in range(chunks[first], chunks[last]):
        for c in range(num_channels):
            has_own = i < pattern.shape[0]  # a row's own column has its own number; there may be more columns than rows
            own = loops[pattern[i], c] if has_own else alpha.dtype.type(0)
            add_edges(
                flat,
                i,
                c * d,
                d,
                width,
                edge_ptr[i],
                edge_ptr[i + 1],
                relation,
                col,
                val,
                flat_alpha,
                c * num_relations,
                has_own,
                own,
                keep,
                flat_out,
            )


@kernel
def _sweep_with_dots(
    first: int,
    last: int,
    chunks: Array,
    row_ptr: Array,
    relation: Array,
    seg_ptr: Array,
    col: Array,
    val: Array,
    alpha: Array,
    loops: Array,
    pattern: Array,
    x: Array,
    out: Array,
    keep: bool,
    probe: Array,
    alpha_grad: Array,
    own_grad: Array,
) -> None:
    """The same, and ``alpha_grad[chunk, c, t] = <A_t x, probe>``, ``own_grad[c, i] = <x_i, probe_i>``."""
    num_channels = alpha.shape[0]
    width = out.shape[1]
    d = width // num_channels
    flat, flat_out, flat_probe = x.reshape(-1), out.reshape(-1), probe.reshape(-1)
    own, one = np.empty(1, np.int32), np.ones(1, x.dtype)
    for chunk in range(first, last):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            own[0] = i
            for c in range(num_channels):
                at, place = c * d, i * width + c * d
                if not keep:
                    for k in range(place, place + d):
                        flat_out[k] = 0
                if i < pattern.shape[0]:
                    weight = loops[pattern[i], c]
                    own_grad[c, i] = add_rows(flat, at, d, width, own, one, 0, 1, weight, flat_out, flat_probe, place)
                for s in range(row_ptr[i], row_ptr[i + 1]):
                    t = relation[s]
                    alpha_grad[chunk, c, t] += add_rows(
                        flat,
                        at,
                        d,
                        width,
                        col,
                        val,
                        seg_ptr[s],
                        seg_ptr[s + 1],
                        alpha[c, t],
                        flat_out,
                        flat_probe,
                        place,
                    )


@kernel
def _edge_dots(
    first: int,
    last: int,
    chunks: Array,
    row_ptr: Array,
    relation: Array,
    seg_ptr: Array,
    col: Array,
    alpha: Array,
    left: Array,
    right: Array,
    out: Array,
) -> None:
    """For each edge (i, j) of relation t compute ``sum_c alpha[c, t] <left[i, c], right[j, c]>``."""
    num_channels = alpha.shape[0]
    d = left.shape[1] // num_channels
    for i in range(chunks[first], chunks[last]):
        for s in range(row_ptr[i], row_ptr[i + 1]):
            for e in range(seg_ptr[s], seg_ptr[s + 1]):
                dots = 0.0
                for c in range(num_channels):
                    dot = 0.0
                    for k in range(c * d, c * d + d):
                        dot += left[i, k] * right[col[e], k]
                    dots += alpha[c, relation[s]] * dot
                out[e] = dots


_sweep_all = kernel(lambda threads, count, *arguments: on_team(_sweep, threads, count, arguments))
_sweep_with_dots_all = kernel(lambda threads, count, *arguments: on_team(_sweep_with_dots, threads, count, arguments))
_edge_dots_all = kernel(lambda threads, count, *arguments: on_team(_edge_dots, threads, count, arguments))


class Loops(NamedTuple):
    """Self-loops: row i has one of weight ``weights[pattern[i], c]`` in channel c."""

    weights: Array  # [P, C]
    pattern: Array  # int64 [R], or empty: no self-loops


class Dots(NamedTuple):
    """Inner products of a sweep with a probe: the gradients of the filters and of the self-loops."""

    alpha: Array  # [C, T]: <A_t x, probe>
    loops: Array  # [P, C]: <x, probe> over the rows of each pattern


def sweep(
    segments: Segments,
    val: Array,
    alpha: Array,
    x: Array,
    out: Array,
    *,
    loops: Loops | None = None,
    keep: bool = False,
    probe: Array | None = None,
) -> Dots | None:
    """Write ``loops * x + sum_t alpha_t A_t x`` into `out` (or add it), rows of all channels side by side."""
    weights, pattern = loops or Loops(np.zeros((0, len(alpha)), alpha.dtype), np.zeros(0, np.int64))
    _check_sweep(segments, val, alpha, x, out, pattern)
    _require(probe is None or probe.shape == out.shape, "rows of the probe")
    count = len(segments.chunks) - 1
    hop = (val, alpha, weights, pattern, x, out, keep)
    if probe is None:
        edges = (segments.chunks, segments.edge_ptr, segments.relation_of_edge, segments.arrays[-1])
        run_ranges(_sweep, _sweep_all, count, *edges, *hop)
        return None
    arrays = (segments.chunks, *segments.arrays, *hop)
    alpha_grad, own_grad = np.zeros((count, *alpha.shape)), np.zeros((len(alpha), len(pattern)), x.dtype)
    run_ranges(_sweep_with_dots, _sweep_with_dots_all, count, *arrays, probe, alpha_grad, own_grad)
    by_pattern = [np.bincount(pattern, weights=channel, minlength=len(weights)) for channel in own_grad]
    return Dots(alpha_grad.sum(0), np.stack(by_pattern, 1))  # chunk after chunk, row after row, whoever computed them


def edge_dots(segments: Segments, alpha: Array, left: Array, right: Array) -> Array:
    """The inner products of the two ends of every edge, weighed by channel: the gradient of an edge value."""
    segments.check()
    _require(alpha.shape[1] == segments.num_relations and left.shape[1] == right.shape[1], "channels")
    _require(len(left) >= segments.num_rows and len(right) >= segments.num_cols, "rows")
    _require(left.shape[1] % max(len(alpha), 1) == 0, "channels")
    out = np.empty(segments.num_edges, left.dtype)
    count = len(segments.chunks) - 1
    run_ranges(_edge_dots, _edge_dots_all, count, segments.chunks, *segments.arrays, alpha, left, right, out)
    return out


def _check_sweep(segments: Segments, val: Array, alpha: Array, x: Array, out: Array, pattern: Array) -> None:
    """The loops trust sizes and indices, so this function makes the last check."""
    segments.check()
    _require(val.shape == (segments.num_edges,), "edge weights")
    _require(alpha.shape[1] == segments.num_relations, "relations")
    _require(x.shape[0] >= segments.num_cols and out.shape[0] >= segments.num_rows, "rows")
    _require(x.shape[1] == out.shape[1] and out.shape[1] % max(len(alpha), 1) == 0, "channels")
    _require(len(pattern) <= min(x.shape[0], out.shape[0]), "self-loops")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InputError(f"the number of {what} does not fit the edges of this hop. Use RelationStack.propagate.")
