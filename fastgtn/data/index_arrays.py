"""Checks of index arrays. Compiled code trusts them, so the index arrays of every file are checked here before use."""

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
Layout = Literal["csr", "csc", "coo"]

FREE_ROWS = 1 << 22  # rows and columns that a matrix may have beyond the size of its arrays
ROWS_PER_BYTE = 8


def check_range(array: Array, name: str, shape: tuple[int, ...], end: int) -> None:
    """Check an array of whole numbers 0 … end − 1."""
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise InputError(f'"{name}" must be whole numbers of shape {shape}, not {array.dtype} {array.shape}.')
    if array.size and (int(array.min()) < 0 or int(array.max()) >= end):
        raise InputError(f'"{name}" must be between 0 and {end - 1}; found {array.min()} … {array.max()}.')


def check_pointers(indptr: Array, name: str, rows: int, entries: int) -> None:
    """Check the row pointers of a compressed matrix: they rise from zero to the number of entries."""
    check_range(indptr, name, (rows + 1,), entries + 1)
    if indptr[0] != 0 or indptr[-1] != entries or bool(np.any(indptr[1:] < indptr[:-1])):
        raise InputError(f'"{name}" must rise from 0 to the {entries} entries of the matrix.')


def checked_csr(
    layout: Layout, data: Array, first: Array, second: Array, *, shape: tuple[Any, ...], what: str
) -> sp.csr_matrix:
    """A CSR matrix of the arrays of a file, copied after all of them were checked.

    Args:
        first: Row numbers of a COO matrix; column numbers of CSR, row numbers of CSC.
        second: Column numbers of a COO matrix; where the rows of CSR or the columns of CSC begin.
        what: Name of the matrix in error messages.
    """
    try:
        rows, columns = _checked_shape(shape, bytes_of=(data, first, second))
        if any(array.ndim != 1 for array in (data, first, second)) or data.dtype.kind not in "biuf":
            raise InputError(f"its arrays must be lists, and its entries real numbers, not {data.dtype}.")
        if layout == "coo":
            check_range(first, "row", data.shape, rows)
            check_range(second, "col", data.shape, columns)
            ends = (first.astype(np.int64), second.astype(np.int64))
            return sp.coo_matrix((data.copy(), ends), shape=(rows, columns)).tocsr()
        majors, minors = (rows, columns) if layout == "csr" else (columns, rows)
        entries = _used_entries(second, min(len(first), len(data)))
        check_pointers(second, "indptr", majors, entries)
        check_range(first[:entries], "indices", (entries,), minors)
    except InputError as error:
        raise InputError(f"{what}: the sparse matrix is damaged or forged: {error}") from None
    parts = (data[:entries].copy(), first[:entries].astype(np.int64), second.astype(np.int64))
    build = sp.csr_matrix if layout == "csr" else sp.csc_matrix
    return build(parts, shape=(rows, columns)).tocsr()


def _used_entries(indptr: Array, stored: int) -> int:
    """scipy and MATLAB may store more entries than are used; the last pointer is their number."""
    if not len(indptr) or indptr.dtype.kind not in "iu" or not 0 <= int(indptr[-1]) <= stored:
        return stored  # the check of the pointers reports the error
    return int(indptr[-1])


def _checked_shape(shape: tuple[Any, ...], *, bytes_of: tuple[Array, ...]) -> tuple[int, int]:
    if len(shape) != 2 or any(not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0 for n in shape):
        raise InputError(f"its shape must be two whole numbers, not {shape!r}.")
    most = max(FREE_ROWS, ROWS_PER_BYTE * sum(array.nbytes for array in bytes_of))
    if max(shape) > most:
        raise InputError(f"its shape is {shape[0]} × {shape[1]}, but its arrays are far too small for that.")
    return int(shape[0]), int(shape[1])
