"""The keys of GTN and FastGTN in a config, what trials may decide, and the presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Annotated, Any, ClassVar, Literal

from fastgtn.errors import InputError
from fastgtn.nn.aggregate import Activation, Aggregation
from fastgtn.nn.backbone import Backbone
from fastgtn.nn.backbone_options import BackboneOptions, Range, counted
from fastgtn.nn.classifier import NodeClassifier
from fastgtn.nn.inputs.encoders import Encoder, Own
from fastgtn.nn.inputs.features import Features
from fastgtn.nn.non_local import NonLocalKeys
from fastgtn.options import Amount, Choice, Count, Layers, Preset, Values, merged
from fastgtn.relations import Relation

LONGEST_PATH = 4  # steps of the longest paths that are screened where the path length is "auto"
WEIGHT_DECAYS = (0.001, 0.01, 0.03)  # that are tried
CONSISTENCIES = (0.0, 1.0)
EPOCHS, MORE_EPOCHS = 100, 300
MOST_SCREENED = 8  # paths that screening chooses at most where the number of channels is "auto"
MOST_CHANNELS = 4  # of these paths, how many get a channel, unless the start is "wide"
# Screening misses paths that predict the label only together. A uniform channel looks for them, and the model needs
# the capacity to combine them.
TOGETHER: Values = {
    "model.start": "longer",
    "model.aggregate": "concat",
    "model.activation": "relu",
    "model.encoder": "relu",
}


class MetaPathOptions(BackboneOptions):
    """The keys that GTN and FastGTN share; `preset` picks a whole set of defaults."""

    also_searched: ClassVar[Mapping[str, Range]] = {
        "fit.average": Choice((0.0, 0.9)),
        "fit.filter_learning_rate": Choice((None, 0.02, 0.1)),
    }

    normalizations: ClassVar[tuple[str, ...]]  # values of graph.normalize that are compared, the usual one first

    preset: Preset = "ours"
    path_length: Layers | Literal["auto"] = "auto"
    num_channels: Annotated[Count | Literal["auto"], Choice(("auto", 2, 4))] = "auto"
    start: Annotated[
        Literal["auto", "screened", "first", "wide", "mixed", "longer", "far", "uniform"],
        Choice(("screened", "first", "wide", "mixed", "longer", "far", "uniform")),
    ] = "auto"
    num_layers: Layers
    gamma: Amount | Literal["auto"] = "auto"
    aggregate: Annotated[Aggregation | Literal["auto"], Choice(("concat", "mean"))] = "auto"
    activation: Activation | Literal["auto"] = "auto"
    encoder: Annotated[Encoder | Literal["auto", "scores"], Choice(("linear", "relu", "scores"))] = "auto"
    own: Annotated[Own, Choice(("shared", "separate"))]
    rescale: Annotated[bool, Choice((False, True))]
    bias: bool
    filter_init_std: Amount
    propagation: Literal["auto", "implicit", "unrolled"] = "auto"
    non_local: NonLocalKeys = NonLocalKeys()

    @property
    def summary(self) -> str:
        if self.path_length == "auto" or self.num_channels == "auto":
            return f"{self.label} · paths from screening"
        layers = f" · {counted(self.num_layers, 'layer')}" if self.num_layers > 1 else ""
        return f"{self.label} · path length {self.path_length} · {counted(self.num_channels, 'channel')}{layers}"

    @property
    def num_hops(self) -> int:
        return self.num_layers * self.longest

    @property
    def floats_per_node(self) -> int:
        return self.hidden * self.most_channels

    @property
    def longest(self) -> int:
        """Steps of the longest path that the model may take; what screening looks up to where it is to decide."""
        return LONGEST_PATH if self.path_length == "auto" else self.path_length

    @property
    def most_channels(self) -> int:
        """Channels that the model may have."""
        if self.num_channels != "auto":
            return self.num_channels
        return MOST_SCREENED if self.start == "wide" else MOST_CHANNELS

    @property
    def most_screened(self) -> int:
        """Paths that screening chooses at most."""
        return MOST_SCREENED if self.num_channels == "auto" else self.num_channels

    @property
    def most_started(self) -> int:
        """Channels that may start from a screened path; "mixed" and "longer" leave one of them uniform."""
        most = {"uniform": 0, "far": 0, "first": 1}
        return most.get(self.start, self.most_channels - self.has_uniform_channel)

    @property
    def has_uniform_channel(self) -> bool:
        """Whether one more channel starts with all relations equal."""
        return self.start in ("mixed", "longer")

    def trials(self, num_paths: int, *, num_chosen: int = 0, own_tells: bool = True) -> dict[str, tuple[Any, ...]]:
        starts: tuple[str, ...] = ("screened",)
        starts += ("first",) if num_paths > 1 else ()
        starts += ("wide",) if num_chosen > MOST_CHANNELS and self.num_channels == "auto" else ()
        starts = (*starts, "mixed", "longer") if num_paths else ("uniform",)
        is_open = self.path_length == "auto"  # otherwise a far start would be a uniform one
        gammas = (signature(self.module).parameters["gamma"].default, 0.0)
        return {
            "model.start": (*starts, "far") if is_open else starts,
            "model.gamma": gammas if own_tells else gammas[::-1],
            "model.aggregate": ("mean", "concat"),
            "model.activation": ("relu", "none"),
            "model.encoder": ("linear", "relu", "scores"),
            "fit.consistency": CONSISTENCIES,
            "fit.weight_decay": WEIGHT_DECAYS,
            "fit.epochs": (EPOCHS,),  # more are tried in the end
        }

    def combinations(self) -> tuple[Values, ...]:
        return (TOGETHER, {"fit.epochs": MORE_EPOCHS})

    def tried_with(self, key: str, value: Any) -> dict[str, Any]:
        if (key, value) == ("model.start", "far"):
            return {"graph.empty_rows": "zero"}  # with self-loops, a walk that goes as far takes twice as many hops
        if (key, value) == ("model.start", "longer"):  # it looks for what needs large weights
            return {"fit.consistency": CONSISTENCIES[0], "fit.weight_decay": WEIGHT_DECAYS[0]}
        if (key, value) == ("model.encoder", "scores"):
            return {"model.aggregate": "mean"}  # class scores are only added up
        # the term makes answers sharper and weights larger, which the usual decay does not hold back
        return {"fit.weight_decay": WEIGHT_DECAYS[1]} if key == "fit.consistency" and value else {}

    def arguments(self) -> Values:
        # until trials decide a key, the default of the model holds
        return {key: value for key, value in super().arguments().items() if value != "auto"}

    def classifier(self, features: Features, relations: Sequence[Relation], num_classes: int) -> NodeClassifier:
        if self.encoder != "scores":
            return super().classifier(features, relations, num_classes)
        plain = self.model_copy(update={"encoder": "relu", "activation": "none", "hidden": num_classes})
        return NodeClassifier(plain.build(features, relations, encoder_features=self.hidden), num_classes, direct=True)

    def build(self, features: Features, relations: Sequence[Relation], **others: Any) -> Backbone:
        if self.encoder == "scores":
            raise InputError(
                'with model.encoder = "scores" the model computes class scores and no representations: '
                'set model.encoder to "linear" or "relu".'
            )
        if "auto" in (self.path_length, self.num_channels):
            raise InputError(
                'model.path_length and model.num_channels are "auto", which screening has to decide first: call fit, '
                "or give both as numbers."
            )
        return super().build(features, relations, **others)


# What the paper's search and the authors' program of 2022 have in common, and what each chose.
_PUBLISHED: Values = {
    "features": {"normalize": "none"},
    "model": {
        "path_length": 2,
        "num_channels": 2,
        "start": "uniform",
        "own": "shared",
        "rescale": False,
        "encoder": "linear",
        "hidden": 64,
        "head_dropout": 0.0,
        "aggregate": "concat",
        "activation": "relu",
    },
    "fit": {"epochs": 200, "consistency": 0.0},
}
PAPER: Values = merged(  # learning rate 1e-3 … 1e-6, dropout .1 … .8, 50 … 200 epochs
    _PUBLISHED,
    {
        "graph": {"binarize": False},
        "model": {"dropout": 0.5, "bias": False},
        "fit": {"learning_rate": 0.001, "weight_decay": 0.0},
    },
)
_DECAY = 0.001
AUTHORS: Values = merged(
    _PUBLISHED,
    {
        "graph": {"binarize": True},
        "model": {"dropout": 0.0, "non_local": {"exclude_self": False, "final_relu": True, "init_logit": -1.0}},
        "fit": {
            "learning_rate": 0.02,
            "weight_decay": _DECAY,
            "embedding_weight_decay": _DECAY,
            "filter_weight_decay": _DECAY,
        },
    },
)
