"""Convolutions that know one kind of node and edge: the graph of all relations together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv, JumpingKnowledge, MixHopConv

from fastgtn.models.backbone import Backbone
from fastgtn.models.baselines.attention import attend, edge_sums
from fastgtn.models.baselines.edge_list import EdgeList
from fastgtn.models.dropout import drop
from fastgtn.models.encoders import Encoder, InputLinear
from fastgtn.models.features import Features
from fastgtn.models.inputs import Input, as_sizes, check_hyper_parameters
from fastgtn.relations import RelationStack
from fastgtn.relations.operator import Operator

Jump = Literal["cat", "max", "lstm"]


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
        return edge_sums(edge_index, alpha[1], alpha[0], slope=self.negative_slope)

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
        self.feature_dropout, self.residual = dropout, residual
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout, encoder=encoder)
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


class FusedMixHopConv(MixHopConv):  # type: ignore[misc]
    """MixHopConv over a normalised operator."""

    propagate = sum_messages


class FusedGCN2Conv(GCN2Conv):  # type: ignore[misc]
    """GCN2Conv over a normalised operator."""

    propagate = sum_messages


class JKNet(Convolutions):
    """Jumping knowledge network of Xu et al.: GCN layers, all of which reach the last one.

    Args:
        jump: How layers are joined: side by side, by the largest value, or by attention over an LSTM.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, *, num_layers: int = 3, jump: Jump = "cat",
        dropout: float = 0.5, encoder: Encoder = "linear", residual: bool = False,
    ) -> None:  # fmt: skip
        convs = [FusedGCNConv(hidden, hidden, normalize=False) for _ in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=residual)
        self.jump = JumpingKnowledge(jump, hidden, num_layers)
        self.out_features = hidden * num_layers if jump == "cat" else hidden

    def convolve(self, z: Tensor, graph: Operator | Tensor) -> Tensor:
        layers = []
        for number in range(len(self.convs)):
            z = self.layer(number, z, graph)
            layers.append(z)
        joined: Tensor = self.jump(layers)
        return joined


class MixHop(Convolutions):
    """MixHop of Abu-El-Haija et al.: each layer has powers of the graph side by side, `hidden` columns for each."""

    def __init__(
        self, in_features: int | Features, hidden: int, *, num_layers: int = 2, powers: Sequence[int] = (0, 1, 2),
        dropout: float = 0.5, encoder: Encoder = "linear",
    ) -> None:  # fmt: skip
        wide = hidden * len(powers)
        convs = [FusedMixHopConv(wide if n else hidden, hidden, list(powers)) for n in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=False)
        self.out_features, self.largest_power = wide, max(powers)

    @property
    def num_hops(self) -> int:
        return len(self.convs) * self.largest_power


class GCNII(Convolutions):
    r"""GCNII of Chen et al.: every layer sees the first one, and is close to the identity.

    Args:
        alpha: Share of the first layer in each.
        theta: Layer l applies its map with weight :math:`\log(θ / l + 1)`.
        shared_weights: Whether the first layer goes through the same map as the neighbours.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, *, num_layers: int = 8, alpha: float = 0.1,
        theta: float = 0.5, shared_weights: bool = True, dropout: float = 0.5,
    ) -> None:  # fmt: skip
        options: dict[str, Any] = {
            "alpha": alpha, "theta": theta, "shared_weights": shared_weights, "normalize": False,
        }  # fmt: skip
        convs = [FusedGCN2Conv(hidden, layer=n + 1, **options) for n in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder="linear", residual=False)

    def encode(self, x: Input) -> Tensor:
        """What every layer sees: nothing of it is dropped yet."""
        return torch.relu(super().encode(x))

    def convolve(self, z: Tensor, graph: Operator | Tensor) -> Tensor:
        first = z
        for conv in self.convs:
            z = torch.relu(conv(drop(z, self.feature_dropout, self.training), first, graph))
        return z
