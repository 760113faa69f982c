"""GCN: sums over neighbours, normalised by degrees."""

from __future__ import annotations

from typing import Literal

from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.parts.convolutions import Convolutions
from fastgtn.nn.baselines.parts.option_groups import ConvolutionOptions
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.nn.inputs.features import Features


class GCN(Convolutions):
    """Graph convolutional network of Kipf and Welling."""

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        *,
        num_layers: int = 2,
        dropout: float = 0.5,
        encoder: Encoder = "linear",
        residual: bool = False,
    ) -> None:
        from fastgtn.nn.baselines.parts.fused_layers import FusedGCNConv

        convs = [FusedGCNConv(hidden, hidden, normalize=False) for _ in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=residual)


@describes(GCN, "GCN")
class GCNOptions(ConvolutionOptions):
    """The keys of GCN."""

    name: Literal["gcn"]
