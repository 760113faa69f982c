"""Why two nodes belong together: what each joined meta-path adds to the score of a pair, and through which nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastgtn.links.edges import Array
from fastgtn.links.joined.model import LinkModel
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.words import Word, cut


@dataclass(frozen=True)
class LinkInstance:
    """One concrete way from the source to the target: its nodes, and its share of the path's score."""

    nodes: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class LinkReason:
    """What one joined path adds to the log-odds, and its strongest instances."""

    name: str
    types: tuple[str, ...]
    contribution: float
    instances: tuple[LinkInstance, ...]


@dataclass(frozen=True)
class LinkReasons:
    """The parts of the log-odds of one pair. They add up to it."""

    source: int
    target: int
    logit: float
    bias: float
    popularity: float
    reasons: tuple[LinkReason, ...]


def explain_link(
    model: LinkModel, paths: JoinedPaths, popularity: Array, source: int, target: int, *, instances: int = 3
) -> LinkReasons:
    """Decompose the log-odds of one pair, the largest parts first."""
    u, i = np.array([source]), np.array([target])
    strengths = paths.scores(u, i, model.words)
    added = model.path_parts(strengths, paths.ends(u, i, model.words))[0]
    reasons = [
        LinkReason(
            name,
            paths.path(word).types,
            float(part),
            strongest(paths, word, source, target, top=instances) if strength else (),
        )
        for name, word, part, strength in zip(model.names, model.words, added, strengths[0], strict=True)
    ]
    ends = popularity[target] + popularity[source] if paths.is_within_one_type else popularity[target]
    popular = float(model.popularity * ends)
    return LinkReasons(
        source,
        target,
        model.bias + popular + sum(reason.contribution for reason in reasons),
        model.bias,
        popular,
        tuple(sorted(reasons, key=lambda reason: -abs(reason.contribution))),
    )


def strongest(paths: JoinedPaths, word: Word, source: int, target: int, *, top: int) -> tuple[LinkInstance, ...]:
    """The concrete paths between two nodes with the largest products of weights, exactly."""
    near, far = cut(word)
    left_nodes, left = _walks(paths, near, source)
    right_nodes, right = _walks_back(paths, far, target)
    order = np.argsort(right_nodes[:, 0], kind="stable")
    right_nodes, right = right_nodes[order], right[order]
    first = np.searchsorted(right_nodes[:, 0], left_nodes[:, -1])
    count = np.searchsorted(right_nodes[:, 0], left_nodes[:, -1], side="right") - first
    a = np.repeat(np.arange(len(left)), count)
    b = np.arange(len(a)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    weight = left[a] * right[b]
    total = weight.sum()
    best = np.argsort(-weight, kind="stable")[:top]
    nodes = np.concatenate([left_nodes[a[best]], right_nodes[b[best]][:, 1:]], axis=1)
    return tuple(
        LinkInstance(tuple(map(int, row)), float(w / total)) for row, w in zip(nodes, weight[best], strict=True)
    )


def _walks(paths: JoinedPaths, word: Word, start: int) -> tuple[Array, Array]:
    """Every walk along the steps of a word from one node: the nodes [walks, steps + 1] and the products of weights."""
    nodes, weights = np.array([[start]]), np.ones(1)
    for t in word:
        matrix = paths.matrices[t]
        begin, count = matrix.indptr[nodes[:, -1]], np.diff(matrix.indptr)[nodes[:, -1]]
        origin = np.repeat(np.arange(len(nodes)), count)
        place = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
        nodes = np.concatenate([nodes[origin], matrix.indices[place][:, None]], axis=1)
        weights = weights[origin] * matrix.data[place]
    return nodes, weights


def _walks_back(paths: JoinedPaths, word: Word, end: int) -> tuple[Array, Array]:
    """Every walk along a word that ends at one node."""
    nodes, weights = np.array([[end]]), np.ones(1)
    for t in reversed(word):
        matrix = paths.backwards((t,))
        begin, count = matrix.indptr[nodes[:, 0]], np.diff(matrix.indptr)[nodes[:, 0]]
        origin = np.repeat(np.arange(len(nodes)), count)
        place = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
        nodes = np.concatenate([matrix.indices[place][:, None], nodes[origin]], axis=1)
        weights = weights[origin] * matrix.data[place]
    return nodes, weights
