"""Self-loops that are implied and never stored: the identity, and rows that a relation leaves empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastgtn.relations.layout.valid import check_diagonal


@dataclass(frozen=True, eq=False)
class Diagonal:
    """Row i has a self-loop of weight 1 in each relation that its pattern marks; few patterns serve many rows."""

    marks: Tensor  # bool [P, T]
    pattern: Tensor  # int64 [R], the pattern of each row

    def __reduce__(self) -> tuple[Any, ...]:
        return Diagonal, (self.marks, self.pattern)

    def check(self) -> None:
        """Refuse rows without a pattern; each object is checked once."""
        if "_is_checked" not in self.__dict__:
            check_diagonal(self)
            self.__dict__["_is_checked"] = True

    @staticmethod
    def blank(num_rows: int, num_relations: int, device: torch.device | str = "cpu") -> Diagonal:
        """No self-loop anywhere."""
        marks = torch.zeros(1, num_relations, dtype=torch.bool, device=device)
        return Diagonal(marks, torch.zeros(num_rows, dtype=torch.int64, device=device))

    @staticmethod
    def identity(num_rows: int, num_relations: int) -> Diagonal:
        """The last relation is the identity."""
        diagonal = Diagonal.blank(num_rows, num_relations)
        diagonal.marks[:, -1] = True
        return diagonal

    @staticmethod
    def from_marks(marks: Tensor) -> Diagonal:
        """Find the distinct rows of a boolean table [R, T]."""
        pattern = _same_rows(marks)
        first = torch.full((int(pattern.max()) + 1 if pattern.numel() else 0,), marks.size(0))
        first.scatter_reduce_(0, pattern, torch.arange(marks.size(0)), "amin")
        return Diagonal(marks[first], pattern)

    def merged(self, other: Diagonal) -> Diagonal:
        """The self-loops of both; each relation has at most one per row."""
        pair, pattern = (self.pattern * other.marks.size(0) + other.pattern).unique(return_inverse=True)
        marks = self.marks[pair // other.marks.size(0)] | other.marks[pair % other.marks.size(0)]
        return Diagonal(marks, pattern)

    def weights(self, filters: Tensor) -> Tensor:
        """The total weight of each row's self-loops, [R, C]."""
        return self.pattern_weights(filters)[self.pattern]

    def pattern_weights(self, filters: Tensor) -> Tensor:
        """The same per pattern, [P, C]."""
        return self._marks_as(filters.dtype) @ filters.T

    def _marks_as(self, dtype: torch.dtype) -> Tensor:
        """The marks as numbers; they are kept, because every hop of a training asks for the same ones."""
        if torch.compiler.is_compiling():
            return self.marks.to(dtype)
        kept: dict[torch.dtype, Tensor] = self.__dict__.setdefault("_kept_marks", {})
        if dtype not in kept:
            with torch.inference_mode(False):  # what is kept may be part of a training later
                kept[dtype] = self.marks.to(dtype)
        return kept[dtype]

    def rows(self, rows: Tensor) -> Diagonal:
        return Diagonal(self.marks, self.pattern.index_select(0, rows))

    def to(self, device: torch.device | str) -> Diagonal:
        return Diagonal(self.marks.to(device), self.pattern.to(device))


def _same_rows(marks: Tensor) -> Tensor:
    """Number the rows of a boolean table so that equal rows have equal numbers.

    Up to 63 columns are compared as one integer. A wider table takes one more integer per 63 columns: it is
    slower to build, and gives the same result.
    """
    pattern = torch.zeros(marks.size(0), dtype=torch.int64)
    for start in range(0, marks.size(1), 63):
        word = torch.zeros_like(pattern)
        for bit, column in enumerate(range(start, min(start + 63, marks.size(1)))):
            word |= marks[:, column].long() << bit
        _, word = word.unique(return_inverse=True)
        _, pattern = (pattern * marks.size(0) + word).unique(return_inverse=True)
    return pattern
