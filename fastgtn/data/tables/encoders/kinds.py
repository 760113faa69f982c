"""Which kind of feature a column is, and why: the rules are listed in docs/importing.md."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import FeatureKind
from fastgtn.data.tables.encoders.date import format_hint, looks_like_dates
from fastgtn.errors import InputError

TEXT_FROM_WORDS = 3.0  # on average per value; fewer are a category
MANY_CATEGORIES = 100
FEW_TEXTS = 50  # different texts of any length, each in 20 rows on average, are a category
FEW_COUNTS = 6  # consecutive numbers with fewer values are codes even if their frequencies rise and fall once
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
        return _kind_of_text(name, column, what)
    return _kind_of_numbers(name, column)


def _kind_of_numbers(name: str, column: pa.ChunkedArray) -> tuple[FeatureKind, str]:
    if not pa.types.is_integer(column.type):
        return "number", "fractions"
    distinct = pc.count_distinct(column, mode="only_valid").as_py()
    if distinct <= 2:
        return "number", "whole numbers, two values"
    if distinct <= FEW_CODES and distinct * FEW_CODES <= len(column) and not are_counts(column):
        return "code", f"whole numbers, {distinct} values"
    if CODE_NAME.search(name) and distinct <= min(MOST_CODES, len(column) / 5):
        return "code", f"whole numbers, {distinct} values, named like a code"
    return "number", "whole numbers"


def are_counts(column: pa.ChunkedArray) -> bool:
    """Whether whole numbers look like counts and not like codes.

    Counts are 0, 1, 2 … without gaps, and their frequencies fall, or rise and fall once.
    """
    values, counts = np.unique(np.asarray(column.drop_null().combine_chunks()), return_counts=True)
    values, counts = _without_tail(values, counts)
    if values[0] not in (0, 1) or (np.diff(values) != 1).any():
        return False
    top, steps = int(np.argmax(counts)), np.diff(counts)
    if counts[top] <= 2 * counts[-1]:
        return False  # codes of about equal frequencies
    if (steps[1:] <= 0).all():
        return True
    error = 2 * np.sqrt(counts[1:] + counts[:-1])  # of a difference of two frequencies
    is_hill = counts[top] > 2 * counts[0]
    rises, falls = (steps[:top] > -error[:top]).all(), (steps[top:] < error[top:]).all()
    return len(values) >= FEW_COUNTS and bool(is_hill and rises and falls)


def _without_tail(values: Array, counts: Array) -> tuple[Array, Array]:
    """The values without the largest one percent of rows, since large counts have gaps between them."""
    last = int(np.searchsorted(np.cumsum(counts), 0.99 * counts.sum())) + 1
    return values[:last], counts[:last]


def _kind_of_text(name: str, column: pa.ChunkedArray, what: str) -> tuple[FeatureKind, str]:
    if table_columns.looks_like_numbers(column):
        return "number", "numbers, and words for a missing value"
    if looks_like_dates(column):
        return "date", "texts such as 2024-05-31"
    _refuse_other_notations(name, column, what)
    words = pc.mean(pc.count_substring_regex(column, table_columns.WORD)).as_py() or 0
    distinct = pc.count_distinct(column, mode="only_valid").as_py()
    if words > TEXT_FROM_WORDS and not (distinct <= FEW_TEXTS and distinct * FEW_CODES <= len(column)):
        return "text", f"{words:.0f} words on average"
    if distinct > max(MANY_CATEGORIES, len(column) / 2):
        raise InputError(
            f"{what} has {distinct} different values in {len(column)} rows: it looks like a name, not a feature. "
            'Leave it out, or state its kind: features = { column = "category" } or "text".'
        )
    return "category", f"text, {distinct} values" if distinct > 1 else "text, the same value in every row"


def _refuse_other_notations(name: str, column: pa.ChunkedArray, what: str) -> None:
    """Numbers and dates in a notation that must be stated: as categories, their order would be lost."""
    first = next((value for value in column.drop_null().slice(0, 1).to_pylist()), "")
    if table_columns.have_decimal_commas(column):
        raise InputError(f'{what} holds numbers with a decimal comma, such as "{first}". {table_columns.COMMA_HINT}')
    if date_format := format_hint(column):
        raise InputError(
            f'{what} holds dates such as "{first}": state their format, as in features = '
            f'{{ "{name}" = {{ kind = "date", format = "{date_format}" }} }}, or the kind "category".'
        )
