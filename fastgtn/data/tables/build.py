"""Your own tables as a graph: one graph.toml names the files, the ids, the features and the labels.

Nodes are numbered in the order of their ids and edges in the order of their ends, so the same rows give the
same graph whatever file or database they come from and in whatever order.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import AsOf, GraphConfig, LinkTable, NodeTable, RelationTable, Task, read_config
from fastgtn.data.tables.encoders import Encoded, fitting
from fastgtn.data.tables.encoding import Encoding, TypeEncoding
from fastgtn.data.tables.ids import NodeIds, node_ids
from fastgtn.data.tables.problems import Problems
from fastgtn.data.tables.relations import EdgeRows, SplitEncoding, fit_split, parts_of, rows_where, weights_of
from fastgtn.data.tables.source import Tables
from fastgtn.data.tables.summaries import Summaries
from fastgtn.data.tables.task import node_task
from fastgtn.data.tables.times import Clock, Horizon, moments, require_moments
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError, nearest


def build(
    path: Path,
    *,
    like: Encoding | None = None,
    progress: Callable[[str], None] | None = None,
    allow_external: bool = False,
) -> tuple[HeteroData, NodeTask | None]:
    """Build the graph and the task that a graph.toml describes.

    What was fitted on the tables is `graph.encoding`. Everything that is filled, unknown or left out is a warning.

    Args:
        like: What was fitted on other tables: nothing is fitted then, so that numbers mean the same. The label
            column may be absent.
        progress: Called with the name of each table before it is read; see :func:`num_steps`.
        allow_external: Also read tables and databases outside the folder of graph.toml.
    """
    config = read_config(path)
    if like is not None:
        _require_types(config, like, path)
    with Tables(path.parent, allow_external=allow_external) as tables:
        return _Builder(config, tables, like, progress or (lambda _: None)).build()


def num_steps(path: Path) -> int:
    """How many tables `build` will read."""
    config = read_config(path)
    return len(config.nodes) + len(config.relations)


def _require_types(config: GraphConfig, like: Encoding, path: Path) -> None:
    for name in config.nodes:
        if name not in like.nodes:
            raise InputError(f'{path}: the given encoding has no node type "{name}"; {nearest(name, like.nodes)}')


class _Builder:
    """Builds one graph; mistakes of all tables are collected before they are raised."""

    def __init__(self, config: GraphConfig, tables: Tables, like: Encoding | None, tell: Callable[[str], None]) -> None:
        self.config, self.tables, self.like, self.tell = config, tables, like, tell
        self.graph = HeteroData()
        self.problems = Problems()
        self.ids: dict[str, NodeIds] = {}
        self.encodings: dict[str, TypeEncoding] = {}
        self.encoded: dict[str, list[Encoded]] = {}
        self.splits: dict[str, SplitEncoding] = {}
        self.clock = Clock()
        self.summaries = Summaries(config, like, self.clock)

    def build(self) -> tuple[HeteroData, NodeTask | None]:
        config, graph = self.config, self.graph
        graph.name, graph.shared_features = config.graph.name, config.graph.shared_features
        task = None
        for name in config.nodes:
            self.tell(name)
            with self.problems.collected():
                table = self._add_nodes(name)
                if config.task and config.task.target == name:
                    task = self._add_task(table, config.task)
        for name, relation in config.relations.items():
            self.tell(name)
            if {relation.source.type, relation.target.type} <= self.ids.keys():
                with self.problems.collected():
                    self._add_relation(name)
        self.problems.raise_any()
        for name in config.nodes:
            self._join_features(name)
        encoding = Encoding(nodes=self.encodings, edges=self.summaries.edges, splits=self.splits)
        if task is not None:
            encoding = encoding.model_copy(update={"task_kind": task.kind, "class_names": task.class_names})
        graph.encoding = (self.like or encoding).to_json()
        graph.meta = {
            "name": graph.name,
            "features": {name: each.names for name, each in self.encodings.items() if each.names},
        }
        if config.link_task is not None:
            graph.meta["link_task"] = self._link_task(config.link_task)
        return graph, task

    def _add_task(self, table: pa.Table, task: Task) -> NodeTask | None:
        """The moments of the targets, and their labels if the table has them."""
        store, own = self.graph[task.target], moments(table, task, self.clock)
        found = None
        if set(task.columns) <= set(table.column_names):
            times = own if own is not None else store.time.numpy() if "time" in store else None
            found = node_task(table, task, like=self.like, times=times)
        if own is not None:
            store.as_of = torch.from_numpy(own)
            labelled = np.zeros(len(own), bool)
            if found is not None:
                labelled[torch.cat([found.train.nodes, found.val.nodes, found.test_nodes]).numpy()] = True
                require_moments(own, labelled)
            self.summaries.horizon = Horizon(task.target, own, labelled)
        return found

    def _link_task(self, task: LinkTable) -> dict[str, str]:
        """What a link task needs to know of the tables, for the archive."""
        ends = self.config.relations[task.link]
        names = (ends.source.type, task.link, ends.target.type)
        return {"relation": "-".join(names), "split": task.split_by, "negatives": task.negatives}

    def _add_nodes(self, name: str) -> pa.Table:
        nodes, where = self.config.nodes[name], f"nodes.{name}"
        table, ids = self._read_nodes(name)
        store = self.graph[name]
        store.num_nodes, store.node_id = len(ids), ids.to_numpy()
        time = self.clock.read(table, nodes.time_column, where)
        if time is not None:
            store.time = torch.from_numpy(time)
        if nodes.name:
            texts = table[nodes.name].cast(pa.large_string()).fill_null("")
            store.node_name = np.array(texts.to_pylist(), dtype=str)
        if self.like is not None:
            self.encodings[name] = known = self.like.nodes[name]
            self.encoded[name] = fitting.apply_columns(table, known.own, self.problems, where=where)
            self.summaries.keep(name, table, known.own)
            self.ids[name] = ids
            return table
        columns, self.encoded[name] = fitting.fit_columns(table, nodes.feature_columns, self.problems, where=where)
        id_type: Literal["integer", "text"] = "integer" if ids.is_integer else "text"
        self.encodings[name] = TypeEncoding(id_type=id_type, is_sparse=False, columns=columns)
        self.summaries.keep(name, table, columns)
        self.ids[name] = ids  # last: relations are read where both ends are whole
        return table

    def _join_features(self, name: str) -> None:
        """Put the columns of the node table and the summaries of its edges side by side."""
        where, known, found = f"nodes.{name}", self.encodings[name], self.summaries.found[name]
        encoded, layout = self.encoded[name], None if self.like is None else known.is_sparse
        if self.like is not None:
            encoded = encoded + fitting.apply_summaries(known.of_edges, found, len(self.ids[name]), where=where)
            if self.config.task is None or name != self.config.task.target:
                fitting.note_missing_rows(known.of_edges, found, where=where)
        else:
            fitted = fitting.fit_summaries(found, where=where)
            encoded = encoded + [block for _, block in fitted]
            known = known.model_copy(update={"columns": (*known.columns, *(column for column, _ in fitted))})
        if encoded:
            self.graph[name].x = fitting.joined(encoded, what=f"[{where}]: features", is_sparse=layout)
        if self.summaries.horizon is not None and name == self.summaries.horizon.target and found:
            store = self.graph[name]
            store.time = torch.from_numpy(self.summaries.horizon.born(store.time.numpy() if "time" in store else None))
        is_sparse = bool(encoded) and self.graph[name].x.layout != torch.strided
        self.encodings[name] = known.model_copy(update={"is_sparse": is_sparse})

    def _add_relation(self, name: str) -> None:
        """Add the edges of a relation, its reverse, and their summaries as features of the nodes at both ends."""
        relation, where, known = self.config.relations[name], f"relations.{name}", self.like
        table, source, target = self._read_relation(relation, where)
        times = self.clock.read(table, relation.time_column, where)
        edges = EdgeRows(source, target, weights_of(table, relation, where), times)
        self.summaries.add(name, table, edges, self._node_times)
        split = known.splits.get(name) if known else fit_split(table, relation, where)
        if split is None:
            self._set_relation(name, relation, edges)
            return
        self.splits[name] = split
        parts = parts_of(table, split, where)
        for k, part in enumerate(split.names):
            self._set_relation(f"{name} {part}", relation, edges.take(np.flatnonzero(parts == k)))

    @property
    def _node_times(self) -> dict[str, Array]:
        """The times of nodes, for the types that have a time column."""
        return {name: self.graph[name].time.numpy() for name in self.ids if "time" in self.graph[name]}

    def _read_relation(self, relation: RelationTable, where: str) -> tuple[pa.Table, Array, Array]:
        """The table, and the node numbers of its two ends."""
        ends = (relation.source, relation.target)
        columns = [end.column for end in ends]
        table = self.tables.read(relation, columns + relation.columns, where=where, text=tuple(columns))
        if relation.where is not None:
            table = rows_where(table, relation.where, where)
        source, target = (
            self.ids[end.type].numbers_of(
                table[end.column],
                from_csv=self.tables.is_csv(relation),
                forced=self.config.nodes[end.type].id_type != "auto",
                what=f'[{where}]: column "{end.column}"',
            )
            for end in ends
        )
        return table, source, target

    def _set_relation(self, name: str, relation: RelationTable, edges: EdgeRows) -> None:
        ends = (relation.source.type, relation.target.type)
        edges = edges.merged(len(self.ids[ends[1]]), keep_times=self.summaries.horizon is not None)
        edges.store(self.graph, (ends[0], name, ends[1]))
        if self.config.graph.reverse if relation.reverse is None else relation.reverse:
            edges.store(self.graph, (ends[1], f"rev_{name}", ends[0]), flipped=True)

    def _read_nodes(self, name: str) -> tuple[pa.Table, NodeIds]:
        """The node table, sorted by id."""
        nodes, where, task = self.config.nodes[name], f"nodes.{name}", self.config.task
        known = None if self.like is None else self.like.nodes[name]
        features = list(nodes.feature_columns) if known is None else [column.column for column in known.in_table]
        columns = [nodes.id, *features, *([nodes.name] if nodes.name else [])]
        columns += [nodes.time_column.column] if nodes.time_column else []
        if task and task.target == name:
            columns += self._task_columns(task, nodes)
        as_written = [nodes.id] if nodes.id not in columns[1:] else []
        if known is not None:  # a CSV file has no types: text must not become a number because all rows look like one
            as_written += [column.column for column in known.in_table if column.stored_as == "text"]
        table = self.tables.read(nodes, columns, where=where, text=tuple(as_written))
        ids, order = node_ids(
            name,
            table[nodes.id],
            id_type=nodes.id_type if known is None else known.id_type,
            from_csv=self.tables.is_csv(nodes),
            what=f'[{where}]: id column "{nodes.id}"',
        )
        return table.take(pa.array(order)), ids

    def _task_columns(self, task: Task, nodes: NodeTable) -> list[str]:
        """Label, split and moment; new rows, which follow an encoding, may have none of them."""
        moment = [task.as_of.column] if isinstance(task.as_of, AsOf) else []
        if self.like is None:
            return task.columns + moment
        present = self.tables.columns_of(nodes, where=f"nodes.{task.target}")
        columns = task.columns if set(task.columns) <= set(present) else []
        return columns + [name for name in moment if name in present]
