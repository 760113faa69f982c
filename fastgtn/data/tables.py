"""Your own tables as a graph: one graph.toml names the files, the ids, the features and the labels.

Nodes are numbered in the order of their ids and edges in the order of their ends, so the same rows give the
same graph whatever file or database they come from and in whatever order.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import table_columns
from fastgtn.data.table_columns import Array
from fastgtn.data.table_config import GraphConfig, NodeTable, RelationTable, read_config
from fastgtn.data.table_features import feature_matrix
from fastgtn.data.table_ids import NodeIds, node_ids
from fastgtn.data.table_source import Tables
from fastgtn.data.table_task import node_task
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError


def build(path: Path, *, progress: Callable[[str], None] | None = None) -> tuple[HeteroData, NodeTask | None]:
    """Build the graph and the task that a graph.toml describes.

    Args:
        progress: Is told the name of each table before it is read; see :func:`num_steps`.
    """
    config = read_config(path)
    tell = progress or (lambda _: None)
    graph = HeteroData()
    graph.name, graph.shared_features = config.graph.name, config.graph.shared_features
    ids: dict[str, NodeIds] = {}
    feature_names: dict[str, list[str]] = {}
    task = None
    with Tables(path.parent) as tables:
        for name, nodes in config.nodes.items():
            tell(name)
            table, ids[name] = _read_nodes(tables, config, name)
            feature_names[name] = _add_nodes(graph, name, nodes, ids[name], table)
            if config.task and config.task.target == name:
                task = node_task(table, config.task)
        for name in config.relations:
            tell(name)
            _add_relation(graph, name, config, tables, ids)
    graph.meta = {"name": graph.name, "features": {t: names for t, names in feature_names.items() if names}}
    return graph, task


def num_steps(path: Path) -> int:
    """How many tables `build` will read."""
    config = read_config(path)
    return len(config.nodes) + len(config.relations)


def _read_nodes(tables: Tables, config: GraphConfig, name: str) -> tuple[pa.Table, NodeIds]:
    """The node table, sorted by id."""
    nodes, where = config.nodes[name], f"nodes.{name}"
    columns = [nodes.id, *nodes.feature_columns, *([nodes.name] if nodes.name else [])]
    if config.task and config.task.target == name:
        split = config.task.split
        columns += [config.task.label, *([split] if isinstance(split, str) else [])]
    as_written = (nodes.id,) if nodes.id not in columns[1:] else ()
    table = tables.read(nodes, columns, where=where, text=as_written)
    ids, order = node_ids(
        name,
        table[nodes.id],
        id_type=nodes.id_type,
        from_csv=tables.is_csv(nodes),
        what=f'[{where}]: id column "{nodes.id}"',
    )
    return table.take(pa.array(order)), ids


def _add_nodes(graph: HeteroData, name: str, nodes: NodeTable, ids: NodeIds, table: pa.Table) -> list[str]:
    graph[name].num_nodes = len(ids)
    graph[name].node_id = ids.to_numpy()
    if nodes.name:
        texts = table[nodes.name].cast(pa.large_string()).fill_null("")
        graph[name].node_name = np.array(texts.to_pylist(), dtype=str)
    if not nodes.feature_columns:
        return []
    graph[name].x, names = feature_matrix(table, nodes.feature_columns, f"nodes.{name}")
    return names


def _add_relation(graph: HeteroData, name: str, config: GraphConfig, tables: Tables, ids: dict[str, NodeIds]) -> None:
    relation, where = config.relations[name], f"relations.{name}"
    ends = (relation.source, relation.target)
    columns = [end.column for end in ends]
    weight_column = [relation.weight] if relation.weight else []
    table = tables.read(relation, columns + weight_column, where=where, text=tuple(columns))
    source, target = (
        ids[end.type].numbers_of(
            table[end.column],
            from_csv=tables.is_csv(relation),
            forced=config.nodes[end.type].id_type != "auto",
            what=f'[{where}]: column "{end.column}"',
        )
        for end in ends
    )
    weight = _weights(table, relation, where)
    source, target, weight = _merged(source, target, weight, len(ids[relation.target.type]))
    _set_edges(graph, (relation.source.type, name, relation.target.type), source, target, weight)
    if config.graph.reverse if relation.reverse is None else relation.reverse:
        _set_edges(graph, (relation.target.type, f"rev_{name}", relation.source.type), target, source, weight)


def _weights(table: pa.Table, relation: RelationTable, where: str) -> Array | None:
    if relation.weight is None:
        return None
    what = f'[{where}]: weight column "{relation.weight}"'
    weight = table_columns.numbers(table[relation.weight], what)
    if (weight <= 0).any():
        raise InputError(f"{what} has {int((weight <= 0).sum())} weights that are not positive; leave out these rows.")
    return weight


def _merged(source: Array, target: Array, weight: Array | None, width: int) -> tuple[Array, Array, Array | None]:
    """Sort the edges; rows that repeat a pair become one edge, and their weights are added."""
    key = source * width + target
    if weight is None:
        key.sort()
        key = key[np.diff(key, prepend=-1) > 0]
        return key // width, key % width, None
    order = np.lexsort((weight, key))  # by weight too: a sum must not depend on the order of the rows
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    summed = np.add.reduceat(weight[order], first)
    return key[first] // width, key[first] % width, summed


def _set_edges(
    graph: HeteroData, edge_type: tuple[str, str, str], source: Array, target: Array, weight: Array | None
) -> None:
    graph[edge_type].edge_index = torch.from_numpy(np.stack([source, target]))
    if weight is not None:
        graph[edge_type].edge_weight = torch.from_numpy(weight.astype(np.float32))
