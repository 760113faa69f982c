"""Products whose rows have the same bits whether they are computed alone or among others.

BLAS chooses the order of summation by the shape: a few rows, or a single column, are summed in another order than
many. Which shapes these are depends on the processor.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW_ROWS = 256
FEWEST_COLUMNS = 2


class RowLinear(nn.Linear):
    """A linear layer that gives a node the same bits alone as in a batch."""

    def forward(self, x: Tensor) -> Tensor:
        if self.out_features >= FEWEST_COLUMNS:
            return F.linear(_padded(x), self.weight, self.bias)[: len(x)]
        missing = FEWEST_COLUMNS - self.out_features
        bias = None if self.bias is None else F.pad(self.bias, (0, missing))
        return F.linear(_padded(x), F.pad(self.weight, (0, 0, 0, missing)), bias)[: len(x), : self.out_features]


def row_product(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight, with the same bits in each row as if it were one of many."""
    columns = weight.size(1)
    wide = F.pad(weight, (0, FEWEST_COLUMNS - columns)) if columns < FEWEST_COLUMNS else weight
    return torch.mm(_padded(x), wide)[: len(x), :columns]


def _padded(x: Tensor) -> Tensor:
    """With rows of zeros below where there are few rows."""
    return x if x.dim() != 2 or len(x) >= FEW_ROWS else F.pad(x, (0, 0, 0, FEW_ROWS - len(x)))
