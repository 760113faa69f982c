"""Dropout in vectors: torch draws number by number, which can take longer than all the rest of a step."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fastgtn.relations.compile import kernel, run_ranges

LARGE = 1 << 13  # numbers from which on our own way is taken; below, torch's is as good
LEVELS = 1 << 16  # the share is rounded to a multiple of 1 / LEVELS
AT_ONCE = 1 << 10  # numbers whose fate is drawn before it is carried out
PIECE = 1 << 16  # numbers that one thread handles at a time; a multiple of AT_ONCE

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS_27, _BITS_30, _BITS_31 = (np.uint64(bits) for bits in (27, 30, 31))


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    r"""In training each number becomes 0 with probability p, else :math:`x / (1 - p)`.

    The numbers that fall depend on torch's generator and their places alone, not on threads.
    """
    if not training:
        return x
    dropped = round(p * LEVELS)
    ours = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    if x.numel() < LARGE or not ours or not 0 < dropped < LEVELS:
        return F.dropout(x, p)
    return _drop_in_vectors(x, dropped)


@torch.compiler.disable
def _drop_in_vectors(x: Tensor, dropped: int) -> Tensor:
    out: Tensor = _Drop.apply(x, dropped, int(torch.randint(2**63 - 1, ())))
    return out


class _Drop(torch.autograd.Function):
    """Which numbers fell is not stored: the seed draws them once more for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int, seed: int) -> Tensor:
        ctx.drawn = dropped, seed
        return _dropped(x, dropped, seed)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _dropped(grad, *ctx.drawn), None, None


def _dropped(x: Tensor, dropped: int, seed: int) -> Tensor:
    x = x.detach().contiguous()
    out = torch.from_numpy(np.empty(x.shape, x.numpy().dtype))  # numpy asks for huge pages
    source, target = x.numpy().reshape(-1), out.numpy().reshape(-1)
    scale = target.dtype.type(LEVELS / (LEVELS - dropped))

    def some(start: int, stop: int) -> None:
        _drop(source, target, start * PIECE, min(stop * PIECE, len(source)), np.uint64(seed), np.int32(dropped), scale)

    run_ranges(some, -(-len(source) // PIECE))
    return out


@kernel
def _drop(
    x: np.ndarray, out: np.ndarray, start: int, stop: int, seed: np.uint64, dropped: int, scale: np.floating
) -> None:
    """Numbers start … stop − 1, where `start` is a multiple of `AT_ONCE`: one random number decides over four."""
    drawn = np.empty(AT_ONCE // 4, np.uint64)
    levels = drawn.view(np.uint16)
    zero = x.dtype.type(0)
    for first in range(start, stop, AT_ONCE):
        for k in range(AT_ONCE // 4):
            bits = seed + np.uint64(first // 4 + k) * _STEP  # splitmix64
            bits = (bits ^ (bits >> _BITS_30)) * _MIX_1
            bits = (bits ^ (bits >> _BITS_27)) * _MIX_2
            drawn[k] = bits ^ (bits >> _BITS_31)
        count = min(AT_ONCE, stop - first)
        source, target = x[first : first + count], out[first : first + count]
        for j in range(count):  # no branches: this loop runs in vectors
            target[j] = source[j] * scale if np.int32(levels[j]) >= dropped else zero
