"""Convert a matrix to the feature tensor of a graph: sparse if most numbers are zero."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fastgtn.errors import InputError

LARGEST = float(np.finfo(np.float32).max)
SPARSE_UP_TO = 0.1  # bags of words have 0.2–6 % non-zeros; above a tenth a dense product is faster


def feature_tensor(matrix: Any, *, what: str) -> Tensor:
    """Convert an array or scipy matrix to float32, as CSR if at most a tenth of it is non-zero.

    Args:
        what: Description of the features for the error message about missing numbers.
    """
    matrix = _checked(matrix, what)
    size = matrix.shape[0] * matrix.shape[1]
    nonzero = matrix.count_nonzero() if sp.issparse(matrix) else np.count_nonzero(matrix)
    return _tensor(matrix, is_sparse=bool(size and nonzero <= SPARSE_UP_TO * size))


def laid_out_tensor(matrix: Any, *, what: str, is_sparse: bool) -> Tensor:
    """The same matrix in the requested layout."""
    return _tensor(_checked(matrix, what), is_sparse=is_sparse)


def _tensor(matrix: Any, *, is_sparse: bool) -> Tensor:
    if is_sparse:
        return csr_tensor(matrix)
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    return torch.from_numpy(np.array(dense, np.float32, order="C"))


def _checked(matrix: Any, what: str) -> Any:
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise InputError(
                f"{what} must be a matrix of numbers with one row per node; "
                f"got shape {list(matrix.shape)} of type {matrix.dtype}."
            )
    _check_finite(matrix, what)
    return matrix


def csr_tensor(matrix: Any) -> Tensor:
    """The same matrix as a float32 CSR tensor, with sorted columns and without zeros."""
    csr = sp.csr_matrix(matrix, dtype=np.float32, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    with warnings.catch_warnings():  # torch calls its CSR layout "beta" once per process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data),
            size=csr.shape,
            check_invariants=False,  # scipy built it, so it is valid; the argument silences another warning
        )


def _check_finite(matrix: Any, what: str) -> None:
    """Numbers are stored as float32, where 1e300 is infinite: what counts is whether they fit there."""
    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind != "f" or not values.size:
        return
    low, high = float(values.min()), float(values.max())  # NaN if there is one
    if not max(-low, high) <= LARGEST:
        count = int((~(np.abs(values) <= LARGEST)).sum())
        raise InputError(
            f"{what}: {count} values are NaN, infinite or beyond 3.4e38; replace, rescale or remove them in the file."
        )
