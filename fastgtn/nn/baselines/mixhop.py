"""MixHop: several powers of the graph in each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.parts.convolutions import Convolutions
from fastgtn.nn.baselines.parts.option_groups import EncoderOptions
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Choice


class MixHop(Convolutions):
    """MixHop of Abu-El-Haija et al.: each layer concatenates powers of the graph, with `hidden` columns for each."""

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        *,
        num_layers: int = 2,
        powers: Sequence[int] = (0, 1, 2),
        dropout: float = 0.5,
        encoder: Encoder = "linear",
    ) -> None:
        wide = hidden * len(powers)
        from fastgtn.nn.baselines.parts.fused_layers import FusedMixHopConv

        convs = [FusedMixHopConv(wide if n else hidden, hidden, list(powers)) for n in range(num_layers)]
        super().__init__(in_features, hidden, convs, dropout=dropout, encoder=encoder, residual=False)
        self.out_features, self.largest_power = wide, max(powers)

    @property
    def num_hops(self) -> int:
        return len(self.convs) * self.largest_power


@describes(MixHop, "MixHop")
class MixHopOptions(EncoderOptions):
    """The keys of MixHop."""

    name: Literal["mixhop"]
    powers: Annotated[
        tuple[Annotated[int, Field(ge=0, le=100)], ...],
        Field(strict=False, min_length=1),
        Choice(((0, 1), (0, 1, 2), (0, 1, 2, 3))),
    ]

    @property
    def num_hops(self) -> int:
        return self.num_layers * max(self.powers)

    @property
    def floats_per_node(self) -> int:
        """The powers are kept side by side, with their inputs."""
        return self.hidden * (1 + len(self.powers))

    @model_validator(mode="after")
    def _powers_are_distinct(self) -> Self:
        if len(set(self.powers)) < len(self.powers):
            raise ValueError(f"model.powers contains a power twice: {list(self.powers)}.")
        return self
