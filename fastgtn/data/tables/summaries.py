"""Summaries of rows as features of nodes: of the rows of a relation, and of a table with a foreign key."""

import warnings
from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa

from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import End, GraphConfig
from fastgtn.data.tables.edge_features import EdgeColumn, EdgeEncoding, fit_column, fit_edges, fit_time, summaries
from fastgtn.data.tables.encoders.difference import with_differences
from fastgtn.data.tables.encoding import ColumnEncoding, Encoding
from fastgtn.data.tables.relations import EdgeRows
from fastgtn.data.tables.times import Clock, Horizon
from fastgtn.errors import InputError

MOST_COLUMNS = 30  # of a table whose rows are summarised without being asked
MOST_VALUES = 20  # of a category that is counted value by value, likewise
Side = Literal["source", "target"]


class Summaries:
    """Collects the summaries of a graph that is being built.

    Attributes:
        edges: What was fitted, by relation.
        found: The numbers, by node type, relation and column.
    """

    def __init__(self, config: GraphConfig, like: Encoding | None, clock: Clock) -> None:
        self.config, self.like, self.clock = config, like, clock
        self.horizon: Horizon | None = None
        self.edges: dict[str, EdgeEncoding] = {}
        self.found: dict[str, dict[str, dict[str, Array]]] = {name: {} for name in config.nodes}
        self.rows: dict[str, pa.Table] = {}
        self.sizes: dict[str, int] = {}
        self.columns: dict[str, tuple[ColumnEncoding, ...]] = {}

    def keep(self, node_type: str, table: pa.Table, columns: tuple[ColumnEncoding, ...]) -> None:
        """Remember the feature columns of a node table, whose rows may belong to nodes of another type."""
        self.columns[node_type], self.sizes[node_type] = columns, len(table)
        table = with_differences(table, (column.difference for column in columns), f"nodes.{node_type}")
        time = self.config.nodes[node_type].time_column
        names = [*(column.column for column in columns), *([time.column] if time else [])]
        self.rows[node_type] = table.select(list(dict.fromkeys(names)))

    def add(self, name: str, table: pa.Table, edges: EdgeRows, times: Mapping[str, Array]) -> None:
        """Summarise a relation: its own columns to both ends, or the rows of a table to the nodes they belong to.

        Args:
            times: The times of nodes, for the types that have them.
        """
        relation, where = self.config.relations[name], f"relations.{name}"
        known = None if self.like is None else self.like.edges.get(name)
        if relation.feature_columns or (known is not None and known.many is None):
            self.edges[name] = known or fit_edges(table, relation, where)
            for end, nodes in ((relation.source, edges.source), (relation.target, edges.target)):
                is_loop = relation.source.type == relation.target.type
                title = f"{name}_out" if is_loop and end == relation.source else name
                self.found[end.type][title] = self._summarised(name, table, end, nodes, edges.time)
            return
        side = self._many(name, edges, times)
        if side is not None:
            self._add_belonging(name, table, edges, times, side)

    def _add_belonging(
        self, name: str, table: pa.Table, edges: EdgeRows, times: Mapping[str, Array], side: Side
    ) -> None:
        """Summarise the nodes of one end, which are rows of their own table, to the one node that each belongs to."""
        relation = self.config.relations[name]
        ends = {"source": (relation.source, edges.source), "target": (relation.target, edges.target)}
        many, rows = ends.pop(side)
        [(one, nodes)] = ends.values()
        belonging, when = self.rows[many.type].take(pa.array(rows)), relation.time_column
        if when is not None and when.column not in belonging.column_names:
            columns_of = {column: belonging[column] for column in belonging.column_names}
            belonging = pa.table({**columns_of, when.column: table[when.column]})
        if self.like is not None:
            self.edges[name] = self.like.edges[name]
        else:
            columns = self._fitted(many.type, f"relations.{name}")
            columns += fit_time(
                belonging, when or self.config.nodes[many.type].time_column, columns, f"relations.{name}"
            )
            self.edges[name] = EdgeEncoding(columns=columns, many=side)
        moments = edges.time if edges.time is not None else _taken(times.get(many.type), rows)
        self.found[one.type][name] = self._summarised(name, belonging, one, nodes, moments)

    def _summarised(self, name: str, table: pa.Table, end: End, nodes: Array, times: Array | None) -> dict[str, Array]:
        """The summaries of one end, from the rows before the moments of the task."""
        count, now, where = self.sizes[end.type], None, f"relations.{name}"
        if self.horizon is not None:
            rows = self.horizon.visible(end.type, count, nodes, times, f"[{where}]")
            now = self.horizon.limits(end.type, count) if self.clock.unit == "dates" else None
            table, nodes, times = table.take(pa.array(rows)), nodes[rows], _taken(times, rows)
        return summaries(table, self.edges[name], nodes, count, times=times, where=where, now=now)

    def _many(self, name: str, edges: EdgeRows, times: Mapping[str, Array]) -> Side | None:
        """The end whose nodes belong to one node of the other end each, if its columns are to be summarised there."""
        if self.like is not None:
            known = self.like.edges.get(name)
            return None if known is None else known.many
        relation = self.config.relations[name]
        ends: dict[Side, tuple[str, Array, str, Array]] = {
            "source": (relation.source.type, edges.source, relation.target.type, edges.target),
            "target": (relation.target.type, edges.target, relation.source.type, edges.source),
        }
        for side, (many, rows, one, nodes) in ends.items():
            if _is_unique(rows) and not _is_unique(nodes):
                is_timed = edges.time is not None or many in times
                wanted = self._is_usual(name, many, one, is_timed=is_timed)
                return side if (wanted if relation.summarize is None else relation.summarize) else None
        if relation.summarize:
            raise InputError(
                f"[relations.{name}]: summarize needs rows that belong to one node each, but nodes of both ends are in "
                "several rows: list the columns of the relation under features instead."
            )
        return None

    def _is_usual(self, name: str, many: str, one: str, *, is_timed: bool) -> bool:
        """Whether rows are summarised by default.

        They are not if the owner has no features, because it would lose its embeddings; if the rows are the nodes to
        predict, because their scores must not depend on which of them are in a table; or if a task has moments and the
        rows have no time.
        """
        task, link = self.config.task, self.config.link_task
        target = None if task is None else task.target
        has_features = bool(self.columns[one]) or one == target
        is_safe = many not in (one, target) and (link is None or link.link != name)
        return has_features and is_safe and (self.horizon is None or is_timed)

    def _fitted(self, many: str, where: str) -> tuple[EdgeColumn, ...]:
        """Numbers, dates and small categories of a node table; too many columns are only counted."""
        fitted = []
        for column in self.columns[many]:
            encoder = column.encoder
            kind = "category" if encoder.kind == "code" else encoder.kind
            if kind == "category" and len(encoder.names) > MOST_VALUES:
                continue
            if kind == "number" or kind == "category" or kind == "date":
                what = f'[{where}]: column "{column.column}" of "{many}"'
                date_format = encoder.format if encoder.kind == "date" else None
                fitted.append(fit_column(self.rows[many][column.column], column.column, kind, date_format, what))
        if len(fitted) > MOST_COLUMNS:
            warnings.warn(
                f'[{where}]: "{many}" has {len(fitted)} columns, which are too many to be summarised; its rows are '
                "counted. To summarise some, write a relation with features over the same table.",
                stacklevel=2,
            )
            return ()
        return tuple(fitted)


def _is_unique(nodes: Array) -> bool:
    return len(np.unique(nodes)) == len(nodes)


def _taken(values: Array | None, rows: Array) -> Array | None:
    return None if values is None else values[rows]
