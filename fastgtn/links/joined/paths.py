r"""Joined meta-paths: all ways from a source node to a target node, and how strongly each pair is joined by them.

The score of a pair along a path is an entry of the product of its symmetrically normalised relations,
:math:`s_P(u, i) = (\hat A_{t_1} ⋯ \hat A_{t_L})_{ui}`, :math:`\hat A = D^{-1/2} A D'^{-1/2}`. A path is cut in
the middle: the score is then an inner product of two short sparse rows, and no product over all pairs is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array
from fastgtn.links.joined.dots import pair_dots
from fastgtn.links.joined.features import with_features
from fastgtn.links.joined.matrices import mirrors, normalized_matrix, work_of
from fastgtn.links.joined.shapes import RowShapes, shaped
from fastgtn.links.joined.words import MOST_PATHS, Word, cut, highest, once, words_between
from fastgtn.links.reverses import Reverses, both_directions, walked
from fastgtn.relations import Relation
from fastgtn.relations.paths.metapath import MetaPath, PathNames

MOST_ENTRIES = 50_000_000  # of one half of a path


@dataclass(frozen=True, eq=False)
class JoinedPaths:
    """The joined meta-paths of one graph from one relation's sources to its targets.

    Args:
        matrices: Per relation of the stack the normalised matrix, rows where a walk stands, columns where it goes.
            Weights enter by their logarithm, since counts of events spread over several orders of magnitude.
        words: The paths, shortest first.
        left_out: Paths that were skipped because one half of them would be too large, or because there are too many.
        reverses: Which relation is the reverse of which.
        mirrored: For each relation the number of the one whose matrix is its transpose; None if there is none.
    """

    relation: Relation
    relations: tuple[Relation, ...]
    node_types: tuple[str, ...]
    matrices: tuple[Any, ...]
    words: tuple[Word, ...]
    left_out: tuple[Word, ...]
    reverses: Reverses
    mirrored: tuple[int | None, ...]
    _halves: dict[Word, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        graph: HeteroData,
        relation: Relation,
        *,
        longest: int = 4,
        words: tuple[Word, ...] | None = None,
        features: bool = True,
        reverses: Reverses | None = None,
    ) -> JoinedPaths:
        """Find the paths of up to `longest` steps, or take those that were found on a graph of the same schema.

        The direct step along the relation itself is excluded, because it is predicted.

        Args:
            features: Whether paths may lead through features of both ends.
            reverses: Which relation is the reverse of which, if another graph says so: see :class:`LinkTask`.
        """
        both, reverses = both_directions(graph, reverses)
        if features and (words is None or highest(words) >= len(both.edge_types)):
            both, reverses = with_features(both, reverses, (relation.source, relation.target))
        if words and highest(words) >= len(both.edge_types):
            raise InputError("the model has paths through features, but the nodes of this graph have none.")
        relations = tuple(Relation(*edge_type) for edge_type in both.edge_types)
        matrices = tuple(normalized_matrix(both, step) for step in relations)
        mirrored = mirrors(relations, reverses, matrices)
        if words is None:
            # a walk from a source steps against the messages: along the reverse of the relation
            own = {t for t, step in enumerate(relations) if step == reverses[relation]}
            words = words_between(relations, relation, own, longest)
            if relation.source == relation.target:  # a pair has one score along a path and along its reverse
                words = once(words, mirrored)
        kept: list[Word] = []
        left_out: list[Word] = []
        for word in words:
            (kept if len(kept) < MOST_PATHS and _is_affordable(word, matrices) else left_out).append(word)
        node_types = tuple(both.node_types)
        chosen = tuple(kept), tuple(left_out)
        return JoinedPaths(relation, relations, node_types, matrices, *chosen, reverses, mirrored)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_within_one_type(self) -> bool:
        """Whether pairs have no direction; scores are then means over both directions."""
        return self.relation.source == self.relation.target

    def path(self, word: Word) -> MetaPath:
        """The steps of a word as a meta-path that is read from the source to the target."""
        return MetaPath.of([self.relations[t] for t in word])

    def names(self, words: tuple[Word, ...] | None = None) -> list[str]:
        """The short names of all paths, or of some; steps are named in the direction in which they are walked."""
        names = PathNames(self.node_types, self.relations)
        return [
            names.short(walked(self.path(word), self.reverses)) for word in (self.words if words is None else words)
        ]

    def halves(self, word: Word) -> tuple[Word, Word]:
        """The two parts of a path whose products are kept."""
        return cheapest_cut(word, self.matrices)

    def product(self, word: Word) -> Any:
        """The product of the relations of a half path."""
        if word not in self._halves:
            first = self.matrices[word[0]]
            self._halves[word] = first if len(word) == 1 else (first @ self.product(word[1:])).tocsr()
            self._halves[word].sort_indices()
        return self._halves[word]

    def backwards(self, word: Word) -> Any:
        """The transpose of :meth:`product`: rows are the nodes where the half path ends."""
        mirror = [self.mirrored[t] for t in reversed(word)]
        if None not in mirror:  # the product of the reverses; often it is the first half of another path
            return self.product(tuple(t for t in mirror if t is not None))
        key = (-1, *word)
        if key not in self._halves:
            self._halves[key] = self.product(word).T.tocsr()
            self._halves[key].sort_indices()
        return self._halves[key]

    def scores(self, source: Array, target: Array, words: tuple[Word, ...] | None = None) -> Array:
        """How strongly each pair is joined by each path, float64 [pairs, paths]."""
        if self.is_within_one_type:
            return (self._scores(source, target, words) + self._scores(target, source, words)) / 2
        return self._scores(source, target, words)

    def _scores(self, source: Array, target: Array, words: tuple[Word, ...] | None = None) -> Array:
        chosen = self.words if words is None else words
        out = np.zeros((len(source), len(chosen)))
        for column, word in enumerate(chosen):
            near, far = self.halves(word)
            if not far:
                matrix = self.product(near)
                out[:, column] = np.asarray(matrix[source, target]).ravel() if len(source) else 0.0
                continue
            out[:, column] = pair_dots(self.product(near), self.backwards(far), source, target)
        return out

    def ends(self, source: Array, target: Array, words: tuple[Word, ...] | None = None) -> Array:
        r"""For each pair and path :math:`\sqrt{n_u n_i}`, n the edges of an end along the path, [pairs, paths]."""
        both = [self._end_sizes(word) for word in (self.words if words is None else words)]
        columns = [left[source] * right[target] for left, right in both]
        return np.stack(columns, axis=1) if columns else np.zeros((len(source), 0))

    def _end_sizes(self, word: Word) -> tuple[Array, Array]:
        """The root of the number of edges of each source in the first step, and of each target in the last one."""
        first, last = self.product(word[:1]), self.backwards(word[-1:])
        sizes = [np.sqrt(np.diff(matrix.indptr)) for matrix in (first, last)]
        if self.is_within_one_type:  # a pair without direction: both nodes are both ends
            sizes = [np.sqrt(sizes[0] * sizes[1])] * 2
        return sizes[0], sizes[1]

    def row_shapes(self, source: Array, scales: Array) -> list[RowShapes]:
        """For each path its shapes for some sources and every target that it leads to.

        Args:
            scales: See :func:`fastgtn.links.joined.shapes.scales_of`.
        """
        found = []
        for word, scale in zip(self.words, scales, strict=True):
            strength = self._row_strength(source, word)
            left, right = self._end_sizes(word)
            row = np.repeat(np.arange(len(source)), np.diff(strength.indptr))
            ends = left[source[row]] * right[strength.indices]
            found.append(RowShapes(strength, shaped(strength.data[:, None], ends[:, None], scale[None])[:, 0]))
        return found

    def _row_strength(self, source: Array, word: Word) -> Any:
        """The strength of one path for some sources and every target, as a sparse matrix."""
        parts = [self._continued(first[source], *rest) for first, rest in self._ways(word)]
        return (sum(parts[1:], parts[0]) / len(parts)).tocsr()

    def _ways(self, word: Word) -> list[tuple[Any, tuple[Word, bool]]]:
        """The first half of a path, the half that continues it, and whether that is walked backwards.

        Between nodes of one type, a path that differs from its reverse is walked in both directions.
        """
        near, far = self.halves(word)
        ways = [(self.product(near), (far, False))]
        if self.is_within_one_type and tuple(self.mirrored[t] for t in reversed(word)) != word:
            ways.append((self.backwards(far or near), (near if far else (), True)))
        return ways

    def _continued(self, part: Any, half: Word, backwards: bool) -> Any:
        if not half:
            return part
        return part @ (self.backwards(half) if backwards else self.product(half))

    def rows(self, source: Array, weights: Array) -> Array:
        """The weighted sum over all paths for some sources and every target, [sources, targets]."""
        count = self.matrices[self.words[0][-1]].shape[1] if self.words else 0
        total = np.zeros((len(source), count), np.float32)
        by_end: dict[tuple[Word, bool], Any] = {}
        for weight, word in zip(weights, self.words, strict=True):
            ways = self._ways(word) if weight else []
            for first, end in ways:
                part = first[source] * (weight / len(ways))
                by_end[end] = part if end not in by_end else by_end[end] + part
        for end, part in by_end.items():
            product = self._continued(part, *end)
            total += product.toarray() if sp.issparse(product) else product
        return total


def cheapest_cut(word: Word, matrices: tuple[Any, ...]) -> tuple[Word, Word]:
    """A path cut in the middle; of three steps, after the first one if that takes less work.

    On a graph of purchases, items that share a customer are far fewer than customers that share an item.
    """
    if len(word) != 3:
        return cut(word)
    first, second, third = (matrices[t] for t in word)
    return (word[:1], word[1:]) if work_of(second, third) < work_of(first, second) else (word[:2], word[2:])


def _is_affordable(word: Word, matrices: tuple[Any, ...]) -> bool:
    """Whether the halves of a path stay below the largest number of entries, by the work that they would take."""
    halves = cheapest_cut(word, matrices)
    return all(work_of(*(matrices[t] for t in half[:2])) <= MOST_ENTRIES for half in halves if len(half) > 1)
