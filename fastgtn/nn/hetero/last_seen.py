"""A cache of one entry: the last value computed from some tensors, valid while they exist and do not change."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


class LastSeen(Generic[T]):
    """Compare tensors by identity and version, and compute again only for others.

    Tensors are held weakly: when one of them is freed, so is the entry. A change in place raises a tensor's version,
    so the entry no longer fits. Tensors made in inference mode have no version and are not remembered.
    """

    def __init__(self) -> None:
        self._stamps: list[tuple[weakref.ref[Tensor], int]] = []
        self._rest: Hashable = None
        self._value: T | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles start empty: they have other tensors."""
        return LastSeen, ()

    def get(self, tensors: Sequence[Tensor], rest: Hashable, compute: Callable[[], T]) -> T:
        """The value for these tensors and whatever else it depends on, computed if it is not the last one."""
        if self._value is not None and self._fits(tensors, rest):
            return self._value
        self.clear()
        value = compute()
        if not any(tensor.is_inference() for tensor in tensors):
            self._stamps = [(weakref.ref(tensor, self._gone), tensor._version) for tensor in tensors]
            self._rest, self._value = rest, value
        return value

    def clear(self) -> None:
        """Forget the entry."""
        self._stamps, self._rest, self._value = [], None, None

    def _gone(self, _: weakref.ref[Tensor]) -> None:
        self.clear()

    def _fits(self, tensors: Sequence[Tensor], rest: Hashable) -> bool:
        return (
            rest == self._rest
            and len(tensors) == len(self._stamps)
            and all(
                seen() is tensor and not tensor.is_inference() and version == tensor._version
                for tensor, (seen, version) in zip(tensors, self._stamps, strict=True)
            )
        )
