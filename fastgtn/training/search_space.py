"""What is searched for each model: one table of keys and their ranges."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from fastgtn.training import toml
from fastgtn.training.config import Config
from fastgtn.training.model_options import options_by_name


@dataclass(frozen=True)
class Numbers:
    """Any number between two, or those on a grid of `step`."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def including(self, value: float) -> FloatDistribution:
        """The range, widened where the value lies outside of it; off the grid, the grid is given up."""
        low, high = min(self.low, value), max(self.high, value)
        on_grid = self.step is not None and low == self.low and abs(value / self.step - round(value / self.step)) < 1e-9
        return FloatDistribution(low, high, log=self.log and low > 0, step=self.step if on_grid else None)


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def including(self, value: Any) -> CategoricalDistribution:
        """The values, and this one; lists as text, which is what a study can store."""
        values = self.values if value in self.values else (*self.values, value)
        return CategoricalDistribution([storable(value) for value in values])


Range = Numbers | Choice

# The paper searches learning rates of 1e-3 … 1e-6, dropout .1 … .8 and 50 … 200 epochs. With at most 200 epochs a
# rate below 1e-3 hardly moves the weights, so the range goes up from there instead; no dropout is allowed as well.
FIT: dict[str, Range] = {
    "fit.learning_rate": Numbers(1e-3, 5e-2, log=True),
    "fit.weight_decay": Numbers(1e-5, 1e-2, log=True),
    "fit.epochs": Choice((50, 100, 150, 200)),
    "features.normalize": Choice(("none", "row")),
}
# Of these a model has what its options have.
MODEL: dict[str, Range] = {
    "hidden": Choice((64, 128)),
    "dropout": Numbers(0.0, 0.8, step=0.1),
    "head_dropout": Numbers(0.0, 0.8, step=0.1),
    "num_layers": Choice((1, 2, 3)),
    "encoder": Choice(("linear", "relu")),
    "residual": Choice((False, True)),
    "heads": Choice((2, 4, 8)),
    "attention_dropout": Numbers(0.0, 0.8, step=0.2),
    "jump": Choice(("cat", "max")),
    "powers": Choice(((0, 1), (0, 1, 2), (0, 1, 2, 3))),
    "alpha": Numbers(0.1, 0.7, step=0.1),
    "theta": Choice((0.5, 1.0, 1.5)),
    "shared_weights": Choice((True, False)),
    "num_bases": Choice((None, 2, 4)),
}
# What single models have of their own, or otherwise.
OWN: dict[str, dict[str, Range]] = {
    "node2vec": {
        "num_layers": Choice((1,)),
        "features.normalize": Choice(("none",)),
        "walk_length": Choice((10, 20, 40)),
        "window": Choice((3, 5, 10)),
        "p": Choice((0.25, 1.0, 4.0)),
        "q": Choice((0.25, 1.0, 4.0)),
    },
    "han": {"num_layers": Choice((1, 2))},
    "jk_net": {"num_layers": Choice((2, 3, 4))},
    "gcnii": {"num_layers": Choice((2, 4, 8, 16))},
    "gtn": {
        "num_layers": Choice((1,)),
        "path_length": Choice((2, 3, 4)),
        "num_channels": Choice((2, 4)),
        "gamma": Numbers(0.0, 2.0, step=0.1),
        "aggregate": Choice(("concat", "mean")),
        "fit.average": Choice((0.0, 0.9)),
        "fit.filter_learning_rate": Choice((None, 0.02, 0.1)),
    },
    "fast_gtn": {
        "num_layers": Choice((1, 2)),
        "path_length": Choice((1, 2, 3, 4)),
        "num_channels": Choice((2, 4)),
        "gamma": Numbers(0.0, 1.0, step=0.1),
        "aggregate": Choice(("concat", "mean")),
        "fit.average": Choice((0.0, 0.9)),
        "fit.filter_learning_rate": Choice((None, 0.02, 0.1)),
        "graph.normalize": Choice(("row", "symmetric", "none")),
        "graph.empty_rows": Choice(("self", "zero")),
    },
    "fast_gtn_non_local": {
        "model.non_local.neighbors": Choice((3, 5, 10)),
        "model.non_local.exclude_self": Choice((False, True)),
        "model.non_local.init_logit": Choice((-2.0, -1.0, 0.0)),
    },
}


def search_space(config: Config, fixed: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    """The ranges of all keys that are searched, each including the value of `config`.

    Args:
        fixed: Keys that the user has set, such as ``{"model.hidden": 64}``.
    """
    name = config.model.name
    known = options_by_name()[name].model_fields
    ranges = dict(FIT)
    own = OWN.get(name, {}) | OWN.get(config.model.label, {})
    for key, values in (MODEL | own).items():
        if "." in key:
            ranges[key] = values
        elif key in known:
            ranges[f"model.{key}"] = values
    now = toml.flat(config.model_dump())
    space = {key: values.including(now[key]) for key, values in ranges.items() if key not in fixed}
    return {key: values for key, values in space.items() if not values.single()}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """From full keys to nested values; drawn numbers keep three digits, which is all that a search can tell apart."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        *sections, last = key.split(".")
        inner = result
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = _plain(value)
    return result


def storable(value: Any) -> Any:
    """A value as a study keeps it: lists as text."""
    return json.dumps(value) if isinstance(value, tuple | list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.3g}")
    return tuple(json.loads(value)) if isinstance(value, str) and value[:1] == "[" else value
