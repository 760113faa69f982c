"""Test which joined meta-paths distinguish links from other pairs, before any training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastgtn.links.edges import Array
from fastgtn.links.joined.logistic import fit_logistic
from fastgtn.links.joined.supervision import Described, held_out
from fastgtn.links.metrics import middle_ranks, roc_auc
from fastgtn.links.task import LinkTask

PERMUTATIONS = 200
NEARLY = 0.7  # of the largest gain: paths that gain at least this much compete by their length


@dataclass(frozen=True)
class ScreenedPath:
    """How well one joined path predicts links.

    Args:
        auc: ROC-AUC of the path alone; below 0.5 the path connects pairs that are not links.
        p_value: Family-wise: how often permuted labels give any path an AUC as far from 0.5.
        gain: Log-likelihood per pair that it adds to the paths chosen before it; 0 if it was not chosen.
        chosen: Its place in the forward selection, from 1; None if it adds nothing beyond chance.
    """

    name: str
    steps: tuple[int, ...]
    auc: float
    p_value: float
    gain: float
    chosen: int | None


@dataclass(frozen=True)
class LinkScreening:
    """All joined paths, the chosen ones first, and the names of those that were too large to look at."""

    paths: tuple[ScreenedPath, ...]
    num_pairs: int
    left_out: tuple[str, ...]

    @property
    def significant(self) -> bool:
        """Whether any path is significant at the 5 % level."""
        return any(path.p_value <= 0.05 for path in self.paths)


def screen_links(task: LinkTask, *, longest: int = 4, seed: int = 0) -> LinkScreening:
    """Test every joined meta-path on hidden training links; validation and test pairs are not read."""
    return screening_of(held_out(task, longest=longest, seed=seed), seed=seed)


def screening_of(described: Described, *, seed: int = 0) -> LinkScreening:
    """The table for pairs that are described already."""
    labels, scores = described.pairs.labels, described.scores
    names = described.paths.names()
    aucs = [roc_auc(column, labels) for column in scores.T]
    p_values = _family_wise(scores, labels, np.array(aucs), seed)
    lengths = [len(word) for word in described.paths.words]
    order, gains = select_forward(scores, labels, described.popularity, lengths)
    place = {column: number for number, column in enumerate(order, 1)}
    rows = [
        ScreenedPath(name, word, auc, p, gains.get(column, 0.0), place.get(column))
        for column, (name, word, auc, p) in enumerate(zip(names, described.paths.words, aucs, p_values, strict=True))
    ]
    rows.sort(key=lambda row: (row.chosen is None, row.chosen or 0, -abs(row.auc - 0.5)))
    names_out = tuple(described.paths.names(described.paths.left_out))
    return LinkScreening(tuple(rows), len(described.pairs), names_out)


def select_forward(
    scores: Array, labels: Array, popularity: Array, lengths: list[int]
) -> tuple[list[int], dict[int, float]]:
    """Add the path that raises the likelihood most, beside popularity, until the gain is below Schwarz's limit."""
    n = len(labels)
    chosen: list[int] = []
    gains: dict[int, float] = {}
    base = popularity[:, None]
    before = fit_logistic(base, labels).log_likelihood(base, labels)
    left = [column for column in range(scores.shape[1]) if scores[:, column].any()]
    while left:
        tried = {}
        for column in left:
            x = np.concatenate([base, scores[:, [*chosen, column]]], axis=1)
            tried[column] = fit_logistic(x, labels).log_likelihood(x, labels)
        most = max(tried.values()) - before
        if most <= np.log(n):
            break
        # a longer path often repeats a shorter one there and back: the shortest of nearly equal paths is the answer
        near = [column for column in left if tried[column] - before >= NEARLY * most]
        best = min(near, key=lambda column: (lengths[column], -tried[column]))
        gains[best] = (tried[best] - before) / n
        before = tried[best]
        chosen.append(best)
        left.remove(best)
    return chosen, gains


def _family_wise(scores: Array, labels: Array, aucs: Array, seed: int) -> list[float]:
    """How often the best of all paths is as far from 0.5 under permuted labels."""
    if not scores.shape[1]:
        return []
    rng = np.random.default_rng([seed, 0x5C4])
    ranks = np.stack([middle_ranks(column) for column in scores.T], axis=1)  # [pairs, paths]
    shuffled = np.stack([rng.permutation(labels) for _ in range(PERMUTATIONS)], axis=1)
    positives, negatives = labels.sum(), (1 - labels).sum()
    null = (ranks.T @ shuffled - positives * (positives + 1) / 2) / max(positives * negatives, 1)
    largest = np.abs(null - 0.5).max(0)  # [permutations]
    return [float((1 + (largest >= abs(auc - 0.5)).sum()) / (1 + PERMUTATIONS)) for auc in aucs]
