"""Keys that several baselines share."""

from typing import Annotated, Self

from pydantic import model_validator

from fastgtn.nn.backbone_options import BackboneOptions, counted
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.options import Choice, Count


class EncoderOptions(BackboneOptions):
    """Models that may have a ReLU between the features and the first layer."""

    encoder: Annotated[Encoder, Choice(("linear", "relu"))]


class ConvolutionOptions(EncoderOptions):
    """Models that read all relations as one graph."""

    residual: Annotated[bool, Choice((False, True))]


class AttentionOptions(BackboneOptions):
    """Models whose heads share the hidden width."""

    heads: Annotated[Count, Choice((2, 4, 8))]

    @property
    def summary(self) -> str:
        return f"{super().summary} · {counted(self.heads, 'head')}"

    @property
    def floats_per_edge(self) -> int:
        """The score of each head for an edge, with its gradient."""
        return 4 * self.num_layers * self.heads

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(
                f"the {self.heads} heads (model.heads) share the width model.hidden, which is {self.hidden}: "
                f"make it a multiple of {self.heads}."
            )
        return self
