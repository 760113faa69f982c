r"""The words (sequences of steps) that K hops can take over some rows, and their weights under the filters.

With the decomposition of a hop into steps :math:`R_s` and a diagonal that depends on patterns q alone,
:math:`F_1 ⋯ F_K X = \sum_w c_w(α) G_w` over words w of steps and of projections :math:`Π_q` onto the nodes of a
pattern. The :math:`G_w` are numbers of the graph, see :class:`PathProducts`; only c depends on the filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.products import Keep, Word


class TooManyPathsError(InputError):
    """The hops have more paths than were allowed for."""


@dataclass(frozen=True, eq=False)
class PathTrie:
    """The words that rows can take, each a prefix of others: number 0 is the empty one.

    While hops pass, the weight of a word comes from its parent with the weights `enter`, or waits with `stay`.
    """

    words: tuple[Word, ...]
    parent: Tensor  # int64 [M]
    enter: Tensor  # float64 [M, T]
    stay: Tensor  # float64 [M, T]; that of the empty word depends on the row
    starts: Tensor  # float64 [Q, T]: the self-loops of each kind of row
    row_start: Tensor  # int64 [B]
    ends: Tensor  # bool [M, kinds]: which kinds of nodes a word ends at, none for words that no K hops can take
    num_hops: int

    def coefficients(self, filters: Tensor) -> Tensor:
        r"""The weight c of every word, [Q, C, M] in float64, by filters [K, C, T] in product order.

        .. math:: f_k[w] = f_{k-1}[\mathrm{parent}(w)] ⟨\mathrm{enter}_w, α_k⟩ + f_{k-1}[w] ⟨\mathrm{stay}_w, α_k⟩
        """
        Q, M = self.starts.size(0), len(self.words)
        alpha = filters.double()
        f = alpha.new_zeros(Q, alpha.size(1), M)
        f[:, :, 0] = 1
        for hop in alpha:
            own = (self.starts @ hop.T)[:, :, None]  # [Q, C, 1]
            wait = torch.cat([own, (hop @ self.stay[1:].T).expand(Q, -1, -1)], 2)
            f = f[:, :, self.parent] * (hop @ self.enter.T) + f * wait
        return f

    def ending_at(self, kind: int) -> Tensor:
        """The numbers of the non-empty words that end at nodes of a kind."""
        numbers = self.ends[:, kind].nonzero()[:, 0]
        return numbers[numbers > 0]


def find_words(parts: Decomposition, kinds: Tensor, *, num_kinds: int, signed: bool, most: int) -> PathTrie:
    r"""Find the words of decomposed hops; words that no edge continues are omitted.

    A place where all nodes have one pattern needs no projection. Elsewhere stays are counted as if all nodes had the
    `base` pattern, and words through :math:`Π_q` carry the difference, :math:`s_q - s_{base}` at the first stay.

    Args:
        kinds: A number below `num_kinds` for each input node; words know which they end at.
        signed: Take the most frequent pattern for the base. Otherwise the base never stays, which gives one more
            word, and all weights are sums of products of filters.
        most: Refuse more words than this.
    """
    return _Search(parts, kinds, num_kinds, signed=signed, most=most).run()


@dataclass(frozen=True, eq=False)
class _Place:
    """A word, and the nodes that it leads to."""

    number: int
    word: Word
    kind: int  # their type
    taken: int  # steps: the level
    nodes: Tensor  # bool [nodes of that type in that level]
    base: Tensor | None  # the self-loops that are counted here, [T]; None where projections have been chosen


class _Search:
    def __init__(self, parts: Decomposition, kinds: Tensor, num_kinds: int, *, signed: bool, most: int) -> None:
        self.parts, self.num_kinds = parts, num_kinds
        self.kinds = [kinds[places] for places in parts.places]
        self.signed, self.most, self.marks = signed, most, parts.marks
        self.words: list[Word] = []
        self.parent: list[int] = []
        self.enter: list[Tensor] = []
        self.stay: list[Tensor] = []
        self.ends: list[Tensor] = []
        self.can_wait: list[bool] = []

    @cached_property
    def nothing(self) -> Tensor:
        return self.marks.new_zeros(self.marks.size(1))

    def run(self) -> PathTrie:
        patterns, row_start = self.parts.pattern[: sum(self.parts.counts[0])].unique(return_inverse=True)
        starts = self.marks[patterns]
        self._add(0, (), self.nothing, starts.sum(0), torch.ones(self.num_kinds, dtype=torch.bool))
        waiting = []
        for kind, count in enumerate(self.parts.counts[0]):
            if count:
                waiting += self._stepped(_Place(0, (), kind, 0, torch.ones(count, dtype=torch.bool), None))
        while waiting:
            place = waiting.pop()
            if len(place.word) < len(self.parts):
                waiting += self._projected(place)
                waiting += self._stepped(place)
        return PathTrie(
            tuple(self.words),
            torch.tensor(self.parent),
            torch.stack(self.enter),
            torch.stack(self.stay),
            starts,
            row_start,
            torch.stack(self.ends),
            len(self.parts),
        )

    def _add(self, parent: int, word: Word, enter: Tensor, stay: Tensor, ends: Tensor) -> int:
        number = len(self.words)
        if number > self.most:
            raise TooManyPathsError(
                f'there are more than {self.most:,} paths to unroll: use fewer hops, or model.propagation = "implicit".'
            )
        can_wait = bool(stay.any()) or (number > 0 and self.can_wait[parent])
        used = len(word) == len(self.parts) or can_wait
        self.words.append(word)
        self.parent.append(parent)
        self.enter.append(enter)
        self.stay.append(stay)
        self.can_wait.append(can_wait)
        self.ends.append(ends & used)
        return number

    def _ends(self, kind: int, nodes: Tensor) -> Tensor:
        """The kinds of input nodes in a mask."""
        ends = torch.zeros(self.num_kinds, dtype=torch.bool)
        ends[self.kinds[kind][: len(nodes)][nodes]] = True
        return ends

    def _stepped(self, place: _Place) -> list[_Place]:
        """One more step along each relation."""
        found = []
        for number in self.parts.leaving[place.kind]:
            step = self.parts.steps[number]
            nodes = self.parts.blocks[number][place.taken].reach(place.nodes)
            if bool(nodes.any()):
                word, level = (*place.word, number), place.taken + 1
                enter = self.nothing.clone()
                enter[step.relation] = 1
                stay = self.nothing if len(word) == len(self.parts) else self._base(step.far, level, nodes)
                added = self._add(place.number, word, enter, stay, self._ends(step.far, nodes))
                found.append(_Place(added, word, step.far, level, nodes, stay))
        return found

    def _base(self, kind: int, level: int, nodes: Tensor) -> Tensor:
        counts = torch.bincount(self.parts.patterns(kind, level)[nodes], minlength=self.marks.size(0))
        if self.signed or int((counts > 0).sum()) == 1:
            return self.marks[counts.argmax()]
        return self.nothing

    def _projected(self, place: _Place) -> list[_Place]:
        """What nodes with other self-loops than the base need beside it."""
        if place.base is None:
            return []
        difference = self.marks - place.base  # [Q, T]
        present = torch.zeros(len(difference), dtype=torch.bool)
        pattern = self.parts.patterns(place.kind, place.taken)
        present[pattern[place.nodes]] = True
        difference[~present] = 0
        last = len(place.word) + 1 == len(self.parts)
        found = []
        for weights, enter, stay in self._masks(difference, last=last):
            word: Word = (*place.word, Keep(tuple(weights.tolist())))
            nodes = place.nodes & (weights != 0)[pattern]
            added = self._add(place.number, word, enter, stay, self._ends(place.kind, nodes))
            found.append(_Place(added, word, place.kind, place.taken, nodes, None))
        return found

    def _masks(self, difference: Tensor, *, last: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Weights per pattern, `enter` and `stay`: by pattern, or by relation if only one hop is left."""
        chosen = difference.any(1).nonzero()[:, 0]
        by_pattern = [
            (torch.eye(len(difference), dtype=torch.float64)[q], difference[q], self.nothing if last else self.marks[q])
            for q in chosen
        ]
        if not last or not self.signed:
            return by_pattern
        columns, relation = difference.unique(dim=1, return_inverse=True)
        by_relation = [
            (columns[:, n], (relation == n).double(), self.nothing)
            for n in range(columns.size(1))
            if bool(columns[:, n].any())
        ]
        return min(by_relation, by_pattern, key=len)
