"""Vectorised dropout. torch draws single numbers, which can take longer than the rest of a step."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fastgtn.relations.kernels import buffers
from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.team import on_team

LARGE = 1 << 13  # smaller tensors use torch's dropout, which is as fast
LEVELS = 1 << 16  # the share is rounded to a multiple of 1 / LEVELS
AT_ONCE = 1 << 10  # decisions that are drawn before they are applied
PIECE = 1 << 16  # numbers that one thread handles at a time; a multiple of AT_ONCE

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS_27, _BITS_30, _BITS_31 = (np.uint64(bits) for bits in (27, 30, 31))


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    r"""In training, each number becomes 0 with probability p, and otherwise :math:`x / (1 - p)`.

    The numbers that fall depend on torch's generator and their places alone, not on threads.
    """
    if not training:
        return x
    dropped = round(p * LEVELS)
    ours = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling()
    if x.numel() < LARGE or not ours or not 0 < dropped < LEVELS:
        return F.dropout(x, p)  # a traced program gets torch's, too, and fuses it with what comes next
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
    out = buffers.empty_tensor(x.shape, x.dtype)
    source, target = x.numpy().reshape(-1), out.numpy().reshape(-1)
    scale = target.dtype.type(LEVELS / (LEVELS - dropped))
    count = -(-len(source) // PIECE)
    run_ranges(_drop, _drop_all, count, source, target, PIECE, np.uint64(seed), np.int32(dropped), scale)
    return out


@kernel
def _drop(
    first: int,
    last: int,
    x: np.ndarray,
    out: np.ndarray,
    piece: int,
    seed: np.uint64,
    dropped: int,
    scale: np.floating,
) -> None:
    """The pieces first … last − 1 of `piece` numbers: one random number decides over four."""
    drawn = np.empty(AT_ONCE // 4, np.uint64)
    levels = drawn.view(np.uint16)
    zero = x.dtype.type(0)
    stop = min(last * piece, len(x))
    for start in range(first * piece, stop, AT_ONCE):
        for k in range(AT_ONCE // 4):
            bits = seed + np.uint64(start // 4 + k) * _STEP  # splitmix64
            bits = (bits ^ (bits >> _BITS_30)) * _MIX_1
            bits = (bits ^ (bits >> _BITS_27)) * _MIX_2
            drawn[k] = bits ^ (bits >> _BITS_31)
        count = min(AT_ONCE, stop - start)
        source, target = x[start : start + count], out[start : start + count]
        for j in range(count):  # no branches: this loop runs in vectors
            target[j] = source[j] * scale if np.int32(levels[j]) >= dropped else zero


_drop_all = kernel(lambda threads, count, *arguments: on_team(_drop, threads, count, arguments))
