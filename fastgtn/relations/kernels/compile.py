"""Compile our numba kernels, cache them on disk if possible, and run them on torch's threads."""

import itertools
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
from numba.core import event

from fastgtn.relations.kernels.cache import check_cache
from fastgtn.relations.kernels.neighbours import free_threads
from fastgtn.relations.kernels.team import find_team

# Contraction gives fused multiply-add, reassociation gives vectorised dot products. Both are decided once,
# at compile time, so that two runs still give the same bits. NaN and infinity keep their meaning.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that releases the GIL; keep the machine code on disk if some folder can be written."""
    options = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}
    try:
        compiled = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no writable cache folder: compile in every process
        compiled = numba.njit(function, **options)
    check_cache(compiled)
    return compiled


class _Announcer(event.Listener):  # type: ignore[misc]
    """Writes to the log of the package when kernels are compiled for the first time, since that takes a while."""

    has_announced = False

    def on_start(self, compiling: event.Event) -> None:
        dispatcher = compiling.data["dispatcher"]
        if self.has_announced or not dispatcher.py_func.__module__.startswith("fastgtn."):
            return
        self.has_announced = True
        folder = dispatcher.stats.cache_path
        kept = f"they are kept in {folder} for the next start"
        not_kept = "no folder for them can be written, so every start compiles them: set NUMBA_CACHE_DIR to a folder"
        logging.getLogger("fastgtn").info(
            "compiling kernels for this processor, which takes half a minute; %s", kept if folder else not_kept
        )

    def on_end(self, compiled: event.Event) -> None: ...


event.register("numba:compile", _Announcer())


def run_ranges(piece: Callable[..., None], whole: Callable[..., None], count: int, *arguments: Any) -> None:
    """Call ``piece(first, last, *arguments)`` over parts of ``range(count)``, on as many threads as torch may use.

    The parts only divide the work. Sums must be computed per item of the range, so that
    the result does not depend on the number of threads.

    Args:
        whole: A kernel ``whole(threads, count, *arguments)`` that is nothing but a call of ``on_team`` with `piece`:
            a lambda at the top level of its file. Made by a function, it would be compiled in every process, because
            numba stores what a function encloses under a name that is drawn at random.
    """
    threads = free_threads() if count > 1 else 1
    if _has_team:
        whole(threads, count, *arguments)
    else:
        _run_in_pool(piece, min(threads, count), count, arguments)


def _run_in_pool(piece: Callable[..., None], threads: int, count: int, arguments: tuple[Any, ...]) -> None:
    """The same on Python's threads: where torch's library has no OpenMP, and after a fork, which ends its team."""
    if threads <= 1:
        piece(0, count, *arguments)
        return
    pieces = min(count, 4 * threads)  # a few per thread, so that a slow thread does not delay the others
    bounds = [count * number // pieces for number in range(pieces + 1)]
    ticket = itertools.count()  # next() is atomic: a shared queue without a lock

    def work() -> None:
        while (number := next(ticket)) < pieces:
            piece(bounds[number], bounds[number + 1], *arguments)

    others = [_pool().submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        other.result()


_has_team = find_team()
_workers: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _workers
    if _workers is None:
        _workers = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="fastgtn")
    return _workers


def _forget_threads() -> None:
    global _workers, _has_team
    _workers, _has_team = None, False


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_threads)  # threads do not survive it
