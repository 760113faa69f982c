"""Edge tables as relations: one for all rows, or one for each value of a column or each range of a number."""

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import RelationTable, SplitBy, parsed_condition
from fastgtn.errors import InputError
from fastgtn.options import Section

MOST_PARTS = 20
FORBIDDEN = '/\\:*?"<>|'  # in names of relations, which may become file names


class SplitEncoding(Section):
    """Into which relations an edge table is split: by these values, or between these limits."""

    column: str
    values: tuple[str, ...] = ()
    limits: tuple[float, ...] = ()

    @property
    def names(self) -> list[str]:
        if self.values:
            return ["".join("_" if c in FORBIDDEN or not c.isprintable() else c for c in v) for v in self.values]
        count = len(self.limits) + 1
        return [f"{self.column} {k + 1} of {count}" for k in range(count)]


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """The rows of an edge table as numbers of nodes, with weights and times if it has them."""

    source: Array
    target: Array
    weight: Array | None = None
    time: Array | None = None

    def take(self, rows: Array) -> "EdgeRows":
        weight, time = (None if part is None else part[rows] for part in (self.weight, self.time))
        return EdgeRows(self.source[rows], self.target[rows], weight, time)

    def merged(self, width: int, *, keep_times: bool) -> "EdgeRows":
        """Sort the edges; rows that repeat a pair become one edge of the earliest time, and their weights are added.

        Args:
            keep_times: Do not add the weights of rows of different times, so that later ones can be left out.
        """
        key = self.source * width + self.target
        if self.weight is None and self.time is None:
            key = np.unique(key)
            return EdgeRows(key // width, key % width)
        time = np.zeros(len(key)) if self.time is None else np.where(np.isnan(self.time), -np.inf, self.time)
        weight = np.zeros(len(key)) if self.weight is None else self.weight
        order = np.lexsort((weight, time, key))  # by weight too: a sum must not depend on the order of the rows
        key, time = key[order], time[order]
        starts = np.diff(key, prepend=-1) != 0
        if keep_times and self.weight is not None:
            starts |= np.append(True, time[1:] != time[:-1])[: len(time)]
        first = np.flatnonzero(starts)
        summed = None if self.weight is None else np.add.reduceat(self.weight[order], first) if len(first) else weight
        found = None if self.time is None else np.where(np.isinf(time[first]), np.nan, time[first])
        return EdgeRows(key[first] // width, key[first] % width, summed, found)

    def store(self, graph: HeteroData, edge_type: tuple[str, str, str], *, flipped: bool = False) -> None:
        """Set the edges of a relation of a graph, or of its reverse."""
        ends = [self.target, self.source] if flipped else [self.source, self.target]
        graph[edge_type].edge_index = torch.from_numpy(np.stack(ends))
        if self.weight is not None:
            with np.errstate(over="ignore"):  # infinite weights are refused when the graph is stored or used
                graph[edge_type].edge_weight = torch.from_numpy(self.weight.astype(np.float32))
        if self.time is not None:
            graph[edge_type].time = torch.from_numpy(self.time)


def weights_of(table: pa.Table, relation: RelationTable, where: str) -> Array | None:
    """The weight of each row; weights that are not positive are refused."""
    if relation.weight is None:
        return None
    what = f'[{where}]: weight column "{relation.weight}"'
    weight = table_columns.numbers(table[relation.weight], what)
    if (weight <= 0).any():
        raise InputError(f"{what} has {int((weight <= 0).sum())} weights that are not positive; leave out these rows.")
    return weight


def rows_where(table: pa.Table, condition: str, where: str) -> pa.Table:
    """The rows for which a condition such as "rating >= 4" holds."""
    column, comparison, value = parsed_condition(condition)
    kept = table_columns.holds(table[column], comparison, value, f'[{where}]: column "{column}"')
    if not kept.any():
        raise InputError(f"[{where}]: no row has {condition}, so the relation would have no edges.")
    return table.filter(pa.array(kept))


def fit_split(table: pa.Table, relation: RelationTable, where: str) -> SplitEncoding | None:
    """The values of a category, or limits that cut the numbers into ranges of equally many rows."""
    if relation.split is None:
        return None
    split = relation.split if isinstance(relation.split, SplitBy) else SplitBy(column=relation.split)
    what = f'[{where}]: split column "{split.column}"'
    if split.bins is not None:
        values = table_columns.numbers(table[split.column], what)
        limits = np.unique(np.quantile(values, np.arange(1, split.bins) / split.bins))
        return SplitEncoding(column=split.column, limits=tuple(limits.tolist()))
    _, names = table_columns.codes(table[split.column])
    if len(names) > MOST_PARTS:
        raise InputError(
            f"{what} has {len(names)} values, and each would become a relation: at most {MOST_PARTS} are sensible. "
            "Group them with sql, or split a number into bins: split = { column = …, bins = 3 }."
        )
    return SplitEncoding(column=split.column, values=tuple(names))


def parts_of(table: pa.Table, split: SplitEncoding, where: str) -> Array:
    """The number of the relation that each row belongs to; −1 for a value that is missing or was not there."""
    what = f'[{where}]: split column "{split.column}"'
    if split.limits:
        values = table_columns.numbers(table[split.column], what)
        return np.searchsorted(np.array(split.limits), values, side="right")
    place = {value: k for k, value in enumerate(split.values)}
    texts = table_columns.value_texts(table[split.column].combine_chunks()).to_pylist()
    parts = np.array([place.get(text, -1) for text in texts], np.int64)
    left_out = int((parts < 0).sum())
    if left_out:
        warnings.warn(
            f"{what}: {left_out:,} of {len(parts):,} rows have no value, or one that training did not have; "
            "they are in no relation.",
            stacklevel=2,
        )
    return parts
