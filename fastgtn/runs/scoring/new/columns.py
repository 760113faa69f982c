"""Values from JSON as columns of a table, in the few types that the readers of tables give."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fastgtn.errors import InputError, nearest

TYPES = {
    "text": (pa.large_string(), "text"),
    "integer": (pa.float64(), "a number"),
    "number": (pa.float64(), "a number"),
}


def table_of(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str | None], names: Sequence[str], *, what: str
) -> pa.Table:
    """One row per mapping. Every column must be there; null stands for a missing value.

    Args:
        columns: How each column was stored in training, or None where the values decide.
        names: What each row is called in messages.
        what: What the rows are, in messages.
    """
    for row, name in zip(rows, names, strict=True):
        unknown = [key for key in row if key not in columns]
        if unknown:
            raise InputError(f'{name}: {what} have no column "{unknown[0]}"; {nearest(unknown[0], columns)}')
        missing = [column for column in columns if column not in row]
        if missing:
            raise InputError(f'{name}: {what} lack the column "{missing[0]}"; null says that its value is missing.')
    arrays = {column: _column([row[column] for row in rows], kind, column) for column, kind in columns.items()}
    return pa.table(arrays) if arrays else pa.table({"": pa.nulls(len(rows))})


def _column(values: list[Any], kind: str | None, name: str) -> pa.ChunkedArray:
    if any(isinstance(value, bool | dict) for value in values):
        raise InputError(f'column "{name}": values are numbers, texts, lists or null, not objects, true or false.')
    try:
        array = pa.array(values, TYPES[kind][0]) if kind in TYPES else pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        expected = TYPES[kind][1] if kind in TYPES else "one type in all rows"
        raise InputError(f'column "{name}": expected {expected}, but got {_shown(values)}.') from None
    return pa.chunked_array([_as_read(array)])


def _as_read(array: pa.Array) -> pa.Array:
    """In the types of :mod:`fastgtn.data.tables.source`."""
    if pa.types.is_list(array.type):
        inner = array.type.value_type
        return array.cast(pa.large_list(pa.large_string() if pa.types.is_string(inner) else inner))
    if pa.types.is_string(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.float64()) if pa.types.is_null(array.type) else array


def _shown(values: list[Any]) -> str:
    shown = ", ".join(repr(value)[:40] for value in values[:3])
    return shown + (", …" if len(values) > 3 else "")
