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

_EDGES_AHEAD = 12  # how far rows are fetched in advance


def _sum_of_rows(num_bytes: int) -> Callable[..., float]:
    """Make ``f(table, at, width, col, val, shift, start, stop, scale, out, probe, place)``, on blocks of n numbers.

    It computes ``total = sum(val[e - shift] * table[col[e] * width + at :][:n] for e in range(start, stop))`` in
    registers, adds ``scale * total`` to ``out[place :][:n]``, and returns the inner product of `total` with
    ``probe[place :][:n]``, or zero if there is no probe; n numbers fill `num_bytes`.
    """

    @intrinsic
    def block(_, table, at, width, col, val, shift, start, stop, scale, out, probe, place):  # type: ignore[no-untyped-def]  # noqa: ARG001
        size, number = types.intp, table.dtype
        signature = number(table, size, size, col, val, size, size, size, number, out, probe, size)
        return signature, _generate

    def _generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        table_t, col_t, val_t, out_t, probe_t = (signature.args[k] for k in (0, 3, 4, 9, 10))
        table, at, width, col, val, shift, start, stop, scale, out, probe, place = args
        number = table_t.dtype.bitwidth // 8
        vector = ir.VectorType(context.get_value_type(table_t.dtype), num_bytes // number)

        def data(array_type: Any, array: Any) -> Any:
            return context.make_array(array_type)(context, builder, array).data

        def block_at(pointer: Any, index: Any) -> Any:
            return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())

        def load(pointer: Any, index: Any) -> Any:
            loaded = builder.load(block_at(pointer, index))
            loaded.align = number
            return loaded

        def spread(value: Any) -> Any:
            undefined = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(
                first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
            )

        def multiply_add(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

        def prefetch(edge: Any) -> None:
            """Ask for the rows of a few edges further on, beyond the end of this sum: short rows hide no latency."""
            last = builder.sub(context.make_array(col_t)(context, builder, col).nitems, ir.Constant(edge.type, 1))
            ahead = builder.add(edge, ir.Constant(edge.type, _EDGES_AHEAD))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            row = builder.sext(builder.load(builder.gep(col_p, [ahead])), at.type)
            place = builder.gep(table_p, [builder.add(builder.mul(row, width), at)])
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            call = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0"
            )
            for line in range(0, num_bytes, 64):
                address = builder.gep(builder.bitcast(place, byte), [ir.Constant(at.type, line)])
                builder.call(call, [address, word(0), word(3), word(1)])

        table_p, col_p, val_p, out_p = data(table_t, table), data(col_t, col), data(val_t, val), data(out_t, out)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, None))
        builder.store(ir.Constant(vector, None), total)  # the stack slot is shared by all turns of a caller's loop
        with cgutils.for_range_slice(builder, start, stop, ir.Constant(start.type, 1), inc=True) as (edge, _):
            row = builder.sext(builder.load(builder.gep(col_p, [edge])), at.type)
            weight = builder.load(builder.gep(val_p, [builder.sub(edge, shift)]))
            weight = context.cast(builder, weight, val_t.dtype, table_t.dtype)
            numbers = load(table_p, builder.add(builder.mul(row, width), at))
            builder.store(multiply_add(numbers, spread(weight), builder.load(total)), total)
            prefetch(edge)
        result = builder.load(total)
        written = builder.store(multiply_add(result, spread(scale), load(out_p, place)), block_at(out_p, place))
        written.align = number
        dot = cgutils.alloca_once_value(builder, ir.Constant(vector.element, 0.0))
        builder.store(ir.Constant(vector.element, 0.0), dot)
        probes = context.make_array(probe_t)(context, builder, probe)
        with builder.if_then(builder.icmp_signed(">", probes.nitems, ir.Constant(probes.nitems.type, 0))):
            products = builder.fmul(result, load(probes.data, place))
            kind = ir.FunctionType(vector.element, [vector.element, vector])
            name = f"llvm.vector.reduce.fadd.v{vector.count}f{number * 8}"
            reduce = cgutils.get_or_insert_function(builder.module, kind, name)
            zero = ir.Constant(vector.element, 0.0)
            builder.store(builder.call(reduce, [zero, products], fastmath=("reassoc",)), dot)
        return builder.load(dot)

    return block


_blocks_256, _blocks_128, _blocks_64, _blocks_32 = (_sum_of_rows(n) for n in (256, 128, 64, 32))


@kernel
def _add_rows(
    x: Array, at: int, d: int, width: int, col: Array, val: Array, shift: int, start: int, stop: int,
    scale: float, out: Array, probe: Array, place: int,
) -> float:  # fmt: skip
    """Add a weighted sum of table rows, d numbers from `at` on, to `out`; returns its product with the probe."""
    dot = 0.0
    k = 0
    lanes = 256 // x.itemsize
    while k + lanes <= d:
        dot += _blocks_256(x, at + k, width, col, val, shift, start, stop, scale, out, probe, place + k)
        k += lanes
    if k + lanes // 2 <= d:
        dot += _blocks_128(x, at + k, width, col, val, shift, start, stop, scale, out, probe, place + k)
        k += lanes // 2
    if k + lanes // 4 <= d:
        dot += _blocks_64(x, at + k, width, col, val, shift, start, stop, scale, out, probe, place + k)
        k += lanes // 4
    if k + lanes // 8 <= d:
        dot += _blocks_32(x, at + k, width, col, val, shift, start, stop, scale, out, probe, place + k)
        k += lanes // 8
    while k < d:
        total = x.dtype.type(0)
        for e in range(start, stop):
            total += val[e - shift] * x[np.int64(col[e]) * width + at + k]
        out[place + k] += scale * total
        if probe.size > 0:
            dot += total * probe[place + k]
        k += 1
    return dot


@kernel
def _sweep(
    first: int, last: int, chunks: Array, row_ptr: Array, relation: Array, seg_ptr: Array, col: Array, val: Array,
    alpha: Array, diag: Array, x: Array, out: Array, keep: bool,
) -> None:  # fmt: skip
    """Compute chunks of rows of ``out = diag * x + sum_t alpha_t A_t x``; with `keep`, add to what `out` holds."""
    num_channels = alpha.shape[0]
    width = out.shape[1]
    d = width // num_channels
    flat, flat_out, nothing = x.reshape(-1), out.reshape(-1), x.reshape(-1)[:0]
    own, one = np.empty(1, np.int32), np.ones(1, x.dtype)
    room = 256
    weights = np.empty(num_channels * room, x.dtype)
    for i in range(chunks[first], chunks[last]):
        start, stop = seg_ptr[row_ptr[i]], seg_ptr[row_ptr[i + 1]]
        if stop - start > room:
            room = 2 * (stop - start)
            weights = np.empty(num_channels * room, x.dtype)
        for s in range(row_ptr[i], row_ptr[i + 1]):
            for c in range(num_channels):
                weight = alpha[c, relation[s]]
                shift = c * room - start
                for e in range(seg_ptr[s], seg_ptr[s + 1]):
                    weights[shift + e] = weight * val[e]
        own[0] = i
        for c in range(num_channels):
            at, place = c * d, i * width + c * d
            if not keep:
                flat_out[place : place + d] = 0
            if i < diag.shape[0]:  # a row's own column has its own number; there may be more columns than rows
                _add_rows(flat, at, d, width, own, one, 0, 0, 1, diag[i, c], flat_out, nothing, place)
            # one number per edge and channel, then a single run over all edges of the row
            _add_rows(flat, at, d, width, col, weights, start - c * room, start, stop, one[0], flat_out, nothing, place)


@kernel
def _sweep_with_dots(
    first: int, last: int, chunks: Array, row_ptr: Array, relation: Array, seg_ptr: Array, col: Array, val: Array,
    alpha: Array, diag: Array, x: Array, out: Array, keep: bool, probe: Array, alpha_grad: Array, diag_grad: Array,
) -> None:  # fmt: skip
    """The same, and ``alpha_grad[chunk, c, t] = <A_t x, probe>``, ``diag_grad[i, c] = <x_i, probe_i>``."""
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
                    flat_out[place : place + d] = 0
                if i < diag.shape[0]:
                    diag_grad[i, c] = _add_rows(
                        flat, at, d, width, own, one, 0, 0, 1, diag[i, c], flat_out, flat_probe, place
                    )
                for s in range(row_ptr[i], row_ptr[i + 1]):
                    t = relation[s]
                    alpha_grad[chunk, c, t] += _add_rows(
                        flat, at, d, width, col, val, 0, seg_ptr[s], seg_ptr[s + 1], alpha[c, t],
                        flat_out, flat_probe, place,
                    )  # fmt: skip


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
    arrays = (*_arrays(segments), val, alpha, diag, x, out, keep)
    if probe is None:
        run_ranges(lambda first, last: _sweep(first, last, *arrays), count)
        return None
    alpha_grad, diag_grad = np.zeros((count, *alpha.shape)), np.zeros(diag.shape, x.dtype)
    run_ranges(lambda first, last: _sweep_with_dots(first, last, *arrays, probe, alpha_grad, diag_grad), count)
    return Dots(alpha_grad.sum(0), diag_grad)  # chunk after chunk, whoever computed them


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
