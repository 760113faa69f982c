"""Names of nodes on the page. They come from the user's files, so they may be long and contain any text."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.runs.schema import node_ids

LONGEST = 80


class Names:
    """Ids and names of the nodes of all types; a node of the target type needs no type."""

    def __init__(self, graph: HeteroData, target: str) -> None:
        self.target = target
        self._ids = {t: node_ids(graph, t) for t in graph.node_types}
        self._names: dict[str, Any] = {
            t: np.asarray(graph[t].node_name) for t in graph.node_types if "node_name" in graph[t]
        }

    def id(self, node: int) -> str:
        return shortened(str(self._ids[self.target][node]), 200)

    def name(self, node: int, node_type: str | None = None) -> str:
        """The name, or nothing."""
        names = self._names.get(node_type or self.target)
        return "" if names is None else shortened(str(names[node]))

    def shown(self, node: int, node_type: str) -> str:
        """Its name, or its type and id."""
        return self.name(node, node_type) or shortened(f"{node_type} {self._ids[node_type][node]}")


def shortened(text: str, longest: int = LONGEST) -> str:
    """Cut a long text, and mark the cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
