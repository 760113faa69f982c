"""The keys of a learned link model, and the defaults that links need."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ValidationError

from fastgtn.config import Config
from fastgtn.config.models import options_of
from fastgtn.config.tuned_configs import model_values
from fastgtn.errors import InputError, nearest
from fastgtn.links.learned.decoders import DecoderKind
from fastgtn.links.learned.model import LinkPredictor
from fastgtn.links.metrics import RANKING_METRICS
from fastgtn.nn.backbone_options import BackboneOptions
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.options import Choice, Section, Values, merged
from fastgtn.training.build import Inputs

JOINED = "joined_paths"  # the default model of links, which has no encoders
FIT: Values = {"epochs": 60, "patience": 10, "learning_rate": 0.01, "weight_decay": 1e-5}
# without an activation a score is a sum over pairs of meta-paths whatever the gates, and it is as good
META_PATHS: Values = {"activation": "none", "aggregate": "mean", "dropout": 0.0, "head_dropout": 0.0}
# of the graph, which no trials decide for links; the second is for models that divide by degrees themselves
NORMALIZED: Values = {"normalize": "symmetric", "empty_rows": "zero"}
BY_ROW: Values = {"normalize": "row", "empty_rows": "zero"}


class LinkModelOptions(Section):
    """The keys of the section `[model]` that only link models have.

    Args:
        decoder: How two representations become a score.
        ends: "own" filters for sources and targets, or "shared" ones; "auto" chooses "own" for GTN and FastGTN.
    """

    decoder: Annotated[DecoderKind, Choice(("dot", "distmult", "mlp"))] = "dot"
    ends: Annotated[Literal["auto", "own", "shared"], Choice(("own", "shared"))] = "auto"

    def is_shared(self, config: Config) -> bool:
        """Whether one encoder serves both ends."""
        return self.ends == "shared" or (self.ends == "auto" and not isinstance(config.model, MetaPathOptions))

    def build(self, config: Config, inputs: Inputs) -> LinkPredictor:
        """A new model for a graph, with weights drawn from torch's generator."""
        relations = inputs.raw.relations
        return LinkPredictor.build(
            config.model, inputs.features, relations, decoder=self.decoder, is_shared=self.is_shared(config)
        )


def encoder_config(model: str, values: Values, *, seed: int = 0) -> tuple[Config, LinkModelOptions]:
    """The config of an encoder: the model's own defaults, those of links, and the given values over them.

    Args:
        values: Nested values, such as ``{"model": {"hidden": 32, "decoder": "mlp"}, "fit": {"epochs": 20}}``.
    """
    section = dict(values.get("model", {}))
    own = {key: section.pop(key) for key in LinkModelOptions.model_fields if key in section}
    try:
        options = LinkModelOptions.model_validate(own)
    except ValidationError as error:
        problem = error.errors()[0]
        key, known = str(problem["loc"][0]), {"decoder": ("dot", "distmult", "mlp"), "ends": ("auto", "own", "shared")}
        raise InputError(f"model.{key} cannot be {own[key]!r}; {nearest(str(own[key]), known[key])}") from None
    named = model_values(model)
    defaults = _defaults_of(options_of(named["model"]["name"]))
    given = merged(dict(values), {"model": section, "fit": {"seed": seed}})
    given["model"] = section
    if given["fit"].get("select_by") in RANKING_METRICS:  # the task ranks all targets; no other task has these metrics
        given["fit"]["select_by"] = "auto"
    return Config.of(merged(defaults, named), given), options


def _defaults_of(entry: type[BackboneOptions] | None) -> Values:
    """What links need of a model, over its own defaults."""
    if entry is None or not issubclass(entry, MetaPathOptions):
        return {"fit": FIT}
    divides_itself = entry.normalizations[0] == "none"
    return {"fit": FIT, "model": META_PATHS, "graph": BY_ROW if divides_itself else NORMALIZED}
