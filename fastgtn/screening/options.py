"""The limits of a screening."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScreenOptions:
    """Limits of a screening; all of them bound its time or its memory.

    Args:
        longest: Look at paths up to this many steps.
        most_nodes: Training nodes to use, each class in its share.
        most_tested: Where there are more paths up to some length, a first pass chooses which of them are tested.
        most_products: Multiplications of a first pass; a length that needs more is not looked at.
        most_chosen: Paths to choose.
        width: Number of columns to which wider features are reduced; None chooses 128 to 1,024 by the time they take.
        permutations: Permuted labels for the p-values.
        least_gain: Share of the R² so far that a further path must add.
        comparisons: How many screenings of the same labels the best is chosen from; p-values are multiplied by it.
        max_seconds: Processor time of one thread after which no further path is begun.
        max_bytes: Memory for the decompositions of paths.
        seed: Of the sample, the mixing and the permutations.
    """

    longest: int = 4
    most_nodes: int = 2000
    most_tested: int = 1500
    most_products: float = 1e12
    most_chosen: int = 8
    width: int | None = None
    permutations: int = 99
    least_gain: float = 0.02
    comparisons: int = 1
    max_seconds: float = 60.0
    max_bytes: float = 1e9
    seed: int = 0
