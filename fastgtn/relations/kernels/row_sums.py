"""Weighted sums of table rows, kept in registers, 256 bytes at a time: the inner loops of the kernels.

Numba does not vectorise a sum over several gathered rows by itself, so these loops are written in LLVM.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_BLOCK_BYTES = 256  # eight registers: enough sums to hide the latency of a multiply-add
_PART_BYTES = 64  # of an inner product: one register, or two
_PART_ORDER = {1: (0,), 2: (0, 1), 4: (0, 2, 1, 3)}
_KEEP_ORDER = ("nsz",)  # any flag will do: numba lets LLVM reorder operations that have none
_EDGES_AHEAD = 12  # how far rows are fetched in advance


@intrinsic
def add_edges(  # type: ignore[no-untyped-def]
    _,
    x,
    row,
    at,
    d,
    width,
    start,
    stop,
    relation,
    col,
    val,
    alpha,
    shift,
    has_own,
    own,
    keep,
    out,
):
    """One row of a hop, d numbers from `at` on, where both x and out have rows of `width` numbers.

    ``out[row] = own * x[row] + sum(alpha[shift + relation[e]] * val[e] * x[col[e]])`` over the edges e from `start` to
    `stop`; the first term only with `has_own`. With `keep` it is added to what `out` holds.
    """
    size, number, flag = types.intp, x.dtype, types.boolean
    where = (x, size, size, size, size, size, size)
    return types.void(*where, relation, col, val, alpha, size, flag, number, flag, out), _generate_edges


def _generate_edges(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    _, row, at, d, width, start, stop, *_, shift, has_own, own, keep, _ = args
    relation, val, alpha, out = (_Array(context, builder, signature, args, k) for k in (7, 9, 10, 15))
    rows = _Rows(context, builder, signature, args, table=0, col=8, width=width)

    def weight(edge: Any) -> Any:
        column = builder.add(shift, builder.zext(relation.load(edge), shift.type))
        return builder.fmul(alpha.load(column), rows.number(val, edge))

    def block(vector: Any, k: Any) -> None:
        column = builder.add(at, k)
        place = builder.add(builder.mul(row, width), column)
        total = rows.zero(vector)
        with builder.if_then(keep):
            builder.store(out.load(place, vector), total)
        with builder.if_then(has_own):
            rows.add(total, rows.table.load(place, vector), own)
        rows.add_edges(total, start, stop, column, weight)
        out.store(builder.load(total), place)

    rows.in_blocks(d, block)
    return context.get_dummy_value()


@intrinsic
def add_rows(_, x, at, d, width, col, val, start, stop, scale, out, probe, place):  # type: ignore[no-untyped-def]
    """Add a weighted sum of rows to a row, and return the product of that sum with a probe.

    ``total = sum(val[e] * x[col[e] * width + at :][:d])`` over the edges e from `start` to `stop`, then
    ``out[place :][:d] += scale * total``; returns ``<total, probe[place :][:d]>``.
    """
    size, number = types.intp, x.dtype
    return number(x, size, size, size, col, val, size, size, number, out, probe, size), _generate_rows


def _generate_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    _, at, d, width, _, _, start, stop, scale, _, _, place = args
    val, out, probe = (_Array(context, builder, signature, args, k) for k in (5, 9, 10))
    rows = _Rows(context, builder, signature, args, table=0, col=4, width=width)
    dot = rows.zero(rows.scalar)

    def block(vector: Any, k: Any) -> None:
        total, here = rows.zero(vector), builder.add(place, k)
        rows.add_edges(total, start, stop, builder.add(at, k), lambda edge: rows.number(val, edge))
        result = builder.load(total)
        sums = rows.zero(vector)
        builder.store(out.load(here, vector), sums)
        rows.add(sums, result, scale)
        out.store(builder.load(sums), here)
        product = rows.dot(result, probe.load(here, vector))
        builder.store(builder.fadd(builder.load(dot), product, flags=_KEEP_ORDER), dot)

    rows.in_blocks(d, block)
    return builder.load(dot)


class _Array:
    """The numbers of an array argument, read and written one by one or as vectors."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, number: int) -> None:
        self.builder, self.type = builder, signature.args[number]
        array = context.make_array(self.type)(context, builder, args[number])
        self.data, self.size = array.data, array.nitems

    def load(self, index: Any, vector: Any = None) -> Any:
        loaded = self.builder.load(self._at(index, vector))
        loaded.align = self.type.dtype.bitwidth // 8
        return loaded

    def store(self, value: Any, index: Any) -> None:
        stored = self.builder.store(value, self._at(index, value.type))
        stored.align = self.type.dtype.bitwidth // 8

    def _at(self, index: Any, vector: Any) -> Any:
        place = self.builder.gep(self.data, [index])
        return place if vector is None else self.builder.bitcast(place, vector.as_pointer())


class _Rows:
    """Code that adds up rows of a table."""

    def __init__(
        self, context: Any, builder: Any, signature: Any, args: Any, *, table: int, col: int, width: Any
    ) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.table, self.col = (_Array(context, builder, signature, args, k) for k in (table, col))
        self.scalar = context.get_value_type(self.table.type.dtype)
        self.bytes = self.table.type.dtype.bitwidth // 8
        self.last_edge = builder.sub(self.col.size, self.col.size.type(1))

    def in_blocks(self, d: Any, block: Callable[[Any, Any], None]) -> None:
        """Call ``block(vector type, offset)`` for 256 bytes at a time, then for the half of it and so on."""
        builder, numbers = self.builder, _BLOCK_BYTES // self.bytes
        with _loop(builder, d.type(0), builder.udiv(d, d.type(numbers))) as (number, _):
            block(ir.VectorType(self.scalar, numbers), builder.mul(number, d.type(numbers)))
        for part in (numbers // 2, numbers // 4, numbers // 8):
            with builder.if_then(builder.icmp_signed("!=", builder.and_(d, d.type(part)), d.type(0))):
                block(ir.VectorType(self.scalar, part), builder.and_(d, d.type(-2 * part)))
        with _loop(builder, builder.and_(d, d.type(-numbers // 8)), d) as (k, _):
            block(ir.VectorType(self.scalar, 1), k)

    def zero(self, kind: Any) -> Any:
        """A variable; its stack slot is shared by all turns of a caller's loop, so it is set here."""
        variable = cgutils.alloca_once(self.builder, kind)
        self.builder.store(kind(0.0) if kind is self.scalar else ir.Constant(kind, None), variable)
        return variable

    def number(self, array: _Array, index: Any) -> Any:
        """A number of another array in the precision of the table."""
        return self.context.cast(self.builder, array.load(index), array.type.dtype, self.table.type.dtype)

    def add(self, total: Any, numbers: Any, weight: Any) -> None:
        """``total += weight * numbers``."""
        undefined = ir.Constant(numbers.type, ir.Undefined)
        first = self.builder.insert_element(undefined, weight, ir.IntType(32)(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), numbers.type.count), None)
        product = self.builder.fmul(
            numbers, self.builder.shuffle_vector(first, undefined, everywhere), flags=("contract",)
        )
        self.builder.store(self.builder.fadd(product, self.builder.load(total), flags=("contract",)), total)

    def add_edges(self, total: Any, start: Any, stop: Any, column: Any, weight: Callable[[Any], Any]) -> None:
        """``total += sum(weight(e) * table[col[e], column :])`` over the edges from `start` to `stop`."""
        vector = total.type.pointee
        with _loop(self.builder, start, stop) as (edge, _):
            self.add(total, self.table.load(self._place(edge, column), vector), weight(edge))
            self._prefetch(edge, column, vector.count * self.bytes)

    def dot(self, one: Any, other: Any) -> Any:
        """The inner product of two vectors, added up in a fixed order.

        LLVM would be free to choose another order in each compilation of the same function, and two processes, of which
        one finds the machine code on disk and one does not, would get other last digits.
        """
        parts = max(1, one.type.count * self.bytes // _PART_BYTES)
        width = one.type.count // parts
        kind = ir.VectorType(self.scalar, width)
        name = f"llvm.fmuladd.v{width}f{self.bytes * 8}"
        fused = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(kind, [kind] * 3), name)
        total = None
        for number in _PART_ORDER[parts]:
            left, right = (self._lanes(vector, number * width, width) for vector in (one, other))
            total = self._times(left, right) if total is None else self.builder.call(fused, [left, right, total])
        while width > 1:
            width //= 2
            low, high = (self._lanes(total, first, width) for first in (0, width))
            total = self.builder.fadd(low, high, flags=_KEEP_ORDER)
        return self.builder.extract_element(total, ir.IntType(32)(0))

    def _times(self, left: Any, right: Any) -> Any:
        return self.builder.fmul(left, right, flags=_KEEP_ORDER)

    def _lanes(self, vector: Any, first: int, count: int) -> Any:
        """Some neighbouring numbers of a vector."""
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), lanes)

    def _place(self, edge: Any, column: Any) -> Any:
        row = self.builder.sext(self.col.load(edge), column.type)
        return self.builder.add(self.builder.mul(row, self.width), column)

    def _prefetch(self, edge: Any, column: Any, num_bytes: int) -> None:
        """Ask for the rows of a few edges further on, beyond the end of this sum: short rows hide no latency."""
        builder, byte, word = self.builder, ir.IntType(8).as_pointer(), ir.IntType(32)
        ahead = builder.add(edge, edge.type(_EDGES_AHEAD))
        ahead = builder.select(builder.icmp_signed("<", ahead, self.last_edge), ahead, self.last_edge)
        address = builder.bitcast(builder.gep(self.table.data, [self._place(ahead, column)]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for line in range(0, num_bytes, 64):
            builder.call(fetch, [builder.gep(address, [ir.IntType(64)(line)]), word(0), word(3), word(1)])


def _loop(builder: Any, start: Any, stop: Any) -> Any:
    return cgutils.for_range_slice(builder, start, stop, start.type(1), inc=True)
