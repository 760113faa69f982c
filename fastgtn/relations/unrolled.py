r"""Hops multiplied out over some rows: a few labelled paths, and how filters weigh each of them.

One hop is :math:`F_k = \sum_t α_{kt} E_t + \mathrm{diag}(s(α_k))`: the stored edges of the relations are steps, and
the diagonal of implied self-loops stays. How much stays, :math:`s_q(α) = \sum_t \mathrm{marks}[q, t] α_t`, depends on
the node by its pattern q alone. So :math:`F_1 ⋯ F_K X = \sum_w c_w(α) G_w` over words w of steps :math:`E_t` and of
projections :math:`Π_q` onto the nodes of a pattern. The :math:`G_w` are numbers of the graph; only c knows the filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.hops import Hops
from fastgtn.relations.unrolled_steps import HopSteps, Keep, Step, Word


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


def unroll(
    hops: Hops, steps: Sequence[HopSteps], kinds: Tensor, *, num_kinds: int, signed: bool, most: int
) -> PathTrie:  # fmt: skip
    r"""Find the words of planned hops; what no edge continues is left out.

    A place where all nodes have one pattern needs no projection. Elsewhere stays are counted as if all nodes had the
    `base` pattern, and words through :math:`Π_q` carry the difference, :math:`s_q - s_{base}` at the first stay.

    Args:
        steps: The hops taken apart, from :func:`split`.
        kinds: A number below `num_kinds` for each input node; words know which they end at.
        signed: Take the most frequent pattern for the base. Otherwise the base never stays, which gives one more
            word, and all weights are sums of products of filters.
        most: Refuse more words than this.
    """
    return _Search(hops, steps, kinds, num_kinds, signed=signed, most=most).run()


@dataclass(frozen=True, eq=False)
class _Place:
    """A word, and the nodes that it leads to."""

    number: int
    word: Word
    taken: int  # steps: how far from the targets
    nodes: Tensor  # bool [rows so many hops away]
    base: Tensor | None  # the self-loops that are counted here, [T]; None where projections have been chosen


class _Search:
    def __init__(
        self, hops: Hops, steps: Sequence[HopSteps], kinds: Tensor, num_kinds: int, *, signed: bool, most: int
    ) -> None:  # fmt: skip
        self.hops, self.steps, self.kinds, self.num_kinds = hops, steps, kinds, num_kinds
        self.signed, self.most = signed, most
        self.marks, self.pattern = steps[-1].marks, steps[-1].pattern
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
        B = self.hops.num_targets
        patterns, row_start = self.pattern[:B].unique(return_inverse=True)
        starts = self.marks[patterns]
        root = self._add(0, (), 0, torch.ones(B, dtype=torch.bool), self.nothing, starts.sum(0))
        waiting = [root]
        while waiting:
            place = waiting.pop()
            if len(place.word) < len(self.hops):
                waiting += self._projected(place) if place.word else []
                waiting += self._stepped(place)
        return PathTrie(
            tuple(self.words), torch.tensor(self.parent), torch.stack(self.enter), torch.stack(self.stay), starts,
            row_start, torch.stack(self.ends), len(self.hops),
        )  # fmt: skip

    def _add(self, parent: int, word: Word, taken: int, nodes: Tensor, enter: Tensor, stay: Tensor) -> _Place:
        number = len(self.words)
        if number > self.most:
            raise TooManyPathsError(
                f"there are more than {self.most:,} paths to unroll: take fewer hops, or let them run over edges."
            )
        can_wait = bool(stay.any()) or (number > 0 and self.can_wait[parent])
        used = len(word) == len(self.hops) or can_wait
        self.words.append(word)
        self.parent.append(parent)
        self.enter.append(enter)
        self.stay.append(stay)
        self.can_wait.append(can_wait)
        ends = torch.zeros(self.num_kinds, dtype=torch.bool)
        ends[self.kinds[: len(nodes)][nodes]] = used
        self.ends.append(ends)
        return _Place(number, word, taken, nodes, None if word and isinstance(word[-1], Keep) else stay)

    def _stepped(self, place: _Place) -> list[_Place]:
        """One more step along each relation."""
        found = []
        for relation, operator in self.steps[place.taken].relations.items():
            nodes = operator.reach(place.nodes)
            if bool(nodes.any()):
                word = (*place.word, Step(relation))
                enter = self.nothing.clone()
                enter[relation] = 1
                stay = self.nothing if len(word) == len(self.hops) else self._base(nodes)
                found.append(self._add(place.number, word, place.taken + 1, nodes, enter, stay))
        return found

    def _base(self, nodes: Tensor) -> Tensor:
        counts = torch.bincount(self._patterns(nodes), minlength=self.marks.size(0))
        if self.signed or int((counts > 0).sum()) == 1:
            return self.marks[counts.argmax()]
        return self.nothing

    def _patterns(self, nodes: Tensor) -> Tensor:
        return self.pattern[: len(nodes)][nodes]

    def _projected(self, place: _Place) -> list[_Place]:
        """What nodes with other self-loops than the base need beside it."""
        if place.base is None:
            return []
        difference = self.marks - place.base  # [Q, T]
        present = torch.zeros(len(difference), dtype=torch.bool)
        present[self._patterns(place.nodes)] = True
        difference[~present] = 0
        last = len(place.word) + 1 == len(self.hops)
        found = []
        for weights, enter, stay in self._masks(difference, last=last):
            keep = Keep(tuple(weights.tolist()))
            nodes = place.nodes & (weights != 0)[self.pattern[: len(place.nodes)]]
            found.append(self._add(place.number, (*place.word, keep), place.taken, nodes, enter, stay))
        return found

    def _masks(self, difference: Tensor, *, last: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Weights per pattern, `enter` and `stay`: by pattern, or by relation where only one hop is left."""
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
