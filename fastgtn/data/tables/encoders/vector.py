"""Lists of numbers, such as embeddings: taken as they are."""

from typing import Literal

import numpy as np
import pyarrow as pa

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.encoders.encoded import Encoded
from fastgtn.errors import InputError
from fastgtn.options import Section


class VectorEncoder(Section):
    """One column per number of the list."""

    kind: Literal["vector"] = "vector"
    length: int

    @staticmethod
    def fit(column: pa.ChunkedArray, feature: Feature, what: str) -> "VectorEncoder":  # noqa: ARG004
        """All lists must have one length."""
        return VectorEncoder(length=table_columns.vectors(column, what).shape[1])

    @property
    def names(self) -> list[str]:
        return [str(i) for i in range(self.length)]

    def encode(self, column: pa.ChunkedArray, what: str) -> Encoded:
        matrix = table_columns.vectors(column, what)
        if matrix.shape[1] != self.length:
            raise InputError(
                f"{what} has lists of {matrix.shape[1]} numbers; the encoding was fitted on {self.length}."
            )
        return Encoded(matrix.astype(np.float32))
