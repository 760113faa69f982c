"""How our numba kernels are compiled and run: cached on disk where possible, split over torch's threads."""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import torch

# Contraction gives fused multiply-add, reassociation gives vectorised dot products. Both are decided once,
# at compile time, so that two runs still give the same bits. NaN and infinity keep their meaning.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that releases the GIL; keep the machine code on disk if some folder can be written."""
    options = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}
    try:
        compiled = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no writable cache folder: compile anew in every process instead
        compiled = numba.njit(function, **options)
    return compiled


def run_ranges(task: Callable[[int, int], None], count: int) -> None:
    """Call ``task(start, stop)`` over pieces of ``range(count)``, on as many threads as torch may use.

    The pieces only say who does the work. Whatever is summed must be summed per item of the range, so that
    the result does not depend on the number of threads.
    """
    threads = min(torch.get_num_threads(), count)
    if threads <= 1:
        if count:
            task(0, count)
        return
    pieces = min(count, 4 * threads)  # a few per thread, so that an unlucky thread does not hold up the rest
    bounds = [count * piece // pieces for piece in range(pieces + 1)]
    ticket = itertools.count()  # next() is atomic: a shared queue without a lock

    def work() -> None:
        while (piece := next(ticket)) < pieces:
            task(bounds[piece], bounds[piece + 1])

    others = [_pool().submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        other.result()


_workers: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _workers
    if _workers is None:
        _workers = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="fastgtn")
    return _workers


def _forget_pool() -> None:
    global _workers
    _workers = None


os.register_at_fork(after_in_child=_forget_pool)  # threads do not survive a fork
