"""The best new partners of each source, exactly over all targets, a block of sources at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastgtn.errors import InputError
from fastgtn.links.edges import Array

BLOCK_NUMBERS = 32_000_000  # scores that are held at once


@dataclass(frozen=True, eq=False)
class Recommendations:
    """For each source its best targets, best first, and their log-odds; −1 where there are fewer targets."""

    sources: Array  # [B]
    targets: Array  # [B, top]
    logits: Array  # [B, top]


def recommend(rows: Callable[[Array], Array], known: Any, sources: Array, *, top: int = 10) -> Recommendations:
    """Rank every target for some sources, a block of sources at a time.

    Args:
        rows: Scores of some sources with every target, [sources, targets].
        known: A sparse matrix [sources, targets] of links that are not recommended again.
    """
    check_top(top)
    size = max(1, BLOCK_NUMBERS // max(known.shape[1], 1))
    found, values = [np.zeros((0, top), np.int64)], [np.zeros((0, top))]
    for first in range(0, len(sources), size):
        block = sources[first : first + size]
        scores = np.array(rows(block))
        scores[known[block].nonzero()] = -np.inf
        best, worth = _largest(scores, top)
        found.append(best)
        values.append(worth)
    return Recommendations(sources, np.concatenate(found), np.concatenate(values))


def check_top(top: int) -> None:
    """Refuse an empty list of recommendations."""
    if top < 1:
        raise InputError(f"top must be at least 1, but got {top}.")


def _largest(scores: Array, top: int) -> tuple[Array, Array]:
    """The largest entries of each row in descending order; of equal ones the lower number comes first."""
    count = min(top, scores.shape[1])
    limit = np.partition(scores, scores.shape[1] - count, axis=1)[:, scores.shape[1] - count]
    best = np.full((len(scores), top), -1, np.int64)
    worth = np.full((len(scores), top), -np.inf)
    for row, floor in enumerate(limit):
        candidates = np.flatnonzero(scores[row] >= floor)
        chosen = candidates[np.argsort(-scores[row, candidates], kind="stable")][:count]
        chosen = chosen[np.isfinite(scores[row, chosen])]
        best[row, : len(chosen)], worth[row, : len(chosen)] = chosen, scores[row, chosen]
    return best, worth
