"""Columns of numbers: missing values filled, long tails shortened, mean zero and deviation one."""

from typing import Literal

import numpy as np
import pyarrow as pa

from fastgtn.data.tables.columns import Array, numbers_or_nan
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.encoders.encoded import Encoded
from fastgtn.errors import InputError
from fastgtn.options import Section

LONG_TAIL = 8.0  # a value this many deviations from the mean: the logarithm is taken


class NumberEncoder(Section):
    """One column, and a second one that marks missing values if some were missing during fitting."""

    kind: Literal["number"] = "number"
    fill: float
    has_missing: bool
    is_log: bool
    mean: float
    deviation: float

    @staticmethod
    def fit(column: pa.ChunkedArray, feature: Feature, what: str) -> "NumberEncoder":
        """Find fill value, mean and deviation; an infinite value or a column without any value is refused."""
        values = numbers_or_nan(column, what)
        missing = np.isnan(values)
        if missing.all():
            raise InputError(f"{what} has no value in any row; leave it out.")
        seen = values[~missing]
        # what fills gaps has no say in the scale: where most rows are gaps, it would decide alone
        is_log = feature.standardize and (_has_long_tail(seen) if feature.log is None else feature.log)
        scaled = _signed_log(seen) if is_log else seen
        mean, deviation = (float(scaled.mean()), float(scaled.std())) if feature.standardize else (0.0, 1.0)
        return NumberEncoder(
            fill=_fill_value(seen, feature),
            has_missing=bool(missing.any()),
            is_log=is_log,
            mean=mean,
            deviation=deviation if deviation > 0 else 1.0,
        )

    @property
    def names(self) -> list[str]:
        return ["", "missing"] if self.has_missing else [""]

    def encode(self, column: pa.ChunkedArray, what: str) -> Encoded:
        values = numbers_or_nan(column, what)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        parts = [self.scaled(filled), *([missing] if self.has_missing else [])]
        return Encoded(np.stack(parts, 1).astype(np.float32), missing=int(missing.sum()))

    def scaled(self, values: Array) -> Array:
        """Deviations from the mean of the fitted values, after the logarithm if that is taken."""
        scaled: Array = ((_signed_log(values) if self.is_log else values) - self.mean) / self.deviation
        return scaled

    @property
    def is_standard(self) -> bool:
        """Whether the numbers are measured in deviations from their mean; constant and plain columns are not."""
        return self.deviation != 1.0


def _fill_value(seen: Array, feature: Feature) -> float:
    if feature.fill == "mean":
        return float(seen.mean())
    return float(np.median(seen)) if feature.fill in (None, "median") else float(feature.fill)


def _has_long_tail(values: Array) -> bool:
    """Whether a few values are so far out that the others would all look alike.

    If most values are zero, only the others are considered.
    """
    nonzero = values[values != 0]
    values = nonzero if 2 * len(nonzero) < len(values) else values
    deviation = values.std() if len(values) else 0.0
    return bool(deviation > 0 and np.abs(values - values.mean()).max() > LONG_TAIL * deviation)


def _signed_log(values: Array) -> Array:
    return np.sign(values) * np.log1p(np.abs(values))
