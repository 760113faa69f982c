"""The best targets of each source by inner products: exact, a tile at a time, without a matrix of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from fastgtn.links.edges import Array
from fastgtn.links.recommend import Recommendations, check_top
from fastgtn.relations.kernels.nearest import largest_between


def recommend_vectors(left: Tensor, right: Tensor, known: Any, sources: Array, *, top: int) -> Recommendations:
    """The targets with the largest inner products, known links left out.

    Args:
        left: A vector for each source, [B, d].
        right: A vector for each target, [T, d].
        known: A sparse matrix [B, T] of links that are not recommended again.
    """
    check_top(top)
    count = min(top, len(right))
    known.sort_indices()
    best, values = largest_between(left, right, count, skipped=(known.indptr, known.indices))
    missing = top - count
    found = np.pad(best.astype(np.int64), ((0, 0), (0, missing)), constant_values=-1)
    logits = np.pad(values.astype(np.float64), ((0, 0), (0, missing)), constant_values=-np.inf)
    return Recommendations(sources, found, logits)
