"""What every encoder gives back, and what it must be able to do."""

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Encoded:
    """A column as numbers.

    Args:
        block: Array or CSR matrix, [rows, width].
        missing: Rows without a value.
        unknown: Rows with a value that the encoder has not seen when it was fitted.
        example: One of the unknown values.
    """

    block: Any
    missing: int = 0
    unknown: int = 0
    example: str = ""


class ColumnEncoder(Protocol):
    """Numbers from a column, with everything that was fitted stored in plain fields."""

    @property
    def names(self) -> list[str]:
        """One name per column of the result; empty for the column itself."""

    def encode(self, column: pa.ChunkedArray, what: str) -> Encoded:
        """Convert a column to numbers with the fitted values."""
