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
    check_seed(seed)
    if not all(0 <= share <= 1 for share in fractions) or fractions[0] == 0 or sum(fractions) > 1 + 1e-9:
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


def draw_val(train: Tensor, labels: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Part the training nodes in two by seed, keeping the shares of the classes of a single label."""
    if not 0 <= fraction < 1:
        raise InputError(f"val_fraction is {fraction}; it must be at least 0 and below 1.")
    nodes = train.sort().values  # the order of the file must not matter
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    if labels.dim() == 1:  # interleave the classes: any leading part then has every class in its share
        nodes = nodes[_place_in_class(labels[nodes]).argsort(stable=True)]
    size = round(fraction * len(nodes))
    return nodes[size:].sort().values, nodes[:size].sort().values


def check_seed(seed: int) -> None:
    """Refuse what numpy's generators cannot start from."""
    if seed < 0:
        raise InputError(f"the seed is {seed}; give a whole number, at least 0.")


def _place_in_class(y: Tensor) -> Tensor:
    """Where each node stands among those of its class, in their order: between 0 and 1."""
    _, which, counts = y.unique(return_inverse=True, return_counts=True)
    order = which.argsort(stable=True)
    rank = torch.empty(len(y), dtype=torch.double)
    rank[order] = (torch.arange(len(y)) - (counts.cumsum(0) - counts)[which[order]]).double()
    return (rank + 0.5) / counts[which]
