"""Forward selection: which few paths explain the labels together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fastgtn.screening.labels import permuted
from fastgtn.screening.regression import LeaveOneOut
from fastgtn.screening.result import SIGNIFICANT

Array = np.ndarray
CLOSE = 8  # candidates of a round whose joint fit is computed
PERMUTATIONS = 39  # of the residuals in each round


@dataclass(frozen=True)
class Chosen:
    """A path by number, and what it adds to the joint R² of those before it."""

    number: int
    added: float


def family_p_values(values: Array, null: Array) -> Array:
    """How often the largest value under permuted labels, [permutations], reaches each value."""
    reached: Array = (1 + (null[None] >= values[:, None]).sum(1)) / (1 + len(null))
    return reached


def forward_selection(
    fits: Sequence[LeaveOneOut],
    labels: Array,
    lengths: Sequence[int],
    *,
    most: int,
    least_gain: float,
    explains_alone: Sequence[bool],
    rng: Generator,
) -> tuple[Chosen, ...]:
    r"""Start with the best path. Each round tests all others on the residual of the chosen ones.

    The leave-one-out residuals of the joint fit are permuted as the labels were before, so a further path must be
    significant among all paths, and raise the joint :math:`R^2` by at least the share `least_gain`. Of paths that are
    nearly equal the shortest is taken.

    Args:
        lengths: Steps of each path.
        explains_alone: Whether the R² of a path alone is positive. A path with none could only compensate for noise.
    """
    columns = labels.shape[1]
    alone = {n: float(fit.r_squared(labels, columns)[0]) for n, fit in enumerate(fits)}
    first = _shortest(alone, lengths, least_gain * max(alone.values()))
    joint, reached = fits[first], alone[first]
    chosen = [Chosen(first, reached)]
    while len(chosen) < most:
        left = joint.best_residuals(labels)
        close = _significant(fits, left - left.mean(0), [one.number for one in chosen], rng)
        close = [n for n in close if explains_alone[n]]
        tried = {n: LeaveOneOut(np.concatenate([joint.features, fits[n].features], axis=1)) for n in close}
        gains = {n: float(fit.r_squared(labels, columns)[0]) - reached for n, fit in tried.items()}
        if not gains or max(gains.values()) < least_gain * reached:
            break
        best = _shortest(gains, lengths, least_gain * reached / 2)
        # kernels add up: the joint features keep the scale of each path
        joint, reached = tried[best], reached + gains[best]
        chosen.append(Chosen(best, gains[best]))
    return tuple(chosen)


def _shortest(values: Mapping[int, float], lengths: Sequence[int], margin: float) -> int:
    """The shortest of the paths that are within a margin of the best, of equally short ones the best."""
    floor = max(values.values()) - margin
    return min((n for n in values if values[n] >= floor), key=lambda n: (lengths[n], -values[n]))


def _significant(fits: Sequence[LeaveOneOut], left: Array, chosen: list[int], rng: Generator) -> list[int]:
    """The paths that explain most of the residuals, if permuted residuals are explained less."""
    every = np.concatenate([left, permuted(left, PERMUTATIONS, rng)], axis=1).astype(np.float32)
    found = np.array([fit.r_squared_of_orders(every, left.shape[1]) for fit in fits])  # [paths, 1 + orders]
    found[chosen] = -np.inf
    p_values = family_p_values(found[:, 0], found[:, 1:].max(0))
    return [int(n) for n in np.argsort(-found[:, 0])[:CLOSE] if p_values[n] <= SIGNIFICANT]
