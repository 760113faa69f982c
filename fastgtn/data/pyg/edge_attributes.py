"""Attributes of edges in graphs of PyG as features of the nodes at both ends, as for the tables of edges."""

import copy
import json
from collections import Counter

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from fastgtn.data.feature_matrix import feature_tensor
from fastgtn.data.moments import moments_of
from fastgtn.data.pyg.graph import as_hetero
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.edge_features import grouped
from fastgtn.data.tables.encoders.fitting import apply_summaries, fit_summaries
from fastgtn.data.tables.encoding import ColumnEncoding
from fastgtn.data.tables.times import Horizon
from fastgtn.errors import InputError
from fastgtn.relations.schema import Relation
from fastgtn.relations.times import Times

FITTED = "edge_summaries"  # where the fitted values stand in `graph.meta`
Summaries = dict[str, dict[str, Array]]  # by relation and column, a value per node


def with_edge_features(graph: HeteroData | Data, *, like: HeteroData | None = None) -> HeteroData:
    """Summarise `edge_attr` of every relation as features of the nodes at both ends, and remove it.

    Each end gets the number of its edges and, of each column, sum, mean, smallest and largest value as further columns
    of `x`, standardised like the columns of tables. What was fitted is stored in ``graph.meta``. If the graph has
    `as_of`, only edges before the moments of the nodes are summarised.

    Args:
        graph: The graph; it is not changed.
        like: A graph that this function made, such as the graph of a result: its fitted values are used, so that
            the numbers of new edges mean the same.
    """
    found = copy.copy(as_hetero(graph))
    sums: dict[str, Summaries] = {node_type: {} for node_type in found.node_types}
    horizon = _horizon(found)
    times_used = Counter(name for _, name, _ in found.edge_types)
    for edge_type in found.edge_types:
        attributes = found[edge_type].get("edge_attr")
        if attributes is None:
            continue
        source, name, target = edge_type
        title = name if times_used[name] == 1 else "-".join(edge_type)
        values = _values(attributes, found[edge_type].edge_index.size(1), title)
        ends = zip((source, target), found[edge_type].edge_index.numpy(), strict=True)
        for side, (node_type, nodes) in enumerate(ends):
            label = f"{title}_out" if source == target and side == 0 else title
            count, rows = int(found[node_type].num_nodes or 0), np.arange(len(nodes))
            if horizon is not None:
                when = Times.of_hetero(found).edges.get(Relation(*edge_type))
                times = None if when is None else when.numpy()
                rows = horizon.visible(node_type, count, nodes, times, f'relation "{name}"')
            sums[node_type][label] = _summaries(values[rows], nodes[rows], count)
        del found[edge_type].edge_attr
    if horizon is not None and sums[horizon.target]:
        own = Times.of_hetero(found).nodes.get(horizon.target)
        found[horizon.target].time = torch.from_numpy(horizon.born(None if own is None else own.numpy()))
    known = _fitted(like)
    meta = dict(found.meta) if "meta" in found else {}
    names, fitted = dict(meta.get("features", {})), {}
    for node_type, each in sums.items():
        columns = _add_columns(found, node_type, each, known)
        if columns:
            fitted[node_type] = [column.model_dump(mode="json") for column in columns]
            mine = [name for column in columns for name in column.names]
            is_named = len(names.get(node_type, [])) + len(mine) == found[node_type].x.size(1)
            names = {**names, node_type: [*names.get(node_type, []), *mine]} if is_named else names
    if fitted and len(found.node_types) > 1:  # types no longer have the same columns
        found.shared_features = False
    found.meta = meta | {"features": names, FITTED: fitted}
    return found


def _horizon(graph: HeteroData) -> Horizon | None:
    """The moments of the targets, before which an edge must lie to become a feature; None without `as_of`."""
    for node_type in graph.node_types:
        moments = moments_of(graph, node_type)
        if moments is not None:
            return Horizon(node_type, moments.numpy(), ~moments.isnan().numpy())
    return None


def _values(attributes: object, num_edges: int, title: str) -> Array:
    """The attributes as a matrix of numbers."""
    if not isinstance(attributes, Tensor) or attributes.dim() not in (1, 2) or len(attributes) != num_edges:
        shape = list(attributes.shape) if isinstance(attributes, Tensor) else type(attributes).__name__
        raise InputError(
            f'edge_attr of "{title}" must be numbers with a row for each of its {num_edges} edges, not {shape}.'
        )
    values = attributes.detach().cpu().reshape(num_edges, -1).double().numpy()
    if not np.isfinite(values).all():
        raise InputError(f'edge_attr of "{title}" holds values that are NaN or infinite; replace them.')
    return values


def _summaries(values: Array, nodes: Array, num_nodes: int) -> dict[str, Array]:
    found = {"count": np.bincount(nodes, minlength=num_nodes).astype(np.float64)}
    for c, column in enumerate(values.T):
        found |= {f"{c}.{name}": each for name, each in grouped(column, nodes, num_nodes, None).items()}
    return found


def _fitted(like: HeteroData | None) -> dict[str, tuple[ColumnEncoding, ...]] | None:
    if like is None:
        return None
    stored = like.meta.get(FITTED) if "meta" in like and isinstance(like.meta, dict) else None
    if not isinstance(stored, dict):
        raise InputError("like needs a graph that with_edge_features has returned; nothing was fitted on this one.")
    return {t: tuple(ColumnEncoding.model_validate_json(json.dumps(c)) for c in each) for t, each in stored.items()}


def _add_columns(
    graph: HeteroData, node_type: str, found: Summaries, known: dict[str, tuple[ColumnEncoding, ...]] | None
) -> tuple[ColumnEncoding, ...]:
    """Put the summaries behind the features of a node type; a type without features gets them as features."""
    where, count = f"nodes.{node_type}", int(graph[node_type].num_nodes or 0)
    if known is None:
        fitted = fit_summaries(found, where=where)
        columns, blocks = tuple(column for column, _ in fitted), [block for _, block in fitted]
    else:
        columns = known.get(node_type, ())
        blocks = apply_summaries(columns, found, count, where=where)
    if not columns:
        return ()
    new = torch.from_numpy(np.hstack([np.asarray(block.block, np.float32) for block in blocks]))
    own = graph[node_type].get("x")
    if own is not None:
        own = own.to_dense() if own.layout != torch.strided else own
        new = torch.cat([own.float(), new], 1)
    graph[node_type].x = feature_tensor(new.numpy(), what=f"[{where}]: features")
    return columns
