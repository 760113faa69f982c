"""Categories and codes: one column per value."""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.encoders.encoded import Encoded
from fastgtn.errors import InputError
from fastgtn.options import Section


class CategoryEncoder(Section):
    """One column per value. An empty cell, and a value that was not seen during fitting, become a row of zeros."""

    kind: Literal["category", "code"]
    values: tuple[str, ...]

    @staticmethod
    def fit(column: pa.ChunkedArray, feature: Feature, what: str) -> "CategoryEncoder":
        """Number the distinct values in sorted order."""
        if table_columns.is_list(column):
            raise InputError(f'{what} holds lists; its kind is "list" or "vector".')
        _, names = table_columns.codes(column)
        return CategoryEncoder(kind="code" if feature.kind == "code" else "category", values=tuple(names))

    @property
    def names(self) -> list[str]:
        return list(self.values)

    def encode(self, column: pa.ChunkedArray, what: str) -> Encoded:
        if table_columns.is_list(column):
            raise InputError(f"{what} holds lists, but it had one value per row when the encoding was fitted.")
        texts = table_columns.value_texts(column.combine_chunks())
        place = pc.index_in(texts, value_set=pa.array(self.values, pa.large_string()), skip_nulls=True)
        code = np.asarray(place.fill_null(-1)).astype(np.int64)
        missing = np.asarray(texts.is_null())
        unknown = np.flatnonzero((code < 0) & ~missing)
        rows = np.flatnonzero(code >= 0)
        shape = (len(code), len(self.values))
        block = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, code[rows])), shape=shape)
        example = str(texts[int(unknown[0])].as_py()) if unknown.size else ""
        return Encoded(block, missing=int(missing.sum()), unknown=int(unknown.size), example=example)
