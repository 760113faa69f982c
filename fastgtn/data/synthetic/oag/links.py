"""Draw edges that follow topics and have heavy tails, each pair once."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from fastgtn.data.archive.arrays import Array

PATIENCE = 8  # rounds before the rest is drawn uniformly, because small graphs have few popular pairs


class Pools:
    """Items in groups, drawn within a group in proportion to their weights."""

    def __init__(self, groups: Array, weights: Array, num_groups: int) -> None:
        self.order = np.argsort(groups, kind="stable")
        self.bounds = np.searchsorted(groups[self.order], np.arange(num_groups + 1))
        self.sums = np.concatenate([[0.0], np.cumsum(weights[self.order])])

    def draw(self, groups: Array, rng: Generator) -> Array:
        """One item for each of the groups; an empty group draws from all items."""
        first, last = self.bounds[groups], self.bounds[groups + 1]
        is_empty = first == last
        first, last = np.where(is_empty, 0, first), np.where(is_empty, len(self.order), last)
        low, high = self.sums[first], self.sums[last]
        place = np.searchsorted(self.sums, low + (high - low) * rng.random(len(groups)), side="right") - 1
        return self.order[np.clip(place, first, last - 1)]

    def draw_any(self, count: int, rng: Generator) -> Array:
        """Items of any group."""
        place = np.searchsorted(self.sums, self.sums[-1] * rng.random(count), side="right") - 1
        return self.order[np.clip(place, 0, len(self.order) - 1)]


def blended(shares: list[float], draws: list[Callable[[Array], Array]], count: int, rng: Generator) -> Array:
    """Draw each of `count` values in one of several ways; the last way gets the remaining share."""
    way = np.searchsorted(np.cumsum(shares), rng.random(count), side="right")
    out = np.empty(count, np.int64)
    for number, draw in enumerate(draws):
        places = np.flatnonzero(way == number)
        out[places] = draw(places)
    return out


def distinct_pairs(
    count: int,
    shape: tuple[int, int],
    draw: Callable[[int], tuple[Array, Array]],
    rng: Generator,
    *,
    required: tuple[Array, Array] | None = None,
    allowed: Callable[[Array, Array], Array] | None = None,
) -> tuple[Array, Array]:
    """Draw until there are `count` different pairs, sorted; the required ones are always among them."""
    keys = np.empty(0, np.int64) if required is None else np.unique(required[0] * shape[1] + required[1])
    patience = PATIENCE
    while len(keys) < count:
        missing = count - len(keys)
        size = missing + missing // 4 + 16
        row, col = (
            draw(size) if patience > 0 else (rng.integers(shape[0], size=size), rng.integers(shape[1], size=size))
        )
        patience -= 1
        if allowed is not None:
            kept = allowed(row, col)
            row, col = row[kept], col[kept]
        new = np.setdiff1d(row * shape[1] + col, keys)
        if len(new) > missing:
            new = rng.choice(new, missing, replace=False, shuffle=False)
        keys = np.sort(np.concatenate([keys, new]), kind="stable")
    return keys // shape[1], keys % shape[1]


def heavy_tail(count: int, exponent: float, rng: Generator) -> Array:
    """Weights with a heavy tail (Pareto), at least 1."""
    return 1 + rng.pareto(exponent, count)
