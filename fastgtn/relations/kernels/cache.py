"""Machine code on disk, stored with what it was compiled from and for which types.

Two processes that compile one function for different types at the same time may give both results the same file name.
numba would then run the code for one type on the arrays of the other. Here such code is not taken, but compiled again.
Processes also write one after the other, because each first reads what is stored and adds to it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

from fastgtn.errors import InputError
from fastgtn.system import lock, open_own


class CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function."""

    def save(self, key: Any, data: Any) -> None:
        with _alone(Path(self._cache_path)):
            super().save(key, (self._source, key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        is_ours = isinstance(found, tuple) and found[:2] == (self._source, key)
        return found[2] if is_ours else None

    @property
    def _source(self) -> Any:
        return self._source_stamp, _kernels()


def check_cache(compiled: Any) -> None:
    """Let a function that numba has made check what it reads; nothing is done if it is not cached."""
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if type(file) is IndexDataCacheFile:
        file.__class__ = CheckedCacheFile


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process writes to the cache meanwhile; where no file can be locked, what is lost is compiled again."""
    try:
        descriptor = open_own(folder / ".lock", create=True)
    except (OSError, InputError):
        yield
        return
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


@cache
def _kernels() -> tuple[tuple[str, float, int], ...]:
    """The state of this folder: kernels contain code of each other, and numba looks at the file of one alone."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in sources)
