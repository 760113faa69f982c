"""The models by name: the keys of each, and how it is built from them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from fastgtn.models import GTN, Backbone, FastGTN, Features, NonLocalOptions
from fastgtn.models.aggregate import Activation, Aggregation
from fastgtn.models.encoders import Encoder
from fastgtn.relations import Relation
from fastgtn.training.backbone_options import BackboneOptions, counted
from fastgtn.training.baseline_options import (
    GATOptions,
    GCNIIOptions,
    GCNOptions,
    HANOptions,
    HGTOptions,
    JKNetOptions,
    MixHopOptions,
    MLPOptions,
    Node2VecOptions,
    RGCNOptions,
)
from fastgtn.training.presets import Preset
from fastgtn.training.sections import Amount, Count, Layers, Section


class NonLocal(Section):
    """The non-local relation of FastGTN."""

    enabled: bool = False
    neighbors: Count = 5
    exclude_self: bool = False
    final_relu: bool = True
    init_logit: float = -1.0
    hidden: Annotated[tuple[Count, Count], Field(strict=False)] = (128, 64)


class MetaPathOptions(BackboneOptions):
    """GTN and FastGTN; `preset` picks a whole set of defaults."""

    name: Literal["gtn", "fast_gtn"] = "fast_gtn"
    preset: Preset = "ours"
    path_length: Layers = 2
    num_channels: Count = 2
    num_layers: Layers = 1
    gamma: Amount = 0.5
    aggregate: Aggregation = "concat"
    activation: Activation = "relu"
    encoder: Encoder = "linear"
    bias: bool = False
    filter_init_std: Amount = 0.1
    propagation: Literal["auto", "implicit", "unrolled"] = "auto"
    non_local: NonLocal = NonLocal()

    @property
    def label(self) -> str:
        return f"{self.name}_non_local" if self.non_local.enabled else self.name

    @property
    def summary(self) -> str:
        layers = f" · {counted(self.num_layers, 'layer')}" if self.num_layers > 1 else ""
        return f"{self.label} · path length {self.path_length} · {counted(self.num_channels, 'channel')}{layers}"

    @model_validator(mode="after")
    def _non_local_is_of_fast_gtn(self) -> Self:
        if self.non_local.enabled and self.name != "fast_gtn":
            raise ValueError('non-local operations belong to FastGTN: set model.name = "fast_gtn"')
        return self

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        shared: dict[str, Any] = {
            "path_length": self.path_length, "num_channels": self.num_channels, "num_layers": self.num_layers,
            "gamma": self.gamma, "aggregate": self.aggregate, "activation": self.activation, "encoder": self.encoder,
            "dropout": self.dropout, "bias": self.bias, "filter_init_std": self.filter_init_std,
        }  # fmt: skip
        if self.name == "gtn":
            return GTN(features, self.hidden, relations, **shared)
        chosen = NonLocalOptions(**self.non_local.model_dump(exclude={"enabled"}))
        non_local = chosen if self.non_local.enabled else None
        return FastGTN(features, self.hidden, relations, **shared, non_local=non_local)


ModelOptions = Annotated[
    MetaPathOptions
    | MLPOptions
    | Node2VecOptions
    | GCNOptions
    | GATOptions
    | JKNetOptions
    | MixHopOptions
    | GCNIIOptions
    | RGCNOptions
    | HANOptions
    | HGTOptions,
    Field(discriminator="name"),
]


def options_by_name() -> dict[str, type[BackboneOptions]]:
    """The options class of each value of `model.name`."""
    kinds: tuple[type[BackboneOptions], ...] = get_args(get_args(ModelOptions)[0])
    return {name: kind for kind in kinds for name in get_args(kind.model_fields["name"].annotation)}
