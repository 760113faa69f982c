"""The times at which nodes and edges of a graph appear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.relations.schema import Relation


@dataclass(frozen=True, eq=False)
class Times:
    """The times of nodes by type and of edges by relation, float64, NaN = always there; types may be left out.

    A node cannot send a message before it exists. The time of an edge is therefore the later of its own time and the
    time of the node that it comes from. The time of the receiver does not matter: it is the target, or it has sent a
    message itself.
    """

    nodes: Mapping[str, Tensor]
    edges: Mapping[Relation, Tensor]

    @staticmethod
    def of_hetero(data: HeteroData) -> Times:
        """Read `time` of every node type and edge type that has it."""
        nodes = {
            t: time_tensor(data[t].time, int(data[t].num_nodes or 0), f'node type "{t}"')
            for t in data.node_types
            if "time" in data[t]
        }
        edges = {
            Relation(*e): time_tensor(data[e].time, data[e].edge_index.size(1), f'relation "{e[1]}"')
            for e in data.edge_types
            if "time" in data[e] and "edge_index" in data[e]
        }
        return Times(nodes, edges)

    def __bool__(self) -> bool:
        return bool(self.nodes) or bool(self.edges)

    def of_edges(self, relation: Relation, senders: Tensor, own: Tensor | None = None) -> Tensor:
        """The times of the edges of a relation, float64 [E].

        Args:
            senders: The nodes that the edges come from.
            own: The times of the edges themselves; by default those of the relation.
        """
        own = self.edges.get(relation) if own is None else own
        found = torch.full((len(senders),), torch.nan, dtype=torch.float64) if own is None else own
        born = self.nodes.get(relation.source)
        return found if born is None else torch.fmax(found, born[senders])


def time_tensor(values: Any, count: int, what: str, *, name: str = "time") -> Tensor:
    """Times as float64 [count]; one number serves all. Refuse other shapes, and infinite times."""
    try:
        times = torch.as_tensor(np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values))
    except (TypeError, ValueError, RuntimeError):
        times = torch.empty(0, 0)
    if times.dim() == 0:
        times = times.expand(count)
    if times.shape != (count,) or times.is_complex() or times.dtype == torch.bool:
        came = tuple(values.shape) if hasattr(values, "shape") else type(values).__name__
        raise InputError(f"{what}: {name} must be one number each, shape [{count}], NaN for none, but got {came}.")
    if bool(times.isinf().any()):
        raise InputError(f"{what}: {name} has infinite values; NaN means none.")
    return times.double()
