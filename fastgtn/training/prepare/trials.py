"""Keys whose value is "auto": a few short trainings decide them by their validation scores, within a stated time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from fastgtn.config import Config
from fastgtn.config.toml import flat
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.fit import train_inputs
from fastgtn.training.prepare.decisions import Trial, outcome

Progress = Callable[[int, int], None]  # trials that are done, of how many
Complete = Callable[[Config], Config]
OPERATIONS, OPERATIONS_PER_SECOND = 4, 8e9  # per value that an epoch reads and column, forward and backward
CLEAR_GAIN = 0.25  # a value replaces another one if its score is better by this many standard errors


def decide(
    inputs: Inputs, task: NodeTask, config: Config, complete: Complete, *, progress: Progress | None = None
) -> tuple[Trial, ...]:
    """Try the values of each open key in turn, from the first of each; the best so far stays.

    Test labels play no part, and neither does the seed of the run: all seeds share the outcome. Which trials fit into
    `fit.trial_seconds` is estimated from the size of the graph, so that a busy machine decides the same.

    Args:
        complete: Fills in the numbers of a config that screening decides.
    """
    keys = open_keys(config, inputs)
    first = {key: values[0] for key, values in keys.items()}
    total = 1 + sum(len(values) - 1 for values in keys.values())
    each = estimated_seconds(inputs, task, complete(with_values(config, first)))
    affordable = min(total, int(config.fit.trial_seconds / max(each, 1e-3)))
    if affordable < 2 or not len(task.val):
        return (Trial(first, None, 0.0, True),) if first else ()
    trials: list[Trial] = []
    for values in islice(_candidates(keys, trials), affordable):
        begun = time.perf_counter()
        score = _score(inputs, task, complete(with_values(config, values)))
        best = next((trial.score for trial in reversed(trials) if trial.kept), None)
        kept = not trials or (score is not None and (best is None or score > best + _margin(best, task)))
        trials.append(Trial(values, score, round(time.perf_counter() - begun, 2), kept))
        if progress is not None:
            progress(len(trials), affordable)
    return tuple(trials)


def estimated_seconds(inputs: Inputs, task: NodeTask, config: Config) -> float:
    """The time of one training on one core, from the edges and feature entries that an epoch reads."""
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    rows = inputs.rows(task.target, torch.cat([task.train.nodes, task.val.nodes]))
    width = config.model.floats_per_node
    return config.fit.epochs * width * inputs.plan(model, rows).cost * OPERATIONS / OPERATIONS_PER_SECOND


def open_keys(config: Config, inputs: Inputs) -> dict[str, tuple[Any, ...]]:
    """The full keys with the value "auto" that trials decide, and the values to try."""
    now = flat(config.model_dump())
    num_chosen = 0 if inputs.screening is None else len(inputs.screening.chosen)
    tried = config.model.trials(num_chosen)
    if inputs.is_timed and "graph.normalize" in tried:
        tried["graph.normalize"] = tried["graph.normalize"][:1]  # others divide by what comes later than a moment
    return {key: values for key, values in tried.items() if now.get(key) == "auto"}


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The config with some full keys changed."""
    for key, value in values.items():
        section, name = key.split(".")
        changed = getattr(config, section).model_copy(update={name: value})
        config = config.model_copy(update={section: changed})
    return config


def _candidates(keys: Mapping[str, tuple[Any, ...]], trials: list[Trial]) -> Iterator[dict[str, Any]]:
    yield {key: values[0] for key, values in keys.items()}
    for key, values in keys.items():
        for value in values[1:]:
            yield outcome(tuple(trials)) | {key: value}


def _score(inputs: Inputs, task: NodeTask, config: Config) -> float | None:
    """The best validation score of one training; None where it cannot be trained."""
    try:
        state = train_inputs(replace(inputs, options=config.graph), task, config.for_seed(config.split_seed))
    except InputError:  # the loss diverged, or a normalisation does not allow these weights
        return None
    return None if state.best is None else state.best.score


def _margin(score: float, task: NodeTask) -> float:
    """A fraction of the standard error of a share; scores that are not shares have no margin."""
    return CLEAR_GAIN * (score * (1 - score) / len(task.val)) ** 0.5 if 0 <= score <= 1 else 0.0
