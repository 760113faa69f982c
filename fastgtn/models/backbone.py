"""What every model offers to the classifier and to training."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from fastgtn.models.features import Features
from fastgtn.models.filters import HopFilters
from fastgtn.relations import RelationStack


class PlannedGraph(Protocol):
    """A graph as one model reads it, prepared once and passed many times."""

    @property
    def inputs(self) -> Tensor | None:
        """The nodes whose features are read, when only the wanted rows are computed; None: all nodes, all rows."""

    @property
    def cost(self) -> int:
        """Stored numbers that one pass reads of the graph."""


class Backbone(nn.Module):
    """From features and graph to representations of nodes. Calling it takes features and what `plan` returned.

    Attributes:
        out_features: Width of the representations.
        dropout: Dropout inside; with any, a training pass cannot serve for validation.
        sees_all_nodes: Whether every row depends on all nodes, wherever they are.
    """

    out_features: int
    dropout: float
    sees_all_nodes: bool = False

    @property
    def num_hops(self) -> int:
        """Steps between a node and the farthest one that it sees along edges: what samplers must gather."""
        return 0

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> PlannedGraph:
        """Prepare a graph; a model that can do so computes only `rows` and what they depend on."""
        raise NotImplementedError

    def hop_filters(self) -> list[HopFilters]:
        """The learned choices of relations, of each layer; none where a model does not learn meta-paths."""
        return []

    def prepare(self, features: Features, stack: RelationStack) -> None:
        """Learn from the graph alone, before the first label is seen; most models do nothing here."""
