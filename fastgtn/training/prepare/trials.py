"""Keys whose value is "auto": a few short trainings decide them by their validation scores, within a stated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.training.build import Inputs
from fastgtn.training.prepare.decisions import Trial, outcome
from fastgtn.training.prepare.setting import Setting, estimated_seconds

Progress = Callable[[int, int], None]  # trials that are done, of how many
OpenKey = tuple[str, tuple[Any, ...]]
MOST_SEEDS = 2  # of each trial, where they fit into the time


class Open(Protocol):
    """A graph and a config with open keys."""

    def open_keys(self) -> list[OpenKey]:
        """The full keys to decide in their order, and the values of each, the usual one first.

        A key may come again, so that its values are compared once more after others were decided.
        """

    def tried_with(self, key: str, value: Any) -> dict[str, Any]:
        """Values of other open keys that a trial of this value also takes."""

    def combinations(self) -> list[dict[str, Any]]:
        """Values of several open keys that are tried together in the end."""

    def with_values(self, values: Mapping[str, Any]) -> tuple[Inputs, Config]:
        """What is trained with these values."""


def decide(choice: Open, task: NodeTask, *, progress: Progress | None = None) -> tuple[Trial, ...]:
    """Try the values of each open key in turn, from the first of each, then some combinations; the best so far stays.

    Test labels play no part, and neither does the seed of the run: all seeds share the outcome. Which trials fit into
    `fit.trial_seconds` is estimated from the size of the graph, so that a busy machine decides the same.
    """
    keys = choice.open_keys()
    first = _first_values(keys)
    total = 1 + sum(len(values) - 1 for _, values in keys) + len(choice.combinations())
    if total == 1:  # nothing to compare
        return _untried(first)
    inputs, config = choice.with_values(first)
    each, left = max(estimated_seconds(inputs, task, config), 1e-3), config.fit.trial_seconds
    seeds = min(MOST_SEEDS, max(1, int(left / each / total)))
    if 2 * each > left or not len(task.val):
        return _untried(first)
    trials: list[Trial] = []
    seen: list[Config] = []
    best: Setting | None = None
    for values in _candidates(choice, keys, trials):
        setting = Setting(values, *choice.with_values(values), task)
        if setting.config in seen:  # such as one channel where there is only one
            continue
        estimate = seeds * setting.estimate
        if estimate > left:
            continue
        left -= estimate
        seen.append(setting.config)
        setting.train(seeds, against=best)
        kept = setting.is_better_than(best)
        if kept and best is not None:
            left -= setting.confirm(best, left - seeds * each * (total - len(seen)))
            trials[best.place] = best.trial(kept=True)
            kept = setting.is_better_than(best)
        if kept or best is None:
            best = setting
            best.place = len(trials)
        trials.append(setting.trial(kept=best is setting))
        if progress is not None:
            progress(len(trials), total)
    return tuple(trials)


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The config with some full keys changed."""
    for key, value in values.items():
        section, name = key.split(".")
        changed = getattr(config, section).model_copy(update={name: value})
        config = config.model_copy(update={section: changed})
    return config


def _untried(values: dict[str, Any]) -> tuple[Trial, ...]:
    """The first values, taken without a training; nothing where no key is open."""
    return (Trial(values, None, 0.0, True),) if values else ()


def _first_values(keys: Sequence[OpenKey]) -> dict[str, Any]:
    return {key: values[0] for key, values in keys}


def _candidates(choice: Open, keys: Sequence[OpenKey], trials: list[Trial]) -> Iterator[dict[str, Any]]:
    yield _first_values(keys)
    for key, values in keys:
        for value in values:
            yield outcome(tuple(trials)) | choice.tried_with(key, value) | {key: value}
    for together in choice.combinations():
        yield outcome(tuple(trials)) | together
