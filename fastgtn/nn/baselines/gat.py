"""GAT: attention over neighbours."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch.nn.functional as F
from torch import Tensor

from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.parts.convolutions import Convolutions, OneGraph
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.nn.baselines.parts.option_groups import AttentionOptions, ConvolutionOptions
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Amount, Numbers, Share
from fastgtn.relations import RelationStack


class GAT(Convolutions):
    """Graph attention network of Veličković et al.; edge weights are ignored.

    Args:
        heads: Number of attention heads; their total width is `hidden`.
        attention_dropout: Share of the attention weights that are dropped in training.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        *,
        num_layers: int = 2,
        heads: int = 8,
        dropout: float = 0.5,
        attention_dropout: float = 0.5,
        negative_slope: float = 0.2,
        encoder: Encoder = "linear",
        residual: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "heads": heads,
            "dropout": attention_dropout,
            "negative_slope": negative_slope,
            "add_self_loops": False,
        }
        from fastgtn.nn.baselines.parts.fused_layers import FusedGATConv

        convs = [FusedGATConv(hidden, hidden // heads, **options) for _ in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=residual)
        self.dropout = max(dropout, attention_dropout)

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> OneGraph:
        """Every edge once, and a self-loop at every node."""
        edges = EdgeList.of(stack).merged().with_loops().toward(rows, self.num_hops)
        return OneGraph(edges.edge_index, edges.inputs, edges.num_targets, edges.cost)

    def activation(self, z: Tensor) -> Tensor:
        return F.elu(z)


@describes(GAT, "GAT")
class GATOptions(AttentionOptions, ConvolutionOptions):
    """The keys of GAT."""

    name: Literal["gat"]
    attention_dropout: Annotated[Share, Numbers(0.0, 0.8, step=0.2)]
    negative_slope: Amount
