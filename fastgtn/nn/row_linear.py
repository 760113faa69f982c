"""Products whose rows have the same bits whether they are computed alone or among others."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW_ROWS = 8  # BLAS computes a few rows in another order of summation than many


class RowLinear(nn.Linear):
    """A linear layer that gives a node the same bits alone as in a batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(_padded(x))[: len(x)]


def row_product(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight, with the same bits in each row as if it were one of many."""
    return torch.mm(_padded(x), weight)[: len(x)]


def _padded(x: Tensor) -> Tensor:
    """With rows of zeros below where there are few rows."""
    return x if x.dim() != 2 or len(x) >= FEW_ROWS else F.pad(x, (0, 0, 0, FEW_ROWS - len(x)))
