"""Features as nodes: a joined meta-path can lead through what two nodes have in common.

A feature of a film becomes a node of the type `#film`, joined to the films that have it. Paths such as
user – film – #film – film then reach a film that has no links yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array
from fastgtn.links.reverses import Reverses
from fastgtn.relations import Relation

STRONGEST = 32  # features of one node that are kept, those that differ most from the usual
MOSTLY = 0.5  # a column with more entries than this share has a usual value from which nodes differ
HAS = "has"
FEATURE_MARK = "#"  # begins the names of the types of features


def feature_type(node_type: str) -> str:
    """The type of the nodes that are features of a type."""
    return f"{FEATURE_MARK}{node_type}"


def with_features(graph: HeteroData, reverses: Reverses, ends: tuple[str, str]) -> tuple[HeteroData, Reverses]:
    """A shallow copy in which the features of both ends are nodes, after all other types and relations.

    Args:
        graph: A graph in which every relation has a reverse.
        reverses: Which relation is the reverse of which.
        ends: The types of sources and targets.
    """
    wider, known = graph.__copy__(), dict(reverses)
    for node_type in dict.fromkeys(ends):
        kind = feature_type(node_type)
        if "x" not in graph[node_type] or kind in graph.node_types:
            continue
        entries = feature_entries(_matrix(graph, node_type))
        if not entries.nnz:
            continue
        has, of = Relation(node_type, HAS, kind), Relation(kind, f"rev_{HAS}", node_type)
        wider[kind].num_nodes = entries.shape[1]
        edges = torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
        for relation, index in ((has, edges), (of, edges.flip(0))):
            wider[tuple(relation)].edge_index = index
            wider[tuple(relation)].edge_weight = torch.from_numpy(entries.data)
        known[has], known[of] = of, has
    return wider, known


def feature_entries(x: Any) -> Any:
    """How much of each feature a node has: entries above 0, at most :data:`STRONGEST` per node.

    Column j is a feature where it is above 0, and column d + j where it is below. A column that is rarely 0 is
    first centred and divided by its standard deviation, others by the root mean square of their entries.

    Args:
        x: A sparse matrix [nodes, d].
    """
    x = x.tocsc().astype(np.float64)
    count, width = x.shape
    is_usual = np.diff(x.indptr) > MOSTLY * count
    usual, rare = np.flatnonzero(is_usual), x[:, ~is_usual].tocoo()
    dense = x[:, usual].toarray()
    spread = dense.std(0)
    spread = np.where(spread > 1e-9 * np.abs(dense).max(0, initial=0.0), spread, np.inf)  # a constant says nothing
    dense = (dense - dense.mean(0)) / spread
    row, col = np.nonzero(dense)
    entries = np.maximum(np.bincount(rare.col, minlength=rare.shape[1]), 1)
    size = np.sqrt(np.bincount(rare.col, rare.data**2, rare.shape[1]) / entries)
    values = np.concatenate([dense[row, col], rare.data / np.where(size > 0, size, 1.0)[rare.col]])
    cols = np.concatenate([usual[col], np.flatnonzero(~is_usual)[rare.col]])
    cols = np.where(values < 0, cols + width, cols)
    return _strongest(np.concatenate([row, rare.row]), cols, np.abs(values), (count, 2 * width))


def feature_texts(graph: HeteroData, ends: tuple[str, str]) -> dict[str, list[str]]:
    """What people call the features of both ends: the names of their columns, or their numbers."""
    meta = graph.meta if "meta" in graph and isinstance(graph.meta, dict) else {}
    stored = meta.get("features", {})
    texts = {}
    for node_type in dict.fromkeys(ends):
        if "x" in graph[node_type]:
            width = int(graph[node_type].x.size(1))
            names = stored.get(node_type, []) if isinstance(stored, dict) else []
            names = [str(name) for name in names] if len(names) == width else [str(n) for n in range(width)]
            texts[feature_type(node_type)] = [*names, *(f"low {name}" for name in names)]
    return texts


def _strongest(rows: Array, cols: Array, values: Array, shape: tuple[int, int]) -> Any:
    """Only the largest entries of each row."""
    order = np.lexsort((cols, -values, rows))
    rows, cols, values = rows[order], cols[order], values[order]
    starts = np.searchsorted(rows, np.arange(shape[0]))
    kept = (np.arange(len(rows)) - starts[rows] < STRONGEST) & (values > 0)
    return sp.coo_matrix((values[kept], (rows[kept], cols[kept])), shape=shape)


def _matrix(graph: HeteroData, node_type: str) -> Any:
    """The features of a type as a sparse matrix."""
    x, count = graph[node_type].x, int(graph[node_type].num_nodes or 0)
    if not isinstance(x, Tensor) or x.dim() != 2 or x.size(0) != count:
        came = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f'"{node_type}": features must be a tensor [{count} nodes, features], but got {came}.')
    entries = x.detach().cpu().double().to_sparse_coo().coalesce()
    values, (row, col) = entries.values().numpy(), entries.indices().numpy()
    if not np.isfinite(values).all():
        raise InputError(f'"{node_type}": features have NaN or infinite values. Clean or impute them first.')
    return sp.csc_matrix((values, (row, col)), shape=tuple(x.shape))
