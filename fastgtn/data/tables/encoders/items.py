"""Encode texts as counted words, and lists as their items."""

from typing import Literal

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.encoders.encoded import Encoded
from fastgtn.errors import InputError
from fastgtn.options import Section

MIN_WORD_ROWS, MAX_WORDS = 2, 1000  # defaults of a text column


class ItemsEncoder(Section):
    """One column per word, with its count; or one column per list item, 1 where the row has it."""

    kind: Literal["text", "list"]
    items: tuple[str, ...]
    is_complete: bool  # whether every item is known that was there: only then an unknown one is worth a note

    @staticmethod
    def fit(column: pa.ChunkedArray, feature: Feature, what: str) -> "ItemsEncoder":
        """Choose the words or items: those of enough rows, and of these the commonest."""
        is_text = feature.kind == "text"
        rows, number, names = table_columns.items(column, words=is_text)
        min_count = feature.min_count or (MIN_WORD_ROWS if is_text else 1)
        most = feature.max_words or (MAX_WORDS if is_text else None)
        _, kept = table_columns.counts(len(column), rows, number, names, min_count=min_count, most=most)
        if not kept:
            raise InputError(f"{what} has no item that {min_count} rows share; lower min_count or leave it out.")
        complete = not is_text and len(kept) == len(names)
        return ItemsEncoder(kind="text" if is_text else "list", items=tuple(kept), is_complete=complete)

    @property
    def names(self) -> list[str]:
        return list(self.items)

    def encode(self, column: pa.ChunkedArray, what: str) -> Encoded:  # noqa: ARG002
        rows, number, names = table_columns.items(column, words=self.kind == "text")
        place = {name: i for i, name in enumerate(self.items)}
        known = np.array([place.get(name, -1) for name in names], np.int64)
        code = known[number] if len(names) else np.empty(0, np.int64)
        kept = code >= 0
        values = np.ones(int(kept.sum()), np.float32)
        block = sp.csr_matrix((values, (rows[kept], code[kept])), shape=(len(column), len(self.items)))
        block.sum_duplicates()
        if self.kind == "list":
            block.data[:] = 1  # an item is there or not; words count
        new = np.unique(rows[~kept]) if self.is_complete else np.empty(0, np.int64)
        example = names[int(number[~kept][0])] if new.size else ""
        missing = len(column) - len(np.unique(rows))
        return Encoded(block, missing=missing, unknown=int(new.size), example=example)
