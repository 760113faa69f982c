"""The models by name: the keys of each, and how it is built from them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from fastgtn.models import GTN, Backbone, FastGTN, Features, NonLocalOptions
from fastgtn.models.aggregate import Activation, Aggregation
from fastgtn.models.baselines import MLP
from fastgtn.relations import Relation
from fastgtn.training.presets import Preset
from fastgtn.training.sections import Amount, Count, Section, Share


class BackboneOptions(Section):
    """What all models have."""

    name: str
    hidden: Count = 64
    num_layers: Count = 2
    dropout: Share = 0.5
    head_dropout: Share = 0.0

    @property
    def label(self) -> str:
        """The name of the model and of its config files."""
        return self.name

    @property
    def summary(self) -> str:
        """The model in a few words, for people."""
        return f"{self.label} · {_count(self.num_layers, 'layer')}"

    @abstractmethod
    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        """A new model for features and relations like these, with weights drawn from torch's generator."""


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
    path_length: Count = 2
    num_channels: Count = 2
    num_layers: Count = 1
    gamma: Amount = 0.5
    aggregate: Aggregation = "concat"
    activation: Activation = "relu"
    bias: bool = False
    filter_init_std: Amount = 0.1
    non_local: NonLocal = NonLocal()

    @property
    def label(self) -> str:
        return f"{self.name}_non_local" if self.non_local.enabled else self.name

    @property
    def summary(self) -> str:
        layers = f" · {_count(self.num_layers, 'layer')}" if self.num_layers > 1 else ""
        return f"{self.label} · path length {self.path_length} · {_count(self.num_channels, 'channel')}{layers}"

    @model_validator(mode="after")
    def _non_local_is_of_fast_gtn(self) -> Self:
        if self.non_local.enabled and self.name != "fast_gtn":
            raise ValueError('non-local operations belong to FastGTN: set model.name = "fast_gtn"')
        return self

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        shared: dict[str, Any] = {
            "path_length": self.path_length, "num_channels": self.num_channels, "num_layers": self.num_layers,
            "gamma": self.gamma, "aggregate": self.aggregate, "activation": self.activation,
            "dropout": self.dropout, "bias": self.bias, "filter_init_std": self.filter_init_std,
        }  # fmt: skip
        if self.name == "gtn":
            return GTN(features, self.hidden, relations, **shared)
        chosen = NonLocalOptions(**self.non_local.model_dump(exclude={"enabled"}))
        non_local = chosen if self.non_local.enabled else None
        return FastGTN(features, self.hidden, relations, **shared, non_local=non_local)


class MLPOptions(BackboneOptions):
    """Features alone, no edges."""

    name: Literal["mlp"]

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return MLP(features, self.hidden, num_layers=self.num_layers, dropout=self.dropout)


ModelOptions = Annotated[MetaPathOptions | MLPOptions, Field(discriminator="name")]


def options_by_name() -> dict[str, type[BackboneOptions]]:
    """The options class of each value of `model.name`."""
    kinds: tuple[type[BackboneOptions], ...] = get_args(get_args(ModelOptions)[0])
    return {name: kind for kind in kinds for name in get_args(kind.model_fields["name"].annotation)}


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number > 1)}"
