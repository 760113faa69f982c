"""Scores of predicted links: over a sample of pairs, and over the full ranking of all targets of a source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.data.metrics import entitle
from fastgtn.errors import InputError
from fastgtn.links.edges import Array

AT = 20  # length of the lists of recommendations that are scored
PAIR_METRICS = ("roc_auc", "average_precision", "mrr")


def ranking_metrics(at: int) -> tuple[str, str, str, str]:
    """The metrics of all ranked targets of each source, for lists of some length."""
    entitle({f"ndcg@{at}": f"NDCG@{at}"})
    return f"recall@{at}", f"ndcg@{at}", f"hits@{at}", "filtered_mrr"


RANKING_METRICS = ranking_metrics(AT)
SELECTED_BY = (*PAIR_METRICS, *RANKING_METRICS, "loss", "last")  # what may choose a model, or its epoch
entitle({"filtered_mrr": "filtered MRR"})
BLOCK_SCORES = 8_000_000  # scores of sources with all targets that are held at once


@dataclass(frozen=True, eq=False)
class LinkTally:
    """The counts that the metrics need of some pairs, and of some sources whose targets were all ranked.

    The tallies of batches and processes add up: the scores of the sum do not depend on how the rows were divided.

    Args:
        logits: The score of each pair, [B].
        labels: Whether each pair is a link, [B].
        sources: The source of each pair, [B].
        lists: Recall, NDCG and hit of the list of each ranked source, float64 [S, 3].
        reciprocal: 1 / filtered rank of each link of these sources, float64 [L].
        at: The length of the lists.
    """

    logits: Tensor
    labels: Tensor
    sources: Tensor
    lists: Tensor
    reciprocal: Tensor
    at: int = field(default=AT, kw_only=True)

    @staticmethod
    def of_pairs(logits: Tensor, labels: Tensor, sources: Tensor) -> LinkTally:
        """Of pairs alone."""
        none = torch.zeros(0, dtype=torch.float64)
        return LinkTally(logits.detach().double().cpu(), labels.cpu(), sources.cpu(), none.view(0, 3), none)

    @staticmethod
    def of_lists(lists: Sequence[Array], reciprocal: Sequence[Array], at: int = AT) -> LinkTally:
        """Of ranked sources alone."""
        none = torch.zeros(0, dtype=torch.float64)
        both = [
            torch.from_numpy(np.concatenate([empty, *parts]))
            for empty, parts in ((np.zeros((0, 3)), lists), (np.zeros(0), reciprocal))
        ]
        return LinkTally(none, none.long(), none.long(), *both, at=at)

    @property
    def rows(self) -> int:
        return len(self.logits)

    def __add__(self, other: LinkTally) -> LinkTally:
        sums = (torch.cat([mine, theirs]) for mine, theirs in zip(self._parts, other._parts, strict=True))
        return LinkTally(*sums, at=self.at if len(self.lists) else other.at)

    @property
    def _parts(self) -> tuple[Tensor, ...]:
        return self.logits, self.labels, self.sources, self.lists, self.reciprocal

    def scores(self, *, each_epoch: str | None = None) -> dict[str, float]:  # noqa: ARG002
        """Every metric of the pairs, and of the lists if sources were ranked."""
        found: dict[str, float] = {}
        if len(self.logits):
            found = pair_scores(self.logits.numpy(), self.labels.numpy(), self.sources.numpy())
        if len(self.lists):
            columns = [*self.lists.T, self.reciprocal]
            names = ranking_metrics(self.at)
            found |= {name: _mean(column.tolist()) for name, column in zip(names, columns, strict=True)}
        return found


def rank_all(
    rows: Callable[[Array], Array], links: Array, known: Any, *, at: int = AT, part: slice = slice(None)
) -> LinkTally:
    """Rank all targets for every source that has hidden links, a block of sources at a time.

    Recall, NDCG and hits are those of the first `at` targets that are not known. The filtered rank of a link counts
    only targets that are not linked to the source, neither known nor hidden; ties share the middle rank.

    Args:
        rows: Scores of some sources with every target, [sources, targets].
        links: The hidden links [2, E].
        known: Known links as a sparse matrix [sources, targets]; they are left out.
        at: The length of the lists, at least 1.
        part: Which of the sources this process ranks.
    """
    if at < 1:
        raise InputError(f"lists of recommendations have at least 1 target, but got {at}.")
    order = np.argsort(links[0], kind="stable")
    sources, starts = np.unique(links[0][order], return_index=True)
    ends = np.append(starts[1:], len(order))
    wanted = [links[1][order[a:b]] for a, b in zip(starts[part], ends[part], strict=True)]
    sources = sources[part]
    size = max(1, BLOCK_SCORES // max(known.shape[1], 1))
    lists, reciprocal = [], []
    for first in range(0, len(sources), size):
        block = sources[first : first + size]
        values = np.array(rows(block))
        values[known[block].nonzero()] = -np.inf
        for row, mine in zip(values, wanted[first : first + size], strict=True):
            places, ranks = _places(row, mine)
            lists.append(_list_scores(places, at)[None])
            reciprocal.append(1 / ranks)
    return LinkTally.of_lists(lists, reciprocal, at)


def _places(row: Array, links: Array) -> tuple[Array, Array]:
    """The place of each link in the sorted list, lower numbers first among equals, and its filtered rank."""
    mine = row[links]
    higher = np.array([np.count_nonzero(row > value) for value in mine])
    equal = np.array([np.count_nonzero(row == value) for value in mine])
    before = [
        np.count_nonzero(row[:link] == row[link]) if ties > 1 else 0 for link, ties in zip(links, equal, strict=True)
    ]
    higher_others = higher - (mine > mine[:, None]).sum(1)
    equal_others = equal - (mine == mine[:, None]).sum(1)
    return 1 + higher + np.array(before), 1 + higher_others + equal_others / 2


def _list_scores(places: Array, at: int) -> Array:
    """Recall, NDCG and hit of the first `at` places."""
    found = places[places <= at]
    ideal = (1 / np.log2(np.arange(2, min(len(places), at) + 2))).sum()
    return np.array([len(found) / len(places), (1 / np.log2(1 + found)).sum() / ideal, float(len(found) > 0)])


def _mean(values: Sequence[float]) -> float:
    """A mean that does not depend on the order of the values."""
    return math.fsum(values) / len(values) if len(values) else 0.0


def pair_scores(scores: Array, labels: Array, source: Array) -> dict[str, float]:
    """ROC-AUC, average precision, and MRR: the mean over sources of 1 / rank of the first link among its pairs."""
    return {
        "roc_auc": roc_auc(scores, labels),
        "average_precision": average_precision(scores, labels),
        "mrr": first_link_rank(scores, labels, source),
    }


def roc_auc(scores: Array, labels: Array) -> float:
    """The share of (link, non-link) pairs that are in the right order; ties count half."""
    positive = labels > 0
    count = int(positive.sum()), int((~positive).sum())
    if not min(count):
        return 0.5
    ranks = middle_ranks(scores)
    return float((ranks[positive].sum() - count[0] * (count[0] + 1) / 2) / (count[0] * count[1]))


def average_precision(scores: Array, labels: Array) -> float:
    """The area under precision over recall; equal scores are one step of the threshold."""
    order = np.argsort(-scores, kind="stable")
    ordered, links = scores[order], labels[order] > 0
    last = np.append(ordered[1:] != ordered[:-1], True) if len(ordered) else np.zeros(0, bool)
    hits, seen = np.cumsum(links)[last], np.flatnonzero(last) + 1
    if not len(hits) or not hits[-1]:
        return 0.0
    return float((np.diff(hits, prepend=0) * hits / seen).sum() / hits[-1])


def first_link_rank(scores: Array, labels: Array, source: Array) -> float:
    """The mean over sources of 1 / rank of the best-ranked link; among equal scores links come last."""
    order = np.lexsort((labels, -scores, source))
    group, links = source[order], labels[order] > 0
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else np.zeros(0, np.int64)
    place = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    inverse = np.where(links, 1.0 / (place + 1), 0.0)
    best = np.maximum.reduceat(inverse, starts) if len(starts) else np.zeros(0)
    return _mean(best[best > 0].tolist())


def middle_ranks(scores: Array) -> Array:
    """Ranks from 1 in ascending order; equal scores share the middle of their places."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    first = np.append(True, ordered[1:] != ordered[:-1]) if len(scores) else np.zeros(0, bool)
    group = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(scores))
    ranks = np.empty(len(scores))
    ranks[order] = ((starts + 1 + ends) / 2)[group]
    return ranks
