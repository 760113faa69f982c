"""Which kind of feature a column is, and why: the rules are listed in docs/importing.md."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.config import FeatureKind
from fastgtn.data.tables.encoders.date import looks_like_dates
from fastgtn.errors import InputError

TEXT_FROM_WORDS = 3.0  # on average per value; fewer are a category
MANY_CATEGORIES = 100
FEW_CODES = 20  # whole numbers with at most this many values, each in 20 rows on average, are codes
CODE_NAME = re.compile(r"(?:^|_|\b)(?:id|code|zip|postcode|type|key|class)$|(?:Id|Code|Type|Key)$")
MOST_CODES = 1000


def infer_kind(name: str, column: pa.ChunkedArray, what: str) -> tuple[FeatureKind, str]:
    """The kind of a column whose kind is not stated, and the reason in a few words."""
    if column.null_count == len(column):
        raise InputError(f"{what} has no value in any row; leave it out.")
    if table_columns.is_list(column):
        if table_columns.holds_number_lists(column):
            return "vector", "lists of numbers"
        return "list", "lists of texts"
    if table_columns.is_text(column):
        return _kind_of_text(column, what)
    return _kind_of_numbers(name, column)


def _kind_of_numbers(name: str, column: pa.ChunkedArray) -> tuple[FeatureKind, str]:
    if not pa.types.is_integer(column.type):
        return "number", "fractions"
    distinct = pc.count_distinct(column, mode="only_valid").as_py()
    if distinct <= 2:
        return "number", "whole numbers, two values"
    if distinct <= FEW_CODES and distinct * FEW_CODES <= len(column) and not _are_counts(column):
        return "code", f"whole numbers, {distinct} values"
    if CODE_NAME.search(name) and distinct <= min(MOST_CODES, len(column) / 5):
        return "code", f"whole numbers, {distinct} values, named like a code"
    return "number", "whole numbers"


def _are_counts(column: pa.ChunkedArray) -> bool:
    """0, 1, 2 … without a gap, the more the rarer: numbers of something, not codes."""
    values, counts = np.unique(np.asarray(column.drop_null().combine_chunks()), return_counts=True)
    return bool(values[0] in (0, 1) and (np.diff(values) == 1).all() and (np.diff(counts)[1:] <= 0).all())


def _kind_of_text(column: pa.ChunkedArray, what: str) -> tuple[FeatureKind, str]:
    if table_columns.looks_like_numbers(column):
        return "number", "numbers, and words for a missing value"
    if looks_like_dates(column):
        return "date", "texts such as 2024-05-31"
    words = pc.mean(pc.count_substring_regex(column, table_columns.WORD)).as_py() or 0
    if words > TEXT_FROM_WORDS:
        return "text", f"{words:.0f} words on average"
    distinct = pc.count_distinct(column).as_py()
    if distinct > max(MANY_CATEGORIES, len(column) / 2):
        raise InputError(
            f"{what} has {distinct} different values in {len(column)} rows: it looks like a name, not a feature. "
            'Leave it out, or state its kind: features = { column = "category" } or "text".'
        )
    return "category", f"text, {distinct} values"
