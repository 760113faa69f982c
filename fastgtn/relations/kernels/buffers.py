"""Memory for large results, used again and again: the system hands out new memory page by page, which takes time.

On large graphs, the first write into new memory takes up to half of the time of a hop. A buffer is given out again
only when nothing refers to it any more: tensors and arrays on it, and what autograd has saved, are references to it.
Batches differ in size. So that their free buffers do not pile up, all buffers together take little more than those
that were in use at one time, which is what a run without buffers would take.
"""

import math
import sys
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

LARGE = 1 << 20  # bytes: smaller results come from the usual memory, which keeps them anyway
KEPT = 1 << 31  # bytes of all kept buffers together
SPARE = 1.25  # a buffer may be larger than the result by this factor, and all of them than the most that was in use
_CACHE_LINE = 64  # bytes

_buffers: list[np.ndarray] = []  # the least recently used first
_most_used = 0  # bytes of buffers that were in use at one time
_lock = threading.Lock()
_example = [np.empty(1, np.uint8)]
_IDLE = sys.getrefcount(_example[0])  # of an array that nothing but a list refers to


def empty(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
    """An array without values, on memory that is aligned to a cache line; otherwise every row may touch one line more.

    The memory is numpy's, which asks for huge pages: fewer page faults and address look-ups on large graphs.
    """
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = _taken(num_bytes + _CACHE_LINE) if num_bytes >= LARGE else np.empty(num_bytes + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + num_bytes].view(dtype).reshape(shape)


def empty_tensor(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """The same as a tensor in the memory of the processor. torch aligns the memory of small ones as well."""
    if math.prod(shape) * dtype.itemsize < LARGE:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(empty(shape, torch.empty(0, dtype=dtype).numpy().dtype))


def release() -> None:
    """Give the memory of all buffers back, of those in use as soon as they are free."""
    global _most_used
    with _lock:
        _buffers.clear()
        _most_used = 0


def _taken(num_bytes: int) -> np.ndarray:
    with _lock:
        for place in range(len(_buffers)):
            is_fitting = num_bytes <= _buffers[place].nbytes <= SPARE * num_bytes
            if is_fitting and sys.getrefcount(_buffers[place]) == _IDLE:
                _buffers.append(_buffers.pop(place))
                return _buffers[-1]
        _make_room(num_bytes)
        memory = np.empty(num_bytes, np.uint8)
        _buffers.append(memory)
        while sum(buffer.nbytes for buffer in _buffers) > KEPT:
            _buffers.pop(0)  # if it is in use, its memory is given back afterwards
        return memory


def _make_room(num_bytes: int) -> None:
    """Give free buffers back, the least recently used first, until a new one fits beside the rest."""
    global _most_used
    free = [place for place in range(len(_buffers)) if sys.getrefcount(_buffers[place]) == _IDLE]
    total = num_bytes + sum(buffer.nbytes for buffer in _buffers)
    _most_used = max(_most_used, total - sum(_buffers[place].nbytes for place in free))
    gone = []
    for place in free:
        if total <= SPARE * _most_used:
            break
        total -= _buffers[place].nbytes
        gone.append(place)
    for place in reversed(gone):
        del _buffers[place]
