"""Models that treat all relations as one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fastgtn.nn.backbone import Backbone
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.nn.inputs.checks import Input, as_sizes, check_hyper_parameters
from fastgtn.nn.inputs.encoders import Encoder, InputLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels.dropout import drop
from fastgtn.relations.operator import Operator


@dataclass(frozen=True, eq=False)
class OneGraph:
    """The graph of all relations, as a map that sums messages or as edges."""

    graph: Operator | Tensor
    inputs: Tensor | None
    num_targets: int
    cost: int


class Convolutions(Backbone):
    """Encoder, then convolutions with an activation after each and dropout before each.

    Args:
        encoder: Whether the linear map of the features is followed by a ReLU.
        residual: Add the input of each convolution to its output.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        convs: Sequence[nn.Module],
        *,
        dropout: float,
        encoder: Encoder,
        residual: bool,
    ) -> None:
        super().__init__()
        check_hyper_parameters(num_layers=len(convs), dropout=dropout)
        self.dropout, self.out_features = dropout, hidden
        self.feature_dropout, self.residual = dropout, residual
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout, encoder=encoder)
        self.convs = nn.ModuleList(convs)

    @property
    def num_hops(self) -> int:
        """Distance to the farthest node that affects a node."""
        return len(self.convs)

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> OneGraph:
        """The normalised graph of all relations around the rows."""
        stack.require_non_negative("the normalisation by degrees")
        edges = EdgeList.of(stack).merged().gcn_normalized().toward(rows, self.num_hops)
        return OneGraph(edges.operator(), edges.inputs, edges.num_targets, edges.cost)

    def forward(self, x: Input, graph: RelationStack | OneGraph) -> Tensor:
        """Representations of all nodes, or of the planned rows."""
        plan = self.plan(graph) if isinstance(graph, RelationStack) else graph
        return self.convolve(self.encode(x), plan.graph)[: plan.num_targets]

    def encode(self, x: Input) -> Tensor:
        z: Tensor = self.input(Features.of(x))
        return z

    def convolve(self, z: Tensor, graph: Operator | Tensor) -> Tensor:
        for number in range(len(self.convs)):
            z = self.layer(number, z, graph)
        return z

    def layer(self, number: int, z: Tensor, graph: Operator | Tensor) -> Tensor:
        if number:
            z = drop(z, self.feature_dropout, self.training)
        h = self.activation(self.convs[number](z, graph))
        return h + z if self.residual else h

    def activation(self, z: Tensor) -> Tensor:
        return torch.relu(z)
