"""Statistics of the columns of dense features, which a model keeps so that it reads another graph in the same way."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Scaling = Literal["auto", "none", "row", "count", "scale", "standard", "log"]
BY_COLUMN = ("scale", "standard", "log")  # columns are scaled by models; rows and logarithms are taken before
LONG_TAIL = 8.0  # deviations from the mean
STATISTICS_ROWS = 1 << 18  # a larger matrix, which may be in a file, is measured on some of its rows


def column_statistics(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each column, from some rows of a large matrix; 0 for columns that do not vary."""
    step = -(-len(matrix) // STATISTICS_ROWS) if len(matrix) else 1
    rows = matrix[::step].double()
    mean, deviation = rows.mean(0), rows.std(0, correction=0)
    return mean, torch.where(deviation > 1e-9 * mean.abs() + 1e-30, deviation, 0.0)


def has_long_tail(matrix: Tensor) -> bool:
    """Whether some column of amounts or counts has values so far out that the others would all look alike."""
    step = -(-len(matrix) // STATISTICS_ROWS) if len(matrix) else 1
    largest, smallest = matrix[::step].amax(0).double(), matrix[::step].amin(0).double()
    mean, deviation = column_statistics(matrix)
    # a rare category is 0 or 1, and standardised numbers have both signs
    return bool(((smallest >= 0) & (largest > 1) & (largest - mean > LONG_TAIL * deviation) & (deviation > 0)).any())


def column_scales(matrix: Tensor, scaling: Scaling) -> tuple[Tensor, Tensor]:
    """What is subtracted from each column, and what it is then divided by.

    With "standard", and with "log" after the logarithms, every column gets deviation 1. With "scale" all columns are
    divided by one number, which makes their mean variance 1: columns that vary little stay small. A column that does
    not vary becomes 1 or −1, since messages of a constant still tell how many there are.
    """
    mean, deviation = column_statistics(matrix)
    varies = deviation > 0
    if scaling == "scale" and bool(varies.any()):
        deviation = torch.where(varies, deviation[varies].square().mean().sqrt(), 0.0)
    constant = torch.where(mean == 0, 1.0, mean.abs())
    return torch.where(varies, mean, 0.0), torch.where(varies, deviation, constant)
