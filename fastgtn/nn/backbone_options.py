"""The entry of a model: its keys, title, search ranges, required settings and size.

One class per model, in the model's own file. Everything else that the library knows about models is derived from these
entries: the section `[model]` of a config, names and titles, presets, the search space, the estimate of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args

from fastgtn.nn.entries import register
from fastgtn.options import Choice, Count, Layers, Numbers, Preset, Section, Share, Values

if TYPE_CHECKING:
    from fastgtn.nn.backbone import Backbone
    from fastgtn.nn.classifier import NodeClassifier
    from fastgtn.nn.inputs.features import Features
    from fastgtn.relations import Relation

Range = Numbers | Choice
Options = TypeVar("Options", bound="BackboneOptions")


class BackboneOptions(Section):
    """What all models have. Keys without a default here take the one in the signature of the model.

    Attributes:
        module: The model itself.
        title: The displayed name.
        reads_features: Whether it reads features. Otherwise all nodes have embeddings.
        settings: Defaults of the model outside its section. Most models weight and
            normalise edges themselves, so they get the graph without normalisation.
        presets: More such values, and values of the section itself, for each preset that the model knows.
        also_searched: Search ranges of keys outside the section, by full key.
        variants: For names other than that of the model: its title and values of the section. Literals only, since
            the command line reads them from the source.
        tried_with_normalizations: Values of other keys, by full key, that trials combine with each normalisation
            when normalisations are compared again after the start.
    """

    module: ClassVar[type[Backbone]]
    title: ClassVar[str]
    reads_features: ClassVar[bool] = True
    settings: ClassVar[Values] = {
        "graph": {"normalize": "none", "identity": False},
        "fit": {"epochs": 150, "patience": 30, "learning_rate": 0.005, "weight_decay": 0.0005},
    }
    presets: ClassVar[Mapping[Preset, Values]] = {}
    also_searched: ClassVar[Mapping[str, Range]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    tried_with_normalizations: ClassVar[tuple[Values, ...]] = ()

    name: str
    hidden: Annotated[Count, Choice((64, 128))] = 64
    num_layers: Annotated[Layers, Choice((1, 2, 3))]
    dropout: Annotated[Share, Numbers(0.0, 0.8, step=0.1)]
    head_dropout: Annotated[Share, Numbers(0.0, 0.8, step=0.1)]

    @property
    def label(self) -> str:
        """The name of the model and of its config files."""
        return self.name

    @property
    def summary(self) -> str:
        """A short description of the model."""
        return f"{self.label} · {counted(self.num_layers, 'layer')}"

    @property
    def num_hops(self) -> int:
        """Distance to the farthest node that affects a node along edges, as in the built model."""
        return self.num_layers

    @property
    def num_tables(self) -> int:
        """The number of tables of hidden features that a pass with gradients keeps."""
        return max(self.num_hops, self.num_layers)

    @property
    def floats_per_node(self) -> int:
        """The number of values per node in one table of hidden features."""
        return self.hidden

    @property
    def floats_per_edge(self) -> int:
        """The number of values per edge that a pass with gradients keeps."""
        return 0

    def ranges(self) -> dict[str, Range]:
        """The search ranges of `fastgtn tune` for this model, by full key."""
        return field_ranges(type(self), "model.") | dict(self.also_searched)

    def trials(
        self,
        num_paths: int,  # noqa: ARG002
        *,
        num_chosen: int = 0,  # noqa: ARG002
        own_tells: bool = True,  # noqa: ARG002
    ) -> dict[str, tuple[Any, ...]]:
        """By full key: the values that are tried where the config says "auto", the most likely one first.

        Args:
            num_paths: How many meta-paths screening has chosen; 1 if it has chosen only a node's own features.
            num_chosen: The same, with a node's own features counted as a path.
            own_tells: Whether a node's own features predict its label better than chance.
        """
        return {}

    def combinations(self) -> tuple[Values, ...]:
        """Values of several keys that are tried together in the end, by full key."""
        return ()

    def tried_with(self, key: str, value: Any) -> dict[str, Any]:  # noqa: ARG002
        """Values of other open keys that a trial of this value also takes, by full key."""
        return {}

    def arguments(self) -> Values:
        """The keyword arguments of the model: its parameters that are keys of this section."""
        known = type(self).model_fields.keys() - {"hidden"}
        return {name: getattr(self, name) for name in signature(self.module).parameters if name in known}

    def classifier(self, features: Features, relations: Sequence[Relation], num_classes: int) -> NodeClassifier:
        """A new model that computes class scores, with weights drawn from torch's generator."""
        from fastgtn.nn.classifier import NodeClassifier  # names and titles of models are read without torch

        return NodeClassifier(self.build(features, relations), num_classes, dropout=self.head_dropout)

    def build(self, features: Features, relations: Sequence[Relation], **others: Any) -> Backbone:
        """A new model that computes representations of features and relations like these.

        Args:
            others: Arguments of the model that are not keys of this section.
        """
        places: tuple[Any, ...] = (features, self.hidden)
        if "relations" in signature(self.module).parameters:
            places += (relations,)
        return self.module(*places, **self.arguments(), **others)


def describes(module: type[Backbone], title: str) -> Callable[[type[Options]], type[Options]]:
    """Register a class of options as the entry of a model, and take defaults from the signature of the model."""

    def entry(options: type[Options]) -> type[Options]:
        (name,) = get_args(options.model_fields["name"].annotation)
        options.module, options.title = module, title
        defaults = {p.name: p.default for p in signature(module).parameters.values() if p.default is not p.empty}
        defaults |= {"head_dropout": module.head_dropout}
        for key, field in options.model_fields.items():
            if field.is_required() and key in defaults:
                field.default = defaults[key]
        register(name, options)
        return options

    return entry


def field_ranges(section: type[Section], prefix: str) -> dict[str, Range]:
    """The ranges in the annotations of a section."""
    return {
        prefix + name: found
        for name, field in section.model_fields.items()
        for found in field.metadata
        if isinstance(found, Numbers | Choice)
    }


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number > 1)}"
