"""The search space: the keys of training and those of the model."""

import json
from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from fastgtn.config import Config, toml
from fastgtn.nn.backbone_options import Range
from fastgtn.nn.meta_path.options import CONSISTENCIES
from fastgtn.options import Choice, Numbers

CONSISTENCY, EPOCHS = "fit.consistency", "fit.epochs"

# The paper searches learning rates of 1e-3 … 1e-6, dropout .1 … .8 and 50 … 200 epochs. With at most 200 epochs a
# rate below 1e-3 hardly changes the weights, so our range starts there. Dropout may also be 0.
# Trials of GTN and FastGTN decide whether nodes without labels teach, so every other model may choose it, too.
FIT: dict[str, Range] = {
    "fit.learning_rate": Numbers(1e-3, 5e-2, log=True),
    "fit.weight_decay": Numbers(1e-5, 1e-2, log=True),
    EPOCHS: Choice((50, 100, 150, 200)),
    "features.normalize": Choice(("none", "row")),
    CONSISTENCY: Choice(CONSISTENCIES),
}


def search_space(config: Config, fixed: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    """The ranges of all keys that are searched, each including the value of `config`.

    Args:
        fixed: Keys that the user has set, such as ``{"model.hidden": 64}``.
    """
    ranges = FIT | config.model.ranges()
    now = start_values(config)
    space = {key: including(values, now[key]) for key, values in ranges.items() if key not in fixed}
    return {key: values for key, values in space.items() if not values.single()}


def start_values(config: Config) -> dict[str, Any]:
    """The values of a config by full key. A number that trials would decide starts with the first value they try."""
    tried = config.model.trials(1)
    numbers = {key for key, values in (FIT | config.model.ranges()).items() if isinstance(values, Numbers)}
    numbers.add(EPOCHS)
    values = toml.flat(config.model_dump())
    return {key: tried[key][0] if value == "auto" and key in numbers else value for key, value in values.items()}


def including(values: Range, value: Any) -> BaseDistribution:
    """The range of one key, extended to include the value; a value off the grid removes the grid.

    Lists become text, because a study cannot store lists.
    """
    if isinstance(values, Choice):
        options = values.values if value in values.values else (*values.values, value)
        return CategoricalDistribution([storable(option) for option in options])
    low, high, step = min(values.low, value), max(values.high, value), values.step
    on_grid = step is not None and low == values.low and abs(value / step - round(value / step)) < 1e-9
    return FloatDistribution(low, high, log=values.log and low > 0, step=step if on_grid else None)


def drawn(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a trial as nested values. Numbers keep three digits, which is enough for a search."""
    return toml.nested({key: _plain(value) for key, value in parameters.items()})


def storable(value: Any) -> Any:
    """A value in the form that a study stores: lists as text."""
    return json.dumps(value) if isinstance(value, tuple | list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.3g}")
    return tuple(json.loads(value)) if isinstance(value, str) and value[:1] == "[" else value
