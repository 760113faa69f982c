"""Keys whose value is "auto": a few short trainings decide them by their validation scores, within a stated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.training.build import Inputs
from fastgtn.training.prepare.decisions import Trial, outcome
from fastgtn.training.prepare.setting import Setting, estimated_seconds

Progress = Callable[[int, int], None]  # trials that are done, of how many
MOST_SEEDS = 2  # of each trial, where they fit into the time


class Open(Protocol):
    """A graph and a config with open keys."""

    def first_values(self) -> dict[str, Any]:
        """Each open key, in full, with its usual value."""

    def candidates(self, *, thorough: bool) -> list[dict[str, Any]]:
        """Values that are tried on top of the best so far, in this order.

        A value may come again, so that it is compared once more after other keys were decided.

        Args:
            thorough: With those that are tried only where the time suffices for all of them.
        """

    def with_values(self, values: Mapping[str, Any]) -> tuple[Inputs, Config]:
        """What is trained with these values."""


def decide(choice: Open, task: NodeTask, *, progress: Progress | None = None) -> tuple[Trial, ...]:
    """Try the first value of each open key, then one candidate after the other; the best so far stays.

    Test labels play no part, and neither does the seed of the run: all seeds share the outcome. Which trials fit into
    `fit.trial_seconds` is estimated from the size of the graph, so that a busy machine decides the same.
    """
    first, candidates = choice.first_values(), choice.candidates(thorough=True)
    total = _count(first, candidates)
    if total == 1:  # nothing to compare
        return _untried(first)
    inputs, config = choice.with_values(first)
    each, left = max(estimated_seconds(inputs, task, config), 1e-3), config.fit.trial_seconds
    if MOST_SEEDS * total * each > left:
        candidates = choice.candidates(thorough=False)
        total = _count(first, candidates)
    seeds = min(MOST_SEEDS, max(1, int(left / each / total)))
    if 2 * each > left or not len(task.val):
        return _untried(first)
    trials: list[Trial] = []
    seen: list[Config] = []
    best: Setting | None = None
    for values in _settings(first, candidates, trials):
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


def _count(first: dict[str, Any], candidates: list[dict[str, Any]]) -> int:
    """How many settings there are at most, with the first one."""
    return 1 + sum(first | values != first for values in candidates)


def _settings(first: dict[str, Any], candidates: list[dict[str, Any]], trials: list[Trial]) -> Iterator[dict[str, Any]]:
    yield first
    for values in candidates:
        yield outcome(tuple(trials)) | values
