"""Training pairs whose links are hidden from the graph that describes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.links.edges import Array, hidden_from, known_before
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.words import Word
from fastgtn.links.negatives import Negatives
from fastgtn.links.task import LinkTask, Pairs
from fastgtn.links.task.splits import times_of

HELD_OUT = 0.1  # share of the training links that are hidden and learned from at a time
MOST_LINKS = 10_000
ENOUGH_LINKS, MOST_FOLDS = 5_000, 4  # with fewer links, several parts are hidden one after the other
FOLD_SEEDS = 1_000_003  # between the seeds of the negatives of two parts


@dataclass(frozen=True, eq=False)
class Described:
    """Pairs, the strength of every joined path for each pair, and the popularity of the target."""

    pairs: Pairs
    paths: JoinedPaths
    scores: Array  # [pairs, paths]
    ends: Array  # [pairs, paths]: the root of the product of the edges of both ends
    popularity: Array  # [pairs]: log(1 + links of the target)

    def first(self, paths: JoinedPaths) -> Described:
        """The same pairs with only the first paths."""
        few = len(paths)
        return replace(self, paths=paths, scores=self.scores[:, :few], ends=self.ends[:, :few])


def held_out(task: LinkTask, *, longest: int, seed: int, features: bool = True) -> Described:
    """Training links and as many other pairs, each described by a graph from which the links are hidden.

    Args:
        features: Whether paths may lead through features of both ends.
    """
    parts = held_out_parts(task, longest=longest, seed=seed, features=features)
    pairs = Pairs(*(np.concatenate([getattr(p.pairs, name) for p in parts]) for name in ("source", "target", "labels")))
    values = [np.concatenate([getattr(p, name) for p in parts]) for name in ("scores", "ends", "popularity")]
    return Described(pairs, parts[0].paths, *values)


def held_out_parts(task: LinkTask, *, longest: int, seed: int, features: bool = True) -> list[Described]:
    """Hide some training links, and describe them and as many other pairs by the paths of the remaining graph.

    A link is never described by a graph that contains it, in either direction. Where links are few, this is done
    with several parts of them. If links are split by time, the latest ones are hidden, and all that came after them:
    the model then learns what validation and test ask for, such as links to nodes that are new.
    """
    count = task.train.shape[1]
    size = max(1, min(MOST_LINKS, round(HELD_OUT * count)))
    order = np.random.default_rng([seed, 0x0DD]).permutation(count)
    if task.is_timed:  # training links are in the order of time
        order = np.arange(count)[::-1]
    parts: list[Described] = []
    for fold in range(min(MOST_FOLDS, -(-ENOUGH_LINKS // size), count // size)):
        hidden = order[fold * size : (fold + 1) * size]
        later = order[: fold * size] if task.is_timed else order[:0]
        words = parts[0].paths.words if parts else None
        paths = JoinedPaths.of(
            _without(task, hidden, later),
            task.relation,
            longest=longest,
            words=words,
            features=features,
            reverses=task.reverses,
        )
        words = words or paths.words
        parts.append(_described_without(task, hidden, later, paths, words, seed=seed + fold * FOLD_SEEDS))
    return parts


def _without(task: LinkTask, hidden: Array, later: Array) -> HeteroData:
    """The graph without some training links; of a task that is split by time, the graph before them."""
    graph = hidden_from(task.graph, task.relation, task.train[:, np.concatenate([hidden, later])])
    if not task.is_timed:
        return graph
    return known_before(graph, task.relation, times_of(task.graph, task.relation, task.train[:, hidden]).min())


def _described_without(
    task: LinkTask, hidden: Array, later: Array, paths: JoinedPaths, words: tuple[Word, ...], *, seed: int
) -> Described:
    """Some training links and as many other pairs, described by the paths of the graph without these links."""
    links = task.train[:, np.sort(hidden)]
    rest = np.delete(task.train, np.concatenate([hidden, later]), axis=1)
    negatives = Negatives.of(task.graph, task.relation, task.train, kind=task.negatives)
    pairs = Pairs.of(links, negatives.like(links, seed=seed))
    return describe(pairs, paths, popularity_of(task, rest), words)


def describe(pairs: Pairs, paths: JoinedPaths, popularity: Array, words: tuple[Word, ...] | None = None) -> Described:
    """The path scores of pairs on a graph."""
    scores = paths.scores(pairs.source, pairs.target, words)
    popular = popularity[pairs.target]
    if paths.is_within_one_type:  # a pair without direction: both ends count
        popular = popular + popularity[pairs.source]
    return Described(pairs, paths, scores, paths.ends(pairs.source, pairs.target, words), popular)


def popularity_of(task: LinkTask, links: Array) -> Array:
    """The logarithm of one more than the number of links of each target; between nodes of one type, at either end."""
    ends = links.ravel() if task.is_within_one_type else links[1]
    value: Array = np.log1p(np.bincount(ends, minlength=task.num_targets))
    return value
