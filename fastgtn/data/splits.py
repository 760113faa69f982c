"""Draw train, validation and test nodes by fractions and a seed."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


def draw_split(labels: Array, fractions: tuple[float, float, float], *, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Part the labelled nodes into train, val and test; each class in the same shares.

    Args:
        labels: One class per node, negative = none; or a row of zeros and ones per node (not stratified).
        fractions: Shares of train, val and test; what is left of one stays out of all three.
    """
    if min(fractions) < 0 or fractions[0] == 0 or sum(fractions) > 1 + 1e-9:
        raise InputError(
            f"split fractions {', '.join(map(str, fractions))} must be positive and add up to one or less."
        )
    several = labels.ndim == 2
    nodes = np.flatnonzero(labels.any(axis=1) if several else labels >= 0)
    nodes = nodes[np.random.default_rng(seed).permutation(len(nodes))]
    if not several:
        nodes = nodes[np.argsort(labels[nodes], kind="stable")]
    classes = np.zeros(len(nodes), np.int64) if several else labels[nodes]
    _, start, count = np.unique(classes, return_index=True, return_counts=True)
    rank = np.arange(len(nodes)) - np.repeat(start, count)
    parts, begin = [], np.zeros(len(nodes), np.int64)
    for share in np.cumsum(fractions):
        # rounding down the running total keeps the shares of each class and the sizes of the whole alike
        quota = np.floor(share * (start + count) + 1e-9) - np.floor(share * start + 1e-9)
        end = np.repeat(quota.astype(np.int64), count)
        parts.append(torch.from_numpy(np.sort(nodes[(begin <= rank) & (rank < end)])))
        begin = np.maximum(begin, end)
    return parts[0], parts[1], parts[2]
