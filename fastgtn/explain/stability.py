"""Stability: do the runs of one config agree on the meta-paths?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fastgtn.errors import InputError
from fastgtn.explain.ranking import Ranking
from fastgtn.relations.paths.metapath import MetaPath

LOW_AGREEMENT = 0.5  # Kendall's τ at which a pair of paths has the same order in three of four cases


@dataclass(frozen=True)
class StablePath:
    """One path over several runs. A run that does not list it counts with weight zero and the next rank."""

    name: str
    path: MetaPath
    mean: float
    std: float
    ranks: tuple[int, ...]

    @property
    def first_in(self) -> float:
        """The share of runs that rank it first."""
        return self.ranks.count(1) / len(self.ranks)


@dataclass(frozen=True)
class Stability:
    """Paths by mean weight, and the agreement of the runs.

    Args:
        kendall: Mean rank correlation τ over pairs of runs, over the listed paths.
        top3_overlap: Mean share of common paths among the first three of two runs.
        warnings: Sentences about disagreements; empty if the runs agree.
    """

    num_runs: int
    paths: tuple[StablePath, ...]
    kendall: float
    top3_overlap: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        listed = [
            {"path": p.name, "mean": p.mean, "std": p.std, "ranks": list(p.ranks), "first_in": p.first_in}
            for p in self.paths
        ]
        return {
            "runs": self.num_runs,
            "kendall": self.kendall,
            "top3_overlap": self.top3_overlap,
            "paths": listed,
            "warnings": list(self.warnings),
        }


def stability(rankings: Sequence[Ranking], *, top: int = 20) -> Stability:
    """Compare the rankings of several runs of one config; rank more paths than `top`, or all, for exact means."""
    if len(rankings) < 2:
        raise InputError(f"stability compares several runs, but got {len(rankings)}: train with --runs 2 or more.")
    paths = {ranked.name: ranked.path for ranking in rankings for ranked in ranking}
    weights = {name: [_weight(ranking, name) for ranking in rankings] for name in paths}
    order = sorted(paths, key=lambda name: -statistics.fmean(weights[name]))[:top]
    listed = tuple(
        StablePath(
            name,
            paths[name],
            statistics.fmean(weights[name]),
            statistics.stdev(weights[name]),
            tuple(_rank(ranking, name) for ranking in rankings),
        )
        for name in order
    )
    pairs = list(combinations(range(len(rankings)), 2))
    tau = statistics.fmean(
        _kendall([weights[name][a] for name in order], [weights[name][b] for name in order]) for a, b in pairs
    )
    overlap = statistics.fmean(_overlap(rankings[a], rankings[b]) for a, b in pairs)
    return Stability(len(rankings), listed, tau, overlap, tuple(_disagreements(listed, tau)))


def _disagreements(paths: Sequence[StablePath], tau: float) -> list[str]:
    warnings = []
    firsts = {p.name: p.first_in for p in paths if p.first_in}
    if len(firsts) > 1:
        shares = ", ".join(f"{name} in {share:.0%}" for name, share in sorted(firsts.items(), key=lambda f: -f[1]))
        warnings.append(f"the runs disagree about the first path: {shares} of them.")
    if tau < LOW_AGREEMENT:
        warnings.append(f"the runs order the paths differently (Kendall's τ {tau:.2f}): do not rely on the ranks.")
    warnings += [
        f"the weight of {p.name}, {p.mean:.3f} ± {p.std:.3f}, is smaller than its deviation."
        for p in paths[:3]
        if p.std > p.mean
    ]
    return warnings


def _weight(ranking: Ranking, name: str) -> float:
    return next((ranked.weight for ranked in ranking if ranked.name == name), 0.0)


def _rank(ranking: Ranking, name: str) -> int:
    return next((ranked.rank for ranked in ranking if ranked.name == name), len(ranking) + 1)


def _overlap(one: Ranking, other: Ranking) -> float:
    first, second = ({ranked.name for ranked in ranking.paths[:3]} for ranking in (one, other))
    return len(first & second) / max(len(first), len(second), 1)


def _kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Rank correlation; one path alone is always in the same order."""
    if len(one) < 2:
        return 1.0
    from scipy.stats import kendalltau  # takes as long to import as torch

    tau = float(kendalltau(one, other).statistic)
    return tau if tau == tau else 0.0  # all weights are equal in one run, so there is no order
