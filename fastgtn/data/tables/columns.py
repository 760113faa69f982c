"""Columns of tables as numbers: distinct values, words and list items, counted without a loop over rows."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
SEPARATOR = "|"  # between the items of a list that is written as text
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # 007 and 1.0 are names, not numbers
NOT_A_WORD = r"[^\p{L}\p{N}]+"
WORD = r"[\p{L}\p{N}]+"
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[+-]?\d+(\.\d{3})*,\d+$"
COMMA_HINT = "Write decimal commas as points, for example with sql: SELECT replace(price, ',', '.') AS price, …"
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "nil", "?", "-", "--", "#n/a", "<na>")


def is_text(column: pa.ChunkedArray) -> bool:
    """True for a column of text."""
    return bool(pa.types.is_large_string(column.type))


def is_list(column: pa.ChunkedArray) -> bool:
    """True for a column of lists."""
    return bool(pa.types.is_large_list(column.type))


def holds_number_lists(column: pa.ChunkedArray) -> bool:
    """True for lists of numbers, such as embeddings."""
    return is_list(column) and not pa.types.is_large_string(column.type.value_type)


def numbers(column: pa.ChunkedArray, what: str) -> Array:
    """A column of numbers as float64; text, missing and infinite values are refused."""
    values = numbers_or_nan(column, what)
    bad = np.flatnonzero(np.isnan(values))
    if bad.size:
        raise InputError(
            f"{what} has {bad.size} empty or NaN values; fill them, or leave the rows out by sql "
            f"(coalesce(column, 0), WHERE column IS NOT NULL)."
        )
    return values


def numbers_or_nan(column: pa.ChunkedArray, what: str) -> Array:
    """A column of numbers as float64, NaN where a value is missing; other text and infinite values are refused."""
    if is_list(column):
        raise InputError(f"{what} holds lists, not numbers.")
    if is_text(column):
        column = without_missing_words(column)
        wrong = column.filter(pc.invert(pc.match_substring_regex(column, NUMBER)).fill_null(False))
        if len(wrong):
            first = wrong[0].as_py()
            hint = f" {COMMA_HINT}" if re.search(DECIMAL_COMMA, first) else ""
            raise InputError(f"{what} holds text, not numbers, such as {first!r}.{hint}")
    values: Array = np.asarray(column.cast(pa.float64()).combine_chunks().fill_null(np.nan))
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise InputError(f"{what} has {infinite} infinite values; replace them with sql, or leave out the rows.")
    return values


def without_missing_words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column whose words for a missing value, such as NA and ?, are empty cells."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    is_missing = pc.is_in(words, value_set=pa.array(MISSING_WORDS, pa.large_string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.large_string()), column)


def looks_like_numbers(column: pa.ChunkedArray) -> bool:
    """Whether a column is text only because of words for a missing value: all else are numbers."""
    seen = without_missing_words(column).drop_null()
    if not len(seen) or len(seen) == len(column) - column.null_count:
        return False
    return bool(pc.all(pc.match_substring_regex(seen, NUMBER)).as_py())


def have_decimal_commas(column: pa.ChunkedArray) -> bool:
    """Whether all texts are numbers with a decimal comma, such as 12,50."""
    seen = without_missing_words(column).drop_null()
    return bool(len(seen)) and bool(pc.all(pc.match_substring_regex(seen, DECIMAL_COMMA)).as_py())


def codes(column: pa.ChunkedArray) -> tuple[Array, list[str]]:
    """Number the distinct values in sorted order; a missing value is −1.

    Numbers sort as numbers, text by its letters; 2.0 is the same value as 2.
    """
    encoded = column.combine_chunks().dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    found = np.asarray(encoded.indices.fill_null(len(order))).astype(np.int64)
    return rank[found], value_texts(encoded.dictionary.take(pa.array(order))).to_pylist()


def value_texts(values: pa.Array) -> pa.Array:
    """Each value as a text that does not depend on the other values: 2 and 2.0 are "2"."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        whole = pc.and_(pc.equal(values, pc.trunc(values)), pc.less(pc.abs(values), 2.0**53))
        as_whole = pc.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.large_string())
        return pc.if_else(whole, as_whole, values.cast(pa.large_string()))
    return values.cast(pa.large_string())


def items(column: pa.ChunkedArray, *, words: bool = False) -> tuple[Array, Array, list[str]]:
    """Row and code of every list item (or word of a text), with the sorted distinct items."""
    array = column.combine_chunks()
    if not is_list(column):
        text = array.cast(pa.large_string())
        text = pc.utf8_lower(text) if words else text
        array = pc.split_pattern_regex(text, NOT_A_WORD) if words else pc.split_pattern(text, SEPARATOR)
    rows, values = pc.list_parent_indices(array), pc.list_flatten(array)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = pc.utf8_trim_whitespace(values)
        kept = pc.and_kleene(values.is_valid(), pc.not_equal(values, ""))
    else:
        kept = values.is_valid()
    kept = kept.fill_null(False)
    number, names = codes(pa.chunked_array([values.filter(kept)]))
    return np.asarray(rows.filter(kept)).astype(np.int64), number, names


def counts(
    num_rows: int, rows: Array, number: Array, names: list[str], *, min_count: int, most: int | None
) -> tuple[sp.csr_matrix, list[str]]:
    """How often each row has each item; rare items and all but the commonest are left out."""
    table = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, number)), shape=(num_rows, len(names)))
    in_rows = np.bincount(table.indices, minlength=len(names))  # rows that have the item, not occurrences
    kept = np.flatnonzero(in_rows >= min_count)
    if most is not None and len(kept) > most:
        commonest = np.lexsort((kept, -in_rows[kept]))[:most]  # ties go to the first in sorted order
        kept = np.sort(kept[commonest])
    return table[:, kept], [names[i] for i in kept]


def holds(column: pa.ChunkedArray, comparison: str, value: str, what: str) -> Array:
    """For which rows a comparison with a value is true; an empty cell makes it false."""
    name = {"==": "equal", "!=": "not_equal", ">=": "greater_equal", "<=": "less_equal", ">": "greater", "<": "less"}
    compare = getattr(pc, name[comparison])
    try:
        if is_text(column) and not looks_like_numbers(column):
            found = compare(column.cast(pa.large_string()), value)
        else:
            found = compare(column.cast(pa.float64()), float(value))
    except (ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"{what} holds {column.type}, which cannot be compared with {value}.") from None
    return np.asarray(found.combine_chunks().fill_null(False))


def vectors(column: pa.ChunkedArray, what: str) -> Array:
    """A column of number lists, all of one length, as a matrix."""
    array = column.combine_chunks()
    try:
        if not is_list(column):
            array = pc.split_pattern(array.cast(pa.large_string()), SEPARATOR)
        values = numbers(pa.chunked_array([pc.list_flatten(array).cast(pa.float64())]), what)
    except pa.ArrowInvalid:
        raise InputError(f"{what} must be lists of numbers, or text such as 0.5|1.5|2.") from None
    lengths = np.unique(np.asarray(pc.list_value_length(array).fill_null(0)))
    if len(lengths) != 1 or lengths[0] == 0:
        raise InputError(
            f"{what} must have a list of the same length in every row, but the lengths range from {lengths[0]} to "
            f"{lengths[-1]}."
        )
    return values.reshape(len(array), -1)
