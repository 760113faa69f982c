"""GCNII: a deep GCN whose layers stay close to the identity."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from fastgtn.nn.backbone_options import BackboneOptions, describes
from fastgtn.nn.baselines.parts.convolutions import Convolutions
from fastgtn.nn.inputs.checks import Input
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Choice, Layers, Numbers, Rate, Share
from fastgtn.relations.kernels.dropout import drop
from fastgtn.relations.operator import Operator


class GCNII(Convolutions):
    r"""GCNII of Chen et al.: every layer has a connection to the first layer and is close to the identity.

    Args:
        alpha: Share of the first layer in each layer.
        theta: Layer l applies its map with weight :math:`\log(θ / l + 1)`.
        shared_weights: Whether the first layer and the neighbours use the same map.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        *,
        num_layers: int = 8,
        alpha: float = 0.1,
        theta: float = 0.5,
        shared_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:
        options: dict[str, Any] = {
            "alpha": alpha,
            "theta": theta,
            "shared_weights": shared_weights,
            "normalize": False,
        }
        from fastgtn.nn.baselines.parts.fused_layers import FusedGCN2Conv

        convs = [FusedGCN2Conv(hidden, layer=n + 1, **options) for n in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder="linear", residual=False)

    def encode(self, x: Input) -> Tensor:
        """The input of every layer, before dropout."""
        return torch.relu(super().encode(x))

    def convolve(self, z: Tensor, graph: Operator | Tensor) -> Tensor:
        first = z
        for conv in self.convs:
            z = torch.relu(conv(drop(z, self.feature_dropout, self.training), first, graph))
        return z


@describes(GCNII, "GCNII")
class GCNIIOptions(BackboneOptions):
    """The keys of GCNII."""

    name: Literal["gcnii"]
    num_layers: Annotated[Layers, Choice((2, 4, 8, 16))]
    alpha: Annotated[Share, Numbers(0.1, 0.7, step=0.1)]
    theta: Annotated[Rate, Choice((0.5, 1.0, 1.5))]
    shared_weights: Annotated[bool, Choice((True, False))]
