"""Convolutions that know one kind of node and edge: the graph of all relations together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from fastgtn.models.backbone import Backbone
from fastgtn.models.baselines.attention import attend
from fastgtn.models.baselines.edge_list import EdgeList
from fastgtn.models.encoders import InputLinear
from fastgtn.models.features import Features
from fastgtn.models.inputs import Input, as_sizes, check_hyper_parameters
from fastgtn.relations import RelationStack
from fastgtn.relations.operator import Operator

Encoder = Literal["linear", "relu"]


@dataclass(frozen=True, eq=False)
class OneGraph:
    """The graph of all relations, as a map that sums messages or as edges."""

    graph: Operator | Tensor
    inputs: Tensor | None
    num_targets: int
    cost: int


def sum_messages(conv: nn.Module, edge_index: Operator, *, x: Tensor, edge_weight: None = None) -> Tensor:  # noqa: ARG001
    """In place of PyG's `propagate`: our kernel is many times as fast as gathering and scattering."""
    return edge_index.apply(x[:, None], x.new_ones(1, 1)).flatten(1)


class FusedGCNConv(GCNConv):  # type: ignore[misc]
    """GCNConv over a normalised operator."""

    propagate = sum_messages  # PyG replaces what a class only inherits


class FusedGATConv(GATConv):  # type: ignore[misc]
    """GATConv whose softmax and sum run in our kernel."""

    def edge_updater(self, edge_index: Tensor, *, alpha: tuple[Tensor, Tensor], **_: None) -> Tensor:
        """The scores of edges, before the softmax."""
        sent, received = alpha
        return F.leaky_relu(sent[edge_index[0]] + received[edge_index[1]], self.negative_slope)

    def propagate(self, edge_index: Tensor, *, x: tuple[Tensor, Tensor], alpha: Tensor, size: None = None) -> Tensor:  # noqa: ARG002
        return attend(edge_index, alpha, x[0], x[1].size(0), dropout=self.dropout if self.training else 0.0)


class Convolutions(Backbone):
    """Encoder, then convolutions with an activation after each and dropout before each.

    Args:
        encoder: Whether the linear map of the features is followed by a ReLU.
        residual: Add the input of each convolution to its output.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, convs: Sequence[nn.Module], *, dropout: float,
        encoder: Encoder, residual: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        check_hyper_parameters(num_layers=len(convs), dropout=dropout)
        self.dropout, self.out_features = dropout, hidden
        self.feature_dropout, self.encoder, self.residual = dropout, encoder, residual
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout)
        self.convs = nn.ModuleList(convs)

    @property
    def num_hops(self) -> int:
        """Steps between a node and the farthest one that it sees."""
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
        return z if self.encoder == "linear" else torch.relu(z)

    def convolve(self, z: Tensor, graph: Operator | Tensor) -> Tensor:
        for number, conv in enumerate(self.convs):
            if number or self.encoder == "relu":  # a linear encoder is one map with the first convolution
                z = F.dropout(z, self.feature_dropout, self.training)
            h = self.activation(conv(z, graph))
            z = h + z if self.residual else h
        return z

    def activation(self, z: Tensor) -> Tensor:
        return torch.relu(z)


class GCN(Convolutions):
    """Graph convolutional network of Kipf and Welling."""

    def __init__(
        self, in_features: int | Features, hidden: int, *, num_layers: int = 2, dropout: float = 0.5,
        encoder: Encoder = "linear", residual: bool = False,
    ) -> None:  # fmt: skip
        convs = [FusedGCNConv(hidden, hidden, normalize=False) for _ in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=residual)


class GAT(Convolutions):
    """Graph attention network of Veličković et al.; weights of edges are not read.

    Args:
        heads: Attention heads side by side; together they are `hidden` wide.
        attention_dropout: Share of the attention weights that are dropped in training.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, *, num_layers: int = 2, heads: int = 8, dropout: float = 0.5,
        attention_dropout: float = 0.5, negative_slope: float = 0.2, encoder: Encoder = "linear",
        residual: bool = False,
    ) -> None:  # fmt: skip
        options: dict[str, Any] = {
            "heads": heads, "dropout": attention_dropout, "negative_slope": negative_slope, "add_self_loops": False,
        }  # fmt: skip
        convs = [FusedGATConv(hidden, hidden // heads, **options) for _ in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=residual)
        self.dropout = max(dropout, attention_dropout)

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> OneGraph:
        """Each edge once, and a self-loop at every node."""
        edges = EdgeList.of(stack).merged().with_loops().toward(rows, self.num_hops)
        return OneGraph(edges.edge_index, edges.inputs, edges.num_targets, edges.cost)

    def activation(self, z: Tensor) -> Tensor:
        return F.elu(z)
