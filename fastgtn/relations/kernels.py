"""The fused kernels: one pass over the edges for all relations and channels, forward and backward.

The inner loop is the only place where time goes: add up rows of a table, 256 bytes at a time, in registers.
Numba does not vectorise a loop over several gathered rows by itself, so this one step is written in LLVM.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fastgtn.relations.compile import kernel, run_ranges
from fastgtn.relations.segments import Segments

Array = np.ndarray


def _sum_of_rows(num_bytes: int) -> Callable[..., None]:
    """Make ``f(table, at, width, col, val, start, stop, out)``, a block of a weighted sum of table rows.

    ``out[at : at + n] = sum(val[e] * table[col[e] * width + at :][:n] for e in range(start, stop))``, where
    the n numbers fill `num_bytes` and stay in registers until the last edge.
    """

    @intrinsic
    def block(_, table, at, width, col, val, start, stop, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
        signature = types.void(table, types.intp, types.intp, col, val, types.intp, types.intp, out)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table_t, _, _, col_t, val_t, _, _, out_t = signature.args
            table, at, width, col, val, start, stop, out = args

            def data(array_type: Any, array: Any) -> Any:
                return context.make_array(array_type)(context, builder, array).data

            size = table_t.dtype.bitwidth // 8
            vector = ir.VectorType(context.get_value_type(table_t.dtype), num_bytes // size)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
            undefined = ir.Constant(vector, ir.Undefined)
            table_p, col_p, val_p = data(table_t, table), data(col_t, col), data(val_t, val)
            total = cgutils.alloca_once_value(builder, ir.Constant(vector, None))
            step = ir.Constant(start.type, 1)
            with cgutils.for_range_slice(builder, start, stop, step, inc=True) as (edge, _):
                row = builder.sext(builder.load(builder.gep(col_p, [edge])), at.type)
                place = builder.gep(table_p, [builder.add(builder.mul(row, width), at)])
                numbers = builder.load(builder.bitcast(place, vector.as_pointer()))
                numbers.align = size
                weight = builder.load(builder.gep(val_p, [edge]))
                weight = context.cast(builder, weight, val_t.dtype, table_t.dtype)
                first = builder.insert_element(undefined, weight, ir.Constant(ir.IntType(32), 0))
                weights = builder.shuffle_vector(first, undefined, zeros)
                product = builder.fmul(numbers, weights, flags=("contract",))
                builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            place = builder.gep(data(out_t, out), [at])
            written = builder.store(builder.load(total), builder.bitcast(place, vector.as_pointer()))
            written.align = size
            return context.get_dummy_value()

        return signature, generate

    return block


_WIDE_BYTES, _NARROW_BYTES = 256, 32
_wide_block = _sum_of_rows(_WIDE_BYTES)
_narrow_block = _sum_of_rows(_NARROW_BYTES)


@kernel
def _segment_sum(x: Array, width: int, col: Array, val: Array, start: int, stop: int, total: Array) -> None:
    """Set ``total`` to the weighted sum of the rows of x that one segment names."""
    wide, narrow = _WIDE_BYTES // x.itemsize, _NARROW_BYTES // x.itemsize
    k = 0
    while k + wide <= width:
        _wide_block(x, k, width, col, val, start, stop, total)
        k += wide
    while k + narrow <= width:
        _narrow_block(x, k, width, col, val, start, stop, total)
        k += narrow
    while k < width:
        total[k] = 0
        for e in range(start, stop):
            total[k] += val[e] * x[np.int64(col[e]) * width + k]
        k += 1


@kernel
def _sweep(
    first: int, last: int, chunks: Array, row_ptr: Array, relation: Array, seg_ptr: Array, col: Array, val: Array,
    alpha: Array, diag: Array, x: Array, out: Array, keep: bool, probe: Array, alpha_grad: Array, diag_grad: Array,
) -> None:  # fmt: skip
    """Compute chunks of rows of ``out = diag * x + sum_t alpha_t A_t x``, and the dot products for gradients.

    With `keep` the result is added to what `out` holds. A `probe` of the shape of `out` (else empty) asks
    for ``alpha_grad[chunk, c, t] = <A_t x, probe>`` and ``diag_grad[i, c] = <x_i, probe_i>``.
    """
    num_channels = alpha.shape[0]
    d = out.shape[1] // num_channels
    width = num_channels * d
    flat = x.reshape(-1)
    total = np.empty(width, x.dtype)
    for chunk in range(first, last):
        for i in range(chunks[chunk], chunks[chunk + 1]):
            if not keep:
                out[i, :] = 0
            if i < diag.shape[0]:  # a row's own column has its own number; there may be more columns than rows
                for c in range(num_channels):
                    own = diag[i, c]
                    for k in range(c * d, c * d + d):
                        out[i, k] += own * x[i, k]
                    if probe.shape[0] > 0:
                        dot = 0.0
                        for k in range(c * d, c * d + d):
                            dot += x[i, k] * probe[i, k]
                        diag_grad[i, c] = dot
            for s in range(row_ptr[i], row_ptr[i + 1]):
                t = relation[s]
                _segment_sum(flat, width, col, val, seg_ptr[s], seg_ptr[s + 1], total)
                for c in range(num_channels):
                    weight = alpha[c, t]
                    for k in range(c * d, c * d + d):
                        out[i, k] += weight * total[k]
                    if probe.shape[0] > 0:
                        dot = 0.0
                        for k in range(c * d, c * d + d):
                            dot += total[k] * probe[i, k]
                        alpha_grad[chunk, c, t] += dot


@kernel
def _edge_dots(
    first: int, last: int, chunks: Array, row_ptr: Array, relation: Array, seg_ptr: Array, col: Array,
    alpha: Array, left: Array, right: Array, out: Array,
) -> None:  # fmt: skip
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


class Dots(NamedTuple):
    """Inner products of a sweep with a probe: the gradients of the filters and of the diagonal."""

    alpha: Array  # [C, T]: <A_t x, probe>
    diag: Array  # [R, C]: <x, probe> of each row


def sweep(
    segments: Segments, val: Array, alpha: Array, diag: Array, x: Array, out: Array, *,
    keep: bool = False, probe: Array | None = None,
) -> Dots | None:  # fmt: skip
    """Write ``diag * x + sum_t alpha_t A_t x`` into `out` (or add it), rows of all channels side by side."""
    count = len(segments.chunks) - 1
    dots = None if probe is None else Dots(np.zeros((count, *alpha.shape)), np.zeros(diag.shape))
    alpha_grad, diag_grad = dots or Dots(np.empty((0, 0, 0)), np.empty((0, 0)))
    seen = np.empty((0, 0), x.dtype) if probe is None else probe
    arrays = _arrays(segments)

    def task(first: int, last: int) -> None:
        _sweep(first, last, *arrays, val, alpha, diag, x, out, keep, seen, alpha_grad, diag_grad)

    run_ranges(task, count)
    return dots and Dots(alpha_grad.sum(0), diag_grad)  # chunk after chunk, whoever computed them


def edge_dots(segments: Segments, alpha: Array, left: Array, right: Array) -> Array:
    """The inner products of the two ends of every edge, weighed by channel: the gradient of an edge value."""
    out = np.empty(segments.num_edges, left.dtype)
    arrays = _arrays(segments)

    def task(first: int, last: int) -> None:
        _edge_dots(first, last, *arrays, alpha, left, right, out)

    run_ranges(task, len(segments.chunks) - 1)
    return out


def _arrays(segments: Segments) -> tuple[Array, ...]:
    s = segments
    return (s.chunks, s.row_ptr.numpy(), s.relation.numpy(), s.seg_ptr.numpy(), s.col.numpy())
