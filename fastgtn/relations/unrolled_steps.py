"""Planned hops taken apart into single relations, and products of words of them with features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fastgtn.relations.hops import Hops
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.segments import Segments, spans


@dataclass(frozen=True)
class Step:
    """Go along the stored edges of a relation."""

    relation: int


@dataclass(frozen=True)
class Keep:
    """Weigh nodes by the pattern of their self-loops: 1 for one pattern and 0 elsewhere projects onto it."""

    weights: tuple[float, ...]


Symbol = Step | Keep
Word = tuple[Symbol, ...]  # next to the target first


@dataclass(frozen=True, eq=False)
class SingleRelation:
    """The stored edges of one relation within one hop."""

    operator: Operator

    @property
    def num_edges(self) -> int:
        return self.operator.edges[0].segments.num_edges

    def apply(self, h: Tensor) -> Tensor:
        """Features [columns, d] → [rows, d]."""
        return self.operator.apply(h[:, None], h.new_ones(1, 1))[:, 0]

    def reach(self, rows: Tensor) -> Tensor:
        """Which columns some rows read; both are masks."""
        segments = self.operator.edges[0].segments
        taken = torch.repeat_interleave(rows, segments.seg_ptr[segments.row_ptr].diff())
        columns = torch.zeros(self.operator.num_cols, dtype=torch.bool)
        columns[segments.col[taken].long()] = True
        return columns


@dataclass(frozen=True, eq=False)
class HopSteps:
    """One hop: its relations one by one, and the distinct kinds of self-loops."""

    operator: Operator
    marks: Tensor  # float64 [Q, T]: which relations give a self-loop to rows of a pattern
    pattern: Tensor  # int64 [rows]

    @property
    def num_rows(self) -> int:
        return self.operator.num_rows

    @cached_property
    def relations(self) -> dict[int, SingleRelation]:
        """Those with edges, by number; taken apart when first needed."""
        return {
            edges.first + number: _single(self.operator, edges, number)
            for edges in self.operator.edges
            for number in edges.segments.relation.unique().tolist()
        }


def split(hops: Hops) -> tuple[HopSteps, ...]:
    """Take every hop apart; patterns have the same numbers in all of them."""
    last = hops.operators[-1]
    if last.diagonal is None:
        marks = torch.zeros(1, last.num_relations, dtype=torch.float64)
        pattern = torch.zeros(last.num_rows, dtype=torch.int64)
    else:
        marks, same = last.diagonal.marks.double().unique(dim=0, return_inverse=True)
        pattern = same[last.diagonal.pattern]
    return tuple(HopSteps(hop, marks, pattern[: hop.num_rows]) for hop in hops)


def _single(operator: Operator, edges: Edges, number: int) -> SingleRelation:
    whole, zero = edges.segments, torch.zeros(1, dtype=torch.int64)
    mine = (whole.relation == number).nonzero()[:, 0]
    counts = whole.seg_ptr.diff()[mine]
    places = spans(whole.seg_ptr[mine], counts)
    per_row = torch.bincount(whole.segment_rows[mine], minlength=operator.num_rows)
    segments = Segments(
        row_ptr=torch.cat([zero, per_row.cumsum(0)]),
        relation=torch.zeros(len(mine), dtype=torch.int32),
        seg_ptr=torch.cat([zero, counts.cumsum(0)]),
        col=whole.col[places],
        num_cols=operator.num_cols,
        num_relations=1,
    )
    own = Edges(segments, edges.values[places].detach())
    return SingleRelation(Operator(operator.num_rows, operator.num_cols, 1, (own,), None))


@dataclass(eq=False)
class _Tail:
    """The end of some words; words that end alike share the products."""

    number: int | None = None
    longer: dict[Symbol, _Tail] = field(default_factory=dict)


class WordProducts:
    r"""Products :math:`G_w = w_1 w_2 ⋯ X` for the targets of planned hops, from the right, each shared end once.

    The end of a word that has m symbols is needed for rows at most K − m hops from the targets.
    """

    def __init__(self, steps: Sequence[HopSteps], words: Sequence[Word]) -> None:
        self.steps, self.root = steps, _Tail()
        for number, word in enumerate(words):
            tail = self.root
            for symbol in reversed(word):
                tail = tail.longer.setdefault(symbol, _Tail())
            tail.number = number

    @property
    def cost(self) -> int:
        """Numbers that are read for each column of features."""
        return self._cost(self.root, len(self.steps))

    def _cost(self, tail: _Tail, level: int) -> int:
        total = 0
        for symbol, longer in tail.longer.items():
            steps = self.steps[level - 1]
            edges = steps.relations[symbol.relation].num_edges if isinstance(symbol, Step) else 0
            total += edges + steps.num_rows + self._cost(longer, level - 1)
        return total

    def of(self, x: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The number of each word and its product with the features of the input nodes [M, d], for the targets."""
        return self._of(x, self.root, len(self.steps))

    def _of(self, h: Tensor, tail: _Tail, level: int) -> Iterator[tuple[int, Tensor]]:
        if tail.number is not None:
            yield tail.number, h[: self.steps[0].num_rows]
        for symbol, longer in tail.longer.items():
            steps = self.steps[level - 1]
            if isinstance(symbol, Step):
                product = steps.relations[symbol.relation].apply(h)
            else:
                weights = torch.tensor(symbol.weights, dtype=h.dtype)[steps.pattern]
                product = weights[:, None] * h[: steps.num_rows]
            yield from self._of(product, longer, level - 1)
