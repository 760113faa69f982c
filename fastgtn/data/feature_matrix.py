"""From a matrix of numbers to the tensor a graph carries: sparse where most numbers are zero."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fastgtn.errors import InputError

SPARSE_UP_TO = 0.1  # bags of words have 0.2–6 % non-zeros; above a tenth a dense product is faster


def feature_tensor(matrix: Any, *, what: str) -> Tensor:
    """Turn an array or a scipy matrix into float32, CSR where at most a tenth of it is non-zero.

    Args:
        what: Names the features in the message about missing numbers.
    """
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise InputError(
                f"{what} must be a matrix of numbers with one row per node; "
                f"got shape {list(matrix.shape)} of type {matrix.dtype}."
            )
    _check_finite(matrix, what)
    size = matrix.shape[0] * matrix.shape[1]
    nonzero = matrix.count_nonzero() if sp.issparse(matrix) else np.count_nonzero(matrix)
    if size and nonzero <= SPARSE_UP_TO * size:
        return csr_tensor(matrix)
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    return torch.from_numpy(np.array(dense, np.float32, order="C"))


def csr_tensor(matrix: Any) -> Tensor:
    """The same matrix as a float32 CSR tensor, columns sorted, zeros left out."""
    csr = sp.csr_matrix(matrix, dtype=np.float32, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return torch.sparse_csr_tensor(
        torch.from_numpy(csr.indptr.astype(np.int64)),
        torch.from_numpy(csr.indices.astype(np.int64)),
        torch.from_numpy(csr.data),
        size=csr.shape,
        check_invariants=False,  # scipy has just built it; saying so silences a warning
    )


def _check_finite(matrix: Any, what: str) -> None:
    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise InputError(f"{what}: {count} values are NaN or infinite; replace or remove them in the file.")
