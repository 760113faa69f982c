"""Times of tables: when nodes and edges appeared, and the moments after which nodes may see nothing."""

import datetime as dt
import warnings
from typing import Literal

import numpy as np
import pyarrow as pa

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import AsOf, Task, TimeColumn
from fastgtn.data.tables.encoders.date import looks_like_dates, seconds_of
from fastgtn.errors import InputError

Unit = Literal["dates", "numbers"]


class Clock:
    """Reads times of one unit: seconds since 1970 where they are dates, else numbers that grow with time."""

    def __init__(self) -> None:
        self.unit: Unit | None = None
        self.first = ""  # what the unit was learned from

    def read(self, table: pa.Table, column: TimeColumn | None, where: str, *, word: str = "time") -> Array | None:
        """The times of the rows, NaN where there is none; None without a column."""
        if column is None:
            return None
        values, what = table[column.column], f'[{where}]: {word} column "{column.column}"'
        if column.format is not None or looks_like_dates(values):
            self._agree("dates", what)
            return seconds_of(values, column.format, what)
        if values.null_count == len(values):
            return np.full(len(values), np.nan)
        numbers = table_columns.numbers_or_nan(values, what).copy()  # a tensor must be able to write to it
        self._agree("numbers", what)
        return numbers

    def moment(self, value: dt.date | float) -> float:
        """One moment for all, as it stands in graph.toml."""
        what = f"[task]: as_of = {value}"
        if not isinstance(value, dt.date):
            self._agree("numbers", what)
            return float(value)
        self._agree("dates", what)
        moment = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
        return moment.replace(tzinfo=dt.UTC).timestamp()

    def _agree(self, unit: Unit, what: str) -> None:
        if self.unit not in (None, unit):
            raise InputError(
                f"{what} holds {unit}, but {self.first} holds {self.unit}: all times of a graph need one unit. "
                'Numbers can be read as dates: { column = "…", format = "unix" } or a format such as "%Y%m%d".'
            )
        self.unit, self.first = unit, self.first or what


def moments(table: pa.Table, task: Task, clock: Clock) -> Array | None:
    """The moment of each row of the target table; a row without one sees everything."""
    if task.as_of is None:
        return None
    if not isinstance(task.as_of, AsOf):
        return np.full(len(table), clock.moment(task.as_of))
    if task.as_of.column not in table.column_names:  # new rows see everything
        return np.full(len(table), np.nan)
    found = clock.read(table, TimeColumn(column=task.as_of.column, format=task.as_of.format), "task", word="as_of")
    assert found is not None
    if task.as_of.round != "exact" and clock.unit != "dates":
        raise InputError(
            f'[task]: as_of is rounded to the {task.as_of.round}, but "{task.as_of.column}" holds numbers, not dates.'
        )
    return rounded_down(found, task.as_of.round)


def require_moments(own: Array, labelled: Array) -> None:
    """Refuse labelled rows without a moment: they would see the future."""
    missing = int(np.isnan(own[labelled]).sum())
    if missing:
        raise InputError(
            f"[task]: {missing} labelled rows have no as_of, so they would see everything: fill the column, or empty "
            "the label of these rows."
        )


def rounded_down(seconds: Array, to: Literal["exact", "day", "month", "year"]) -> Array:
    """The beginning of the day, month or year: a moment may lie earlier, never later."""
    if to == "exact":
        return seconds
    missing = np.isnan(seconds)
    days = np.floor(np.where(missing, 0, seconds) / 86400).astype(np.int64).astype("datetime64[D]")
    starts = days.astype(f"datetime64[{ {'day': 'D', 'month': 'M', 'year': 'Y'}[to] }]").astype("datetime64[s]")
    return np.where(missing, np.nan, starts.astype(np.float64))


class Horizon:
    """Which rows of an edge table may become features of a node: those before its moment.

    Nodes of other types are seen by targets of all moments, so the earliest moment of a labelled node counts for them.

    Args:
        own: The moment of each target.
        labelled: Which targets have a label.
    """

    def __init__(self, target: str, own: Array, labelled: Array) -> None:
        self.target = target
        self.own = np.where(np.isnan(own), np.inf, own)
        known = self.own[labelled] if labelled.any() else self.own
        self.earliest = float(known.min(initial=np.inf))
        self.latest = -np.inf  # time of any row that became a feature of a target

    def limits(self, node_type: str, count: int) -> Array:
        """The moment before which a row must lie, for each node of a type."""
        return self.own if node_type == self.target else np.full(count, self.earliest)

    def visible(self, node_type: str, count: int, nodes: Array, times: Array | None, where: str) -> Array:
        """The rows that may be summarised; a row without a time always may."""
        if times is None:
            warnings.warn(
                f"{where}: features are summarised without a time column, so rows after as_of count as well: add "
                'time = "COLUMN", or make sure that all rows were known at the moments of the task.',
                stacklevel=2,
            )
            return np.arange(len(nodes))
        rows: Array = np.flatnonzero(~(times >= self.limits(node_type, count)[nodes]))
        if node_type == self.target:
            self.latest = max(self.latest, float(np.nanmax(times[rows], initial=-np.inf)))
        elif len(rows) < len(nodes) and np.ptp(self.own[np.isfinite(self.own)]) > 0:
            warnings.warn(
                f'{where}: features of "{node_type}" are summarised from {len(rows):,} of {len(nodes):,} rows, those '
                f"before the earliest moment of a label, because all labelled nodes of {self.target} may see them.",
                stacklevel=2,
            )
        return rows

    def born(self, time: Array | None) -> Array:
        """The times of targets whose features were summarised at their moments: they send no messages to earlier ones.

        All rows are older than the moment, so a target of the same moment may use them.
        """
        before = np.nextafter(self.own, -np.inf)
        since = np.where(np.isfinite(self.own), before, self.latest if np.isfinite(self.latest) else np.nan)
        return since if time is None else np.fmax(time, since)
