"""Columns of an edge table as features of the nodes at both ends: counts, totals, extremes and last values."""

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import RelationTable, TimeColumn
from fastgtn.data.tables.encoders.date import DAY, looks_like_dates, seconds_of
from fastgtn.data.tables.encoders.difference import Difference, find_differences, with_differences
from fastgtn.data.tables.encoders.kinds import infer_kind
from fastgtn.errors import InputError
from fastgtn.options import Section

MOST_VALUES = 50  # of a category that is counted value by value
EdgeKind = Literal["number", "category", "date"]


class EdgeColumn(Section):
    """One feature column of a relation: its kind, and the values of a category or the latest of all dates."""

    column: str
    kind: EdgeKind
    format: str | None = None
    values: tuple[str, ...] = ()
    latest: float = 0.0
    difference: Difference | None = None  # for the days between two columns of dates


class EdgeEncoding(Section):
    """What was fitted on one edge table.

    Args:
        many: Set where the columns are those of the nodes at this end, each of which belongs to one node of the other.
    """

    columns: tuple[EdgeColumn, ...]
    many: Literal["source", "target"] | None = None
    time: str | None = None
    time_format: str | None = None

    @property
    def in_table(self) -> tuple[EdgeColumn, ...]:
        """The feature columns that the edge table must have."""
        return tuple(column for column in self.columns if column.difference is None)

    @property
    def time_column(self) -> TimeColumn | None:
        return None if self.time is None else TimeColumn(column=self.time, format=self.time_format)


def fit_edges(table: pa.Table, relation: RelationTable, where: str) -> EdgeEncoding:
    """Find the kind of each feature column, the values of categories and the latest date."""
    columns = []
    for name, feature in relation.feature_columns.items():
        what = f'[{where}]: feature column "{name}"'
        kind = feature.kind or infer_kind(name, table[name], what)[0]
        kind = "category" if kind == "code" else kind
        if kind == "number" or kind == "date" or kind == "category":
            columns.append(fit_column(table[name], name, kind, feature.format, what))
        else:
            raise InputError(
                f'{what} is of kind "{kind}", but only numbers, categories and dates of edges can be summarised.'
            )
    columns += fit_time(table, relation.time_column, columns, where)
    dates = {column.column: column.format for column in columns if column.kind == "date"}
    columns += [EdgeColumn(column=d.name, kind="number", difference=d) for d in find_differences(table, dates, where)]
    time = relation.time_column
    if time is None:
        return EdgeEncoding(columns=tuple(columns))
    return EdgeEncoding(columns=tuple(columns), time=time.column, time_format=time.format)


def fit_time(
    table: pa.Table, time: TimeColumn | None, columns: Sequence[EdgeColumn], where: str
) -> tuple[EdgeColumn, ...]:
    """The time column of the rows, if it holds dates and is not among the columns yet."""
    if time is None or time.column in {column.column for column in columns}:
        return ()
    values, what = table[time.column], f'[{where}]: time column "{time.column}"'
    is_date = time.format is not None or looks_like_dates(values)
    return (fit_column(values, time.column, "date", time.format, what),) if is_date else ()


def fit_column(column: pa.ChunkedArray, name: str, kind: EdgeKind, date_format: str | None, what: str) -> EdgeColumn:
    """The latest of dates, and the values of a category, of which the commonest ones are kept."""
    if kind == "date":
        seconds = seconds_of(column, date_format, what)
        return EdgeColumn(column=name, kind=kind, format=date_format, latest=float(np.nanmax(seconds)))
    if kind == "number":
        return EdgeColumn(column=name, kind=kind)
    code, names = table_columns.codes(column)
    if len(names) > MOST_VALUES:
        commonest = np.sort(np.argsort(-np.bincount(code[code >= 0]), kind="stable")[:MOST_VALUES])
        warnings.warn(f"{what} has {len(names)} values; the {MOST_VALUES} commonest ones are counted.", stacklevel=2)
        names = [names[c] for c in commonest]
    return EdgeColumn(column=name, kind=kind, values=tuple(names))


def summaries(
    table: pa.Table,
    encoding: EdgeEncoding,
    nodes: Array,
    num_nodes: int,
    *,
    times: Array | None,
    where: str,
    now: Array | None = None,
) -> dict[str, Array]:
    """For every node of one end: the count of its rows, and of each column sum, mean, smallest, largest and last.

    Nodes without a row have NaN where there is nothing to say.

    Args:
        times: When rows came to be, which says which is the last; without them the only column of dates says it.
        now: From when on days are counted backwards, for each node; by default from the latest date.
    """
    lacking = [column.column for column in encoding.in_table if column.column not in table.column_names]
    if lacking:
        raise InputError(
            f'[{where}]: the encoding reads the column "{lacking[0]}", which graph.toml does not name here.'
        )
    table = with_differences(table, (column.difference for column in encoding.columns), where)
    times = _order(table, encoding, where) if times is None else times
    found: dict[str, Array] = {"count": np.bincount(nodes, minlength=num_nodes).astype(np.float64)}
    for column in encoding.columns:
        values, what = table[column.column], f'[{where}]: feature column "{column.column}"'
        if column.kind == "category":
            texts = np.array(table_columns.value_texts(values.combine_chunks()).to_pylist(), dtype=object)
            for value in column.values:
                counts = np.bincount(nodes[texts == value], minlength=num_nodes)
                found[f"{column.column}={value}"] = counts.astype(np.float64)
            continue
        if column.kind == "date":
            seconds = seconds_of(values, column.format, what)
            end = column.latest if now is None else np.where(np.isfinite(now), now, column.latest)[nodes]
            ages = grouped((end - seconds) / DAY, nodes, num_nodes, None)
            found |= {f"{column.column}.days_since_last": ages["min"], f"{column.column}.days_since_first": ages["max"]}
            continue
        numbers = grouped(table_columns.numbers_or_nan(values, what), nodes, num_nodes, times)
        found |= {f"{column.column}.{name}": each for name, each in numbers.items()}
    return found


def _order(table: pa.Table, encoding: EdgeEncoding, where: str) -> Array | None:
    """The dates of the rows, where there is a single column of dates; a row without a date is the first."""
    dates = [column for column in encoding.columns if column.kind == "date"]
    if len(dates) != 1:
        return None
    name = dates[0].column
    seconds = seconds_of(table[name], dates[0].format, f'[{where}]: feature column "{name}"')
    return np.where(np.isnan(seconds), -np.inf, seconds)


def is_total(name: str) -> bool:
    """Whether a summary is a count or a sum, which is 0 for a node without rows."""
    return name == "count" or name.endswith(".sum") or "=" in name


def grouped(values: Array, nodes: Array, num_nodes: int, times: Array | None) -> dict[str, Array]:
    """Sum, mean, smallest and largest value of each node; with times also the last one."""
    seen = np.flatnonzero(~np.isnan(values))
    order = seen[np.lexsort((values[seen], nodes[seen]))]  # by value too: sums must not depend on the order of rows
    where, first = np.unique(nodes[order], return_index=True)
    found = {name: np.full(num_nodes, np.nan) for name in ("sum", "mean", "min", "max")}
    found["sum"][:] = 0.0
    if len(order):
        sums, counts = np.add.reduceat(values[order], first), np.diff([*first, len(order)])
        last = np.append(first[1:], len(order)) - 1
        found["sum"][where], found["mean"][where] = sums, sums / counts
        found["min"][where], found["max"][where] = values[order][first], values[order][last]
    if times is not None:
        latest = np.full(num_nodes, np.nan)
        by_time = seen[np.lexsort((values[seen], times[seen], nodes[seen]))]
        latest[nodes[by_time]] = values[by_time]  # the last one written stays
        found["last"] = latest
    return found
