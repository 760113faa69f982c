"""Inner products of rows of two sparse matrices, for many pairs of rows, without the product of the matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgtn.errors import InputError
from fastgtn.links.edges import Array
from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.team import on_team


def pair_dots(left: Any, right: Any, source: Array, target: Array) -> Array:
    """For each pair the inner product of a row of one matrix and a row of another; indices must be sorted."""
    out = np.zeros(len(source))
    u, i = source.astype(np.int64), target.astype(np.int64)
    for nodes, matrix in ((u, left), (i, right)):
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < matrix.shape[0]:
            raise InputError(f"nodes must lie in 0 … {matrix.shape[0] - 1}, but span {nodes.min()} … {nodes.max()}.")
    if not len(u) == len(i) == len(out):
        raise InputError(f"each pair needs a source and a target, but got {len(u)} sources and {len(i)} targets.")
    arrays = (left.indptr, left.indices, left.data, right.indptr, right.indices, right.data)
    run_ranges(_dots, _all_dots, len(u), *arrays, u, i, out)
    return out


@kernel
def _dots(
    first: int,
    last: int,
    ptr_a: Array,
    col_a: Array,
    val_a: Array,
    ptr_b: Array,
    col_b: Array,
    val_b: Array,
    u: Array,
    i: Array,
    out: Array,
) -> None:
    """Inner products of sorted sparse rows: each entry of the shorter one is looked up in the longer one."""
    for n in range(first, last):
        a, end_a = ptr_a[u[n]], ptr_a[u[n] + 1]
        b, end_b = ptr_b[i[n]], ptr_b[i[n] + 1]
        if end_a - a <= end_b - b:
            out[n] = _looked_up(col_a, val_a, a, end_a, col_b, val_b, b, end_b)
        else:
            out[n] = _looked_up(col_b, val_b, b, end_b, col_a, val_a, a, end_a)


_all_dots = kernel(lambda threads, count, *arguments: on_team(_dots, threads, count, arguments))


@kernel
def _looked_up(
    col: Array, val: Array, at: int, end: int, long_col: Array, long_val: Array, low: int, long_end: int
) -> float:
    """Walk along the short row and find its columns in what is left of the long one by doubling steps."""
    total = 0.0
    while at < end and low < long_end:
        wanted, step = col[at], 1
        while low + step < long_end and long_col[low + step] <= wanted:
            step *= 2
        high = min(low + step, long_end)
        while low < high:  # the first entry that is not before the wanted column
            middle = (low + high) // 2
            if long_col[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        if low < long_end and long_col[low] == wanted:
            total += val[at] * long_val[low]
        at += 1
    return total
