"""What the kernels trust: index arrays of the right type, in order and in range. Checked once per object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.relations.layout.diagonal import Diagonal
    from fastgtn.relations.layout.segments import Segments

LARGEST = 2**31 - 1  # columns and relations are int32


def check_segments(segments: Segments) -> None:
    """Refuse index arrays that would let a kernel read or write outside of its tables."""
    s = segments
    for name, array, dtype in (
        ("row_ptr", s.row_ptr, torch.int64),
        ("relation", s.relation, torch.int32),
        ("seg_ptr", s.seg_ptr, torch.int64),
        ("col", s.col, torch.int32),
    ):
        if array.dtype != dtype or array.dim() != 1 or not array.is_contiguous():
            _refuse(f"{name} must be a contiguous vector of {dtype}, but got {array.dtype} {tuple(array.shape)}")
    if not 0 <= s.num_cols <= LARGEST or not 0 <= s.num_relations <= LARGEST:
        _refuse(f"num_cols and num_relations must lie in 0 … {LARGEST}, but got {s.num_cols} and {s.num_relations}")
    _check_pointers("row_ptr", s.row_ptr, s.relation.numel())
    if s.seg_ptr.numel() != s.relation.numel() + 1:
        _refuse(f"seg_ptr must have {s.relation.numel() + 1} entries, but got {s.seg_ptr.numel()}")
    _check_pointers("seg_ptr", s.seg_ptr, s.col.numel())
    _check_range("relation", s.relation, s.num_relations)
    _check_range("col", s.col, s.num_cols)


def check_diagonal(diagonal: Diagonal) -> None:
    """Refuse a row whose pattern of self-loops does not exist."""
    marks, pattern = diagonal.marks, diagonal.pattern
    if marks.dim() != 2 or pattern.dim() != 1 or pattern.dtype != torch.int64:
        _refuse(f"marks must be [P, T] and pattern int64 [R], but got {tuple(marks.shape)} and {pattern.dtype}")
    _check_range("pattern", pattern, marks.size(0))


def check_keys(keys: Tensor, count: int, name: str) -> None:
    """Refuse numbers that are not below `count` before they are sorted by counting."""
    if not 0 <= count <= LARGEST:
        _refuse(f"there may be 0 … {LARGEST} {name}, but got {count}")
    _check_range(name, keys, count)


def _check_pointers(name: str, pointers: Tensor, last: int) -> None:
    if not pointers.numel() or int(pointers[0]) or int(pointers[-1]) != last or bool((pointers.diff() < 0).any()):
        _refuse(f"{name} must grow from 0 to {last}, one entry more than there are rows or segments")


def _check_range(name: str, numbers: Tensor, count: int) -> None:
    if numbers.numel():
        low, high = (int(bound) for bound in torch.aminmax(numbers))
        if low < 0 or high >= count:
            _refuse(f"{name} must lie in 0 … {count - 1}, but spans {low} … {high}")


def _refuse(problem: str) -> None:
    raise InputError(f"the edges of this stack are damaged: {problem}. Build stacks with RelationStack.from_edges.")
