r"""From the representations of two nodes to a score.

.. math:: \mathrm{dot} = z^\top y \qquad \mathrm{distmult} = z^\top \mathrm{diag}(r)\, y \qquad
          \mathrm{mlp} = w^\top \mathrm{ReLU}(W [z, y, z ∘ y])
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError, nearest

DecoderKind = Literal["dot", "distmult", "mlp"]


class Dot(nn.Module):
    """The inner product. A sum over meta-paths of both ends stays a sum over pairs of them."""

    is_bilinear = True

    def left(self, z: Tensor) -> Tensor:
        """What the inner product with the target's representation is taken of."""
        return z

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return (self.left(z) * y).sum(-1)


class DistMult(Dot):
    """The inner product with a learned weight for each coordinate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def left(self, z: Tensor) -> Tensor:
        return z * self.weight


class PairMLP(nn.Module):
    """A hidden layer over both representations and their product; a score is no sum over meta-paths."""

    is_bilinear = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(3 * width, width), nn.Linear(width, 1)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        score: Tensor = self.out(torch.relu(self.hidden(torch.cat([z, y, z * y], -1))))
        return score.squeeze(-1)


def build_decoder(kind: DecoderKind, width: int) -> Dot | PairMLP:
    """The decoder of a name."""
    if kind not in get_args(DecoderKind):
        raise InputError(f'no decoder "{kind}"; {nearest(kind, get_args(DecoderKind))}')
    return Dot() if kind == "dot" else DistMult(width) if kind == "distmult" else PairMLP(width)
