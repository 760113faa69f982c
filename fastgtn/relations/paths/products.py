"""Products of meta-paths with features, for the requested rows only; shared suffixes are computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fastgtn.relations.paths.decomposition import Decomposition


@dataclass(frozen=True)
class Keep:
    """Weigh nodes by the pattern of their self-loops: 1 for one pattern and 0 elsewhere projects onto it."""

    weights: tuple[float, ...]


Symbol = int | Keep  # the number of a step, or a projection
Word = tuple[Symbol, ...]  # next to the target first; a meta-path is a word of steps alone


@dataclass(eq=False)
class _Tail:
    """The end of some words; words that end alike share the products."""

    numbers: list[int] = field(default_factory=list)
    longer: dict[Symbol, _Tail] = field(default_factory=dict)


class PathProducts:
    r"""Products :math:`G_w = w_1 w_2 ⋯ X` for the targets of a decomposition, from the right, each shared end once.

    The end of a word that has m symbols is needed for rows at most K − m hops from the targets.

    Args:
        words: Sequences of steps and projections, for instance ``parts.effective_paths(kind)``. The empty word gives
            the features of the targets themselves.
    """

    def __init__(self, parts: Decomposition, words: Sequence[Word]) -> None:
        self.parts, self.ends = parts, [_Tail() for _ in parts.node_types]
        for number, word in enumerate(words):
            steps = [symbol for symbol in word if isinstance(symbol, int)]
            for end in [parts.steps[steps[-1]].far] if steps else range(len(self.ends)):
                tail = self.ends[end]
                for symbol in reversed(word):
                    tail = tail.longer.setdefault(symbol, _Tail())
                tail.numbers.append(number)

    @property
    def cost(self) -> int:
        """Numbers that are read for each column of features."""
        return sum(self._cost(tail, kind, len(self.parts)) for kind, tail in enumerate(self.ends))

    def _cost(self, tail: _Tail, kind: int, level: int) -> int:
        total = 0
        for symbol, longer in tail.longer.items():
            edges, near = 0, kind
            if isinstance(symbol, int):
                edges, near = self.parts.blocks[symbol][level - 1].num_edges, self.parts.steps[symbol].near
            total += edges + self.parts.counts[level - 1][near] + self._cost(longer, near, level - 1)
        return total

    def of(self, x: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """For each word its number, the targets that can take it [n], and their product with features [n, d].

        Args:
            x: Features of the inputs of the hops, [M, d].
        """
        for kind, tail in enumerate(self.ends):
            if tail.numbers or tail.longer:
                yield from self._of(x[self.parts.places[kind]], tail, kind, len(self.parts))

    def of_types(self, x: Mapping[str, Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """The same with the features of all nodes of each type, [N of the type, d]; a missing type has no products."""
        for kind, tail in enumerate(self.ends):
            features = x.get(self.parts.node_types[kind])
            if features is not None and (tail.numbers or tail.longer):
                yield from self._of(features[self.parts.inputs[kind]], tail, kind, len(self.parts))

    def _of(self, h: Tensor, tail: _Tail, kind: int, level: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        targets = self.parts.targets(kind)
        for number in tail.numbers if len(targets) else ():
            yield number, targets, h[: len(targets)]
        for symbol, longer in tail.longer.items():
            if isinstance(symbol, int):
                product, near = self.parts.blocks[symbol][level - 1].apply(h), self.parts.steps[symbol].near
            else:
                pattern = self.parts.patterns(kind, level - 1)
                weights = torch.tensor(symbol.weights, dtype=h.dtype)[pattern]
                product, near = weights[:, None] * h[: len(pattern)], kind
            yield from self._of(product, longer, near, level - 1)
