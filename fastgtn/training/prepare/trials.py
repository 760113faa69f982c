"""Keys whose value is "auto": a few short trainings decide them by their validation scores, within a stated time."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.consistency import NUM_VIEWS, nodes_without_labels
from fastgtn.training.fit import train_inputs
from fastgtn.training.prepare.decisions import Trial, outcome

Progress = Callable[[int, int], None]  # trials that are done, of how many
OpenKey = tuple[str, tuple[Any, ...]]
MOST_SEEDS = 2  # of each trial, where they fit into the time
# Measured on one core, per epoch: small operations and Python, and one number that is read along an edge
SECONDS_PER_EPOCH, SECONDS_PER_NUMBER = 3e-3, 3e-10
PASSES = 4  # three for a pass with its gradient, and one for validation
ENTRY_COST = 0.1  # edges that an entry of the features counts like
COPY_COST = 30  # edges that a copy of a node, as one of many moments sees it, counts like
CLEAR_GAIN = 0.25  # a value replaces another one if its score is better by this many standard errors
RARE_GAIN = 0.5  # the same where a few nodes of a rare class decide: the best of several trials is then mostly luck
HOPELESS = 4  # a trial ends after its first seed if that is worse by this many margins


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
    for values in _candidates(choice, keys, trials):
        inputs, config = choice.with_values(values)
        if config in seen:  # such as one channel where there is only one
            continue
        estimate = seeds * estimated_seconds(inputs, task, config)
        if estimate > left:
            continue
        left -= estimate
        seen.append(config)
        begun = time.perf_counter()
        best = next((trial.score for trial in reversed(trials) if trial.kept), None)
        margin = 0.0 if best is None else _margin(best, task)
        hopeless = best - HOPELESS * margin if best is not None and margin else -math.inf
        score = _score(inputs, config, task, seeds, hopeless=hopeless)
        kept = not trials or (score is not None and (best is None or score > best + margin))
        trials.append(Trial(values, score, round(time.perf_counter() - begun, 2), kept))
        if progress is not None:
            progress(len(trials), total)
    return tuple(trials)


def estimated_seconds(inputs: Inputs, task: NodeTask, config: Config) -> float:
    """The processor time of one training on one core, from the edges and feature entries that an epoch reads.

    Where nodes have moments, every moment has copies of the nodes that it sees. Edges are few in comparison, and the
    time goes into the tables of the copies.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    others = nodes_without_labels(inputs, task, config)
    rows = inputs.rows(task.target, torch.cat([task.train.nodes, task.val.nodes, others]).unique())
    width = config.model.floats_per_node * (NUM_VIEWS if len(others) else 1)
    plan = inputs.plan(model, rows)
    copies = plan.features.num_rows if inputs.moments is not None else 0
    numbers = width * (plan.graph.cost + ENTRY_COST * plan.entries + COPY_COST * copies)
    return config.fit.epochs * (SECONDS_PER_EPOCH + SECONDS_PER_NUMBER * PASSES * numbers)


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


def _score(inputs: Inputs, config: Config, task: NodeTask, seeds: int, *, hopeless: float) -> float | None:
    """The best validation score of a training, mean of some seeds; None where it cannot be trained.

    Args:
        hopeless: After a score below this, no further seed is trained.
    """
    scores: list[float] = []
    for seed in range(config.split_seed, config.split_seed + seeds):
        try:
            state = train_inputs(inputs, task, config.for_seed(seed))
        except InputError:  # the loss diverged, or a normalisation does not allow these weights
            return None
        if state.best is None:
            return None
        scores.append(state.best.score)
        if scores[-1] < hopeless:
            break
    return statistics.fmean(scores)


def _margin(score: float, task: NodeTask) -> float:
    """A fraction of the standard error of a share; scores that are not shares have no margin.

    Where a rare class decides the score, only its nodes are counted. That of an R² depends on the fourth moment of the
    numbers: where a few are much larger than most, these few decide it.
    """
    if not 0 <= score <= 1:
        return 0.0
    if task.kind == "number":
        return CLEAR_GAIN * (1 - score) * (_squared_spread(task.val.labels) / len(task.val)) ** 0.5
    count, gain = len(task.val), CLEAR_GAIN
    if task.has_rare_class:
        count, gain = max(1, int(torch.bincount(task.val.labels, minlength=task.num_classes).min())), RARE_GAIN
    return gain * (score * (1 - score) / count) ** 0.5


def _squared_spread(labels: Tensor) -> float:
    """The variance of squared deviations from the mean, in squares of their mean: 2 for normal numbers."""
    squares = (labels.double() - labels.double().mean(0)).square()
    return float((squares.var(0, correction=0) / squares.mean(0).square().clamp(min=1e-300)).max())
