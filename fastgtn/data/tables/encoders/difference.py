"""Days between two dates of one row: how long a case was open, how late a parcel came."""

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
import pyarrow as pa

from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.encoders.date import DAY, seconds_of
from fastgtn.options import Section

MOST_DATES = 4  # of a table, of which every pair is compared


class Difference(Section):
    """Two date columns; the days from the earlier to the later one are a number."""

    later: str
    earlier: str
    later_format: str | None = None
    earlier_format: str | None = None

    @property
    def name(self) -> str:
        return f"{self.later} - {self.earlier} (days)"

    def days(self, table: pa.Table, where: str) -> pa.ChunkedArray:
        """The difference in every row; missing where one of the dates is."""
        later, earlier = (
            seconds_of(table[column], date_format, f'[{where}]: feature column "{column}"')
            for column, date_format in ((self.later, self.later_format), (self.earlier, self.earlier_format))
        )
        return pa.chunked_array([pa.array((later - earlier) / DAY, from_pandas=True)])


def find_differences(table: pa.Table, dates: Mapping[str, str | None], where: str) -> tuple[Difference, ...]:
    """Every pair of the first date columns that differ, in the direction that is usually positive.

    Args:
        dates: The date columns, each with its format.
    """
    found = []
    for one, two in combinations(list(dates)[:MOST_DATES], 2):
        pair = Difference(later=two, earlier=one, later_format=dates[two], earlier_format=dates[one])
        days: Array = np.asarray(pair.days(table, where).combine_chunks().drop_null())
        if len(days) and np.median(days) < 0:
            pair = Difference(later=one, earlier=two, later_format=dates[one], earlier_format=dates[two])
        if len(days) and np.ptp(days) > 0 and pair.name not in table.column_names:
            found.append(pair)
    return tuple(found)


def with_differences(table: pa.Table, differences: Iterable[Difference | None], where: str) -> pa.Table:
    """The table with a further column for each difference; None stands for a column of the table."""
    for each in differences:
        if each is not None and each.name not in table.column_names:
            table = table.append_column(each.name, each.days(table, where))
    return table
