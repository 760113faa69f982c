"""JK-Net: GCN layers whose outputs are all combined at the end."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor

from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.gcn import GCN
from fastgtn.nn.baselines.parts.option_groups import ConvolutionOptions
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Choice, Layers
from fastgtn.relations.operator import Operator

Jump = Literal["cat", "max", "lstm"]


class JKNet(GCN):
    """Jumping knowledge network of Xu et al.: GCN layers whose outputs are all combined at the end.

    Args:
        jump: How layers are combined: concatenation, maximum, or attention over an LSTM.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        *,
        num_layers: int = 3,
        jump: Jump = "cat",
        dropout: float = 0.5,
        encoder: Encoder = "linear",
        residual: bool = False,
    ) -> None:
        from torch_geometric.nn import JumpingKnowledge

        super().__init__(
            in_features, hidden, num_layers=num_layers, dropout=dropout, encoder=encoder, residual=residual
        )
        self.jump = JumpingKnowledge(jump, hidden, num_layers)
        self.out_features = hidden * num_layers if jump == "cat" else hidden

    def convolve(self, z: Tensor, graph: Operator | Tensor) -> Tensor:
        layers = []
        for number in range(len(self.convs)):
            z = self.layer(number, z, graph)
            layers.append(z)
        joined: Tensor = self.jump(layers)
        return joined


@describes(JKNet, "JK-Net")
class JKNetOptions(ConvolutionOptions):
    """The keys of JK-Net."""

    name: Literal["jk_net"]
    num_layers: Annotated[Layers, Choice((2, 3, 4))]
    jump: Annotated[Jump, Choice(("cat", "max"))]
