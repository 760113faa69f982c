"""The moments of nodes, `as_of`, after which a prediction may see nothing."""

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.relations.times import Times, time_tensor


def moments_of(graph: HeteroData, node_type: str) -> Tensor | None:
    """The moment of each node of a type, float64; NaN for a node that sees everything. None without `as_of`."""
    store = graph[node_type]
    if "as_of" not in store:
        return None
    return time_tensor(store.as_of, int(store.num_nodes or 0), f'node type "{node_type}"', name="as_of")


def all_moments(graph: HeteroData) -> Tensor | None:
    """The moments of the nodes of all types, one after the other, infinite for those that see everything.

    None where no node has one. Moments without any time are refused: nothing could be hidden.
    """
    parts = {t: moments_of(graph, t) for t in graph.node_types}
    if all(part is None for part in parts.values()):
        return None
    if not Times.of_hetero(graph):
        named = ", ".join(f'"{t}"' for t, part in parts.items() if part is not None)
        raise InputError(
            f"nodes of type {named} have as_of, but no node and no edge has a time, so nothing can be hidden: set "
            'data["…"].time (in graph.toml, time = "COLUMN" of a node table or a relation), or leave as_of out.'
        )
    missing = {t: torch.full((int(graph[t].num_nodes or 0),), torch.inf, dtype=torch.float64) for t in parts}
    return torch.cat([missing[t] if part is None else part.nan_to_num(nan=torch.inf) for t, part in parts.items()])


def snapshot(graph: HeteroData) -> float | None:
    """The one moment that all nodes with `as_of` share, if they do."""
    found = [part for part in (moments_of(graph, t) for t in graph.node_types) if part is not None and len(part)]
    if not found or bool(torch.cat(found).isnan().any()):
        return None
    different = torch.cat(found).unique()
    return float(different[0]) if len(different) == 1 else None
