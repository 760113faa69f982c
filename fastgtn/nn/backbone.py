"""The interface of all models to the classifier and to training."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from fastgtn.nn.filters import HopFilters
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import RelationStack


class PlannedGraph(Protocol):
    """A graph that is prepared once for a model and used in many passes."""

    @property
    def inputs(self) -> Tensor | None:
        """The nodes whose features are read, if only the requested rows are computed; None for all nodes and rows."""

    @property
    def cost(self) -> int:
        """The number of stored values of the graph that one pass reads."""


class Backbone(nn.Module):
    """Computes representations of nodes from features and a graph. Call it with features and the result of `plan`.

    Attributes:
        out_features: Width of the representations.
        dropout: Dropout inside the model. If it is positive, a training pass cannot be reused for validation.
        sees_all_nodes: Whether every row depends on all nodes of the graph.
        may_skip_weights: Whether some weights may get no gradient, because a batch lacks a node type.
        head_dropout: Default dropout before the head of a classifier.
    """

    out_features: int
    dropout: float
    sees_all_nodes: bool = False
    may_skip_weights: bool = True
    head_dropout: float = 0.0

    @property
    def num_hops(self) -> int:
        """Distance to the farthest node that affects a node along edges, which samplers must gather."""
        return 0

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> PlannedGraph:
        """Prepare a graph. If the model supports it, only `rows` and what they depend on are computed."""
        raise NotImplementedError

    def hop_filters(self) -> list[HopFilters]:
        """The filters of each layer; empty if the model does not learn meta-paths."""
        return []

    def prepare(self, features: Features, stack: RelationStack) -> None:
        """Learn from the graph without labels before training. Most models do nothing here."""


def reset_children(module: nn.Module) -> None:
    """Let every part of a module draw its parameters again, in the order in which they were first drawn."""
    for child in module.children():
        reset = getattr(child, "reset_parameters", None)
        if callable(reset):
            reset()
        else:
            reset_children(child)
