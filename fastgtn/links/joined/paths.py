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
from fastgtn.links.edges import Array, both_directions
from fastgtn.links.joined.dots import pair_dots
from fastgtn.links.joined.features import with_features
from fastgtn.links.joined.shapes import RowShapes, shaped
from fastgtn.relations import Relation
from fastgtn.relations.paths.metapath import MetaPath, PathNames

Word = tuple[int, ...]  # numbers of relations, from the source outwards
MOST_ENTRIES = 50_000_000  # of one half of a path
MOST_PATHS = 200


@dataclass(frozen=True, eq=False)
class JoinedPaths:
    """The joined meta-paths of one graph from one relation's sources to its targets.

    Args:
        matrices: Per relation of the stack the normalised matrix, rows where a walk stands, columns where it goes.
            Weights enter by their logarithm, since counts of events spread over several orders of magnitude.
        words: The paths, shortest first.
        left_out: Paths that were skipped because one half of them would be too large.
        reverses: Which relation is the reverse of which.
    """

    relation: Relation
    relations: tuple[Relation, ...]
    node_types: tuple[str, ...]
    matrices: tuple[Any, ...]
    words: tuple[Word, ...]
    left_out: tuple[Word, ...]
    reverses: dict[Relation, Relation] = field(default_factory=dict, repr=False)
    _halves: dict[Word, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        graph: HeteroData,
        relation: Relation,
        *,
        longest: int = 4,
        words: tuple[Word, ...] | None = None,
        features: bool = True,
    ) -> JoinedPaths:
        """Find the paths of up to `longest` steps, or take those that were found on a graph of the same schema.

        The direct step along the relation itself is excluded, because it is predicted.

        Args:
            features: Whether paths may lead through features of both ends.
        """
        both, reverses = both_directions(graph)
        if features and (words is None or _highest(words) >= len(both.edge_types)):
            both, reverses = with_features(both, reverses, (relation.source, relation.target))
        if words and _highest(words) >= len(both.edge_types):
            raise InputError("the model has paths through features, but the nodes of this graph have none.")
        relations = tuple(Relation(*edge_type) for edge_type in both.edge_types)
        matrices = tuple(normalized_matrix(both, step) for step in relations)
        if words is None:
            # a walk from a source steps against the messages: along the reverse of the relation
            own = {t for t, step in enumerate(relations) if step == reverses[relation]}
            words = _words(relations, relation, own, longest)
        kept = tuple(w for w in words if _affordable(w, matrices))
        left_out = tuple(w for w in words if w not in kept)
        left_out += kept[MOST_PATHS:]
        return JoinedPaths(relation, relations, tuple(both.node_types), matrices, kept[:MOST_PATHS], left_out, reverses)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_within_one_type(self) -> bool:
        """Whether pairs have no direction; scores are then means over both directions."""
        return self.relation.source == self.relation.target

    def reversed_word(self, word: Word) -> Word:
        """The same path from its end to its start."""
        return tuple(self.relations.index(self.reverses[self.relations[t]]) for t in reversed(word))

    def path(self, word: Word) -> MetaPath:
        """The steps of a word as a meta-path that is read from the source to the target."""
        return MetaPath.of([self.relations[t] for t in word])

    def names(self) -> list[str]:
        """The short names of all paths."""
        names = PathNames(self.node_types, self.relations)
        return [names.short(self.path(word)) for word in self.words]

    def product(self, word: Word) -> Any:
        """The product of the relations of a half path."""
        if word not in self._halves:
            first = self.matrices[word[0]]
            self._halves[word] = first if len(word) == 1 else (first @ self.product(word[1:])).tocsr()
            self._halves[word].sort_indices()
        return self._halves[word]

    def backwards(self, word: Word) -> Any:
        """The transpose of :meth:`product`: rows are the nodes where the half path ends."""
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
            near, far = cut(word)
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
        ways = [word, self.reversed_word(word)] if self.is_within_one_type else [word]
        parts = [_continued(self.product(cut(way)[0])[source], self, cut(way)[1]) for way in ways]
        return (sum(parts[1:], parts[0]) / len(parts)).tocsr()

    def rows(self, source: Array, weights: Array) -> Array:
        """The weighted sum over all paths for some sources and every target, [sources, targets]."""
        count = self.matrices[self.words[0][-1]].shape[1] if self.words else 0
        total = np.zeros((len(source), count), np.float32)
        by_end: dict[Word, Any] = {}
        weighted = list(zip(weights, self.words, strict=True))
        if self.is_within_one_type:
            weighted = [(w / 2, one) for w, word in weighted for one in (word, self.reversed_word(word))]
        for weight, word in weighted:
            if weight:
                near, far = cut(word)
                part = self.product(near)[source] * weight
                by_end[far] = part if far not in by_end else by_end[far] + part
        for far, part in by_end.items():
            product = _continued(part, self, far)
            total += product.toarray() if sp.issparse(product) else product
        return total


def _highest(words: tuple[Word, ...]) -> int:
    """The largest number of a relation."""
    return max((t for word in words for t in word), default=-1)


def _continued(part: Any, paths: JoinedPaths, far: Word) -> Any:
    return part @ paths.product(far) if far else part


def cut(word: Word) -> tuple[Word, Word]:
    """The two halves of a path; the first is the longer one."""
    middle = (len(word) + 1) // 2
    return word[:middle], word[middle:]


def _words(relations: tuple[Relation, ...], relation: Relation, own: set[int], longest: int) -> tuple[Word, ...]:
    """All sequences of relations from the source type to the target type, shortest first."""
    found: list[Word] = []
    begun: list[tuple[Word, str]] = [((), relation.source)]
    for _ in range(longest):
        begun = [
            ((*word, t), step.source) for word, here in begun for t, step in enumerate(relations) if step.target == here
        ]
        found += [word for word, here in begun if here == relation.target and not (len(word) == 1 and word[0] in own)]
        if len(begun) > 20 * MOST_PATHS:
            break
    return tuple(found)


def _affordable(word: Word, matrices: tuple[Any, ...]) -> bool:
    """Whether the halves of a path stay below the largest number of entries, by the work that they would take."""
    for half in cut(word):
        if len(half) > 1:
            first, second = matrices[half[0]], matrices[half[1]]
            if int(np.diff(second.indptr)[first.indices].sum()) > MOST_ENTRIES:
                return False
    return True


def normalized_matrix(graph: HeteroData, relation: Relation) -> Any:
    r"""One relation as a sparse matrix :math:`D^{-1/2} A D'^{-1/2}`: row i holds the edges that end at node i.

    The entries of A are :math:`\log(1 + w)` where edges have weights w.
    """
    store = graph[tuple(relation)]
    cols, rows = store.edge_index.numpy()
    weight = store.get("edge_weight")
    values = np.ones(len(rows)) if weight is None else np.log1p(weight.double().numpy().clip(min=-0.5))
    if len(values) and values.min() < 0:
        raise InputError(
            f'the relation "{relation}" has negative weights; joined meta-paths need weights of at least 0.'
        )
    shape = int(graph[relation.target].num_nodes or 0), int(graph[relation.source].num_nodes or 0)
    matrix = sp.csr_matrix((values, (rows, cols)), shape=shape)
    scales = [np.asarray(matrix.sum(axis)).ravel() for axis in (1, 0)]
    left, right = (np.where(total > 0, np.where(total > 0, total, 1.0) ** -0.5, 0.0) for total in scales)
    return (sp.diags(left) @ matrix @ sp.diags(right)).tocsr()
