"""Divide nodes into training, validation and test: drawn by a seed, or by time."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


def draw_split(labels: Array, fractions: tuple[float, float, float], *, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Divide the labelled nodes into train, val and test, with the same shares in each class.

    Args:
        labels: One class per node, negative = none; or a row of zeros and ones per node (not stratified).
        fractions: Shares of train, val and test; the remaining nodes are in none of them.
    """
    check_seed(seed)
    _check_fractions(fractions)
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
        # rounding down the running total keeps both the class shares and the total sizes
        quota = np.floor(share * (start + count) + 1e-9) - np.floor(share * start + 1e-9)
        end = np.repeat(quota.astype(np.int64), count)
        parts.append(torch.from_numpy(np.sort(nodes[(begin <= rank) & (rank < end)])))
        begin = np.maximum(begin, end)
    return parts[0], parts[1], parts[2]


def split_by_time(
    times: Array | Tensor,
    labelled: Array | Tensor,
    fractions: tuple[float, float, float],
    *,
    may_be_empty: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Train on the earliest labelled nodes, validate on later ones and test on the latest.

    Nodes of the same time stay together, so the parts may differ a little from the shares.

    Args:
        times: When each node was labelled, [N].
        labelled: Which nodes have a label, [N].
        fractions: Shares of train, val and test; the latest nodes beyond them are in none.
        may_be_empty: Do not refuse times that are too few to be split.
    """
    _check_fractions(fractions)
    when, has_label = np.asarray(times, np.float64), np.asarray(labelled, bool)
    nodes = np.flatnonzero(has_label)
    missing = int(np.isnan(when[nodes]).sum())
    if missing:
        raise InputError(
            f"{missing} labelled nodes have no time, so they cannot be split by time: fill in the times, or remove "
            "these labels."
        )
    nodes = nodes[np.argsort(when[nodes], kind="stable")]
    ends = _nearest_ends(when[nodes], fractions)
    if ends is None and not may_be_empty:
        raise InputError(
            f"nodes of the same time stay together, but the {len(nodes)} labelled nodes have only "
            f"{len(np.unique(when[nodes]))} different times: too few for a split by time. Use finer times."
        )
    if ends is None:
        ends = np.floor(np.cumsum(fractions) * len(nodes) + 1e-9).astype(np.int64).tolist()
    train, val, test = (torch.from_numpy(np.sort(part)) for part in np.split(nodes, ends)[:3])
    return train, val, test


def _nearest_ends(ordered: Array, fractions: tuple[float, float, float]) -> list[int] | None:
    """Where the parts end: between different times, near the shares; None if a part would get no node."""
    allowed = [*np.flatnonzero(np.diff(ordered)) + 1, len(ordered)]
    ends, start = [], 0
    for k, cut in enumerate(np.cumsum(fractions) * len(ordered)):
        if fractions[k] > 0:
            after = sum(share > 0 for share in fractions[k + 1 :])  # parts that need a time as well
            free = [end for end in allowed[: len(allowed) - after] if end > start]
            if not free:
                return None
            start = int(min(free, key=lambda end: abs(end - cut)))
        ends.append(start)
    return ends


def draw_val(train: Tensor, labels: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Divide the training nodes in two with the seed, keeping the class shares of single labels."""
    if not 0 <= fraction < 1:
        raise InputError(f"val_fraction is {fraction}; it must be at least 0 and below 1.")
    nodes = train.sort().values  # the order of the file must not matter
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    if labels.dim() == 1:  # interleave the classes, so that every prefix has the right class shares
        nodes = nodes[_place_in_class(labels[nodes]).argsort(stable=True)]
    size = round(fraction * len(nodes))
    return nodes[size:].sort().values, nodes[:size].sort().values


def _check_fractions(fractions: tuple[float, float, float]) -> None:
    if not all(0 <= share <= 1 for share in fractions) or fractions[0] == 0 or sum(fractions) > 1 + 1e-9:
        raise InputError(
            f"split fractions {', '.join(map(str, fractions))} must be positive and add up to one or less."
        )


def check_seed(seed: int) -> None:
    """Refuse seeds that numpy's generators do not accept."""
    if seed < 0:
        raise InputError(f"the seed is {seed}; give a whole number, at least 0.")


def _place_in_class(y: Tensor) -> Tensor:
    """The relative position of each node within its class, between 0 and 1."""
    _, which, counts = y.unique(return_inverse=True, return_counts=True)
    order = which.argsort(stable=True)
    rank = torch.empty(len(y), dtype=torch.double)
    rank[order] = (torch.arange(len(y)) - (counts.cumsum(0) - counts)[which[order]]).double()
    return (rank + 0.5) / counts[which]
