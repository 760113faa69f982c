"""Training pairs whose links are hidden from the graph that describes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastgtn.links.edges import Array, hidden_from
from fastgtn.links.joined.paths import JoinedPaths, Word
from fastgtn.links.negatives import Negatives
from fastgtn.links.task import LinkTask, Pairs

HELD_OUT = 0.1  # share of the training links that are hidden and learned from at a time
MOST_LINKS = 10_000


@dataclass(frozen=True, eq=False)
class Described:
    """Pairs, the strength of every joined path for each pair, and the popularity of the target."""

    pairs: Pairs
    paths: JoinedPaths
    scores: Array  # [pairs, paths]
    popularity: Array  # [pairs]: log(1 + links of the target)


def held_out(task: LinkTask, *, longest: int, seed: int) -> Described:
    """Hide some training links, and describe them and as many other pairs by the paths of the remaining graph.

    A link is never described by a graph that contains it, in either direction.
    """
    rng = np.random.default_rng([seed, 0x0DD])
    count = task.train.shape[1]
    chosen = rng.permutation(count)[: max(1, min(MOST_LINKS, round(HELD_OUT * count)))]
    links = task.train[:, np.sort(chosen)]
    rest = np.delete(task.train, chosen, axis=1)
    graph = hidden_from(task.graph, task.relation, links)
    negatives = Negatives.of(task.graph, task.relation, task.train, kind=task.negatives)
    pairs = Pairs.of(links, negatives.like(links, seed=seed))
    return describe(pairs, JoinedPaths.of(graph, task.relation, longest=longest), popularity_of(task, rest))


def describe(pairs: Pairs, paths: JoinedPaths, popularity: Array, words: tuple[Word, ...] | None = None) -> Described:
    """The path scores of pairs on a graph."""
    scores = paths.scores(pairs.source, pairs.target, words)
    popular = popularity[pairs.target]
    if paths.is_within_one_type:  # a pair without direction: both ends count
        popular = popular + popularity[pairs.source]
    return Described(pairs, paths, scores, popular)


def popularity_of(task: LinkTask, links: Array) -> Array:
    """The logarithm of one more than the number of links of each target; between nodes of one type, at either end."""
    ends = links.ravel() if task.is_within_one_type else links[1]
    value: Array = np.log1p(np.bincount(ends, minlength=task.num_targets))
    return value
