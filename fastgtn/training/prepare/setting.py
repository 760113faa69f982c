"""A setting that a trial trains: its validation scores over seeds, and when it is better than another one."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.consistency import NUM_VIEWS, nodes_without_labels
from fastgtn.training.fit import train_inputs
from fastgtn.training.loop import State
from fastgtn.training.prepare.decisions import Trial

SURE_SEEDS = 6  # of a trial that would be adopted and of the one that it replaces, where the time is left
# Measured on one core, per epoch: small operations and Python, and one number that is read along an edge
SECONDS_PER_EPOCH, SECONDS_PER_NUMBER = 3e-3, 3e-10
PASSES = 4  # three for a pass with its gradient, and one for validation
ENTRY_COST = 0.1  # edges that an entry of the features counts like
COPY_COST = 30  # edges that a copy of a node, as one of many moments sees it, counts like
CLEAR_GAIN = 0.25  # a value replaces another one if its score is better by this many standard errors
RARE_GAIN = 0.5  # the same where a few nodes of a rare class decide: the best of several trials is then mostly luck
HOPELESS = 4  # a trial ends after its first seed if that is worse by this many margins
OBVIOUS = 8  # a setting that is better by this many margins needs no further seeds


@dataclass(eq=False)
class Setting:
    """Values that are tried, and the best validation scores of its trainings, one for each seed.

    Args:
        place: The position of its trial in the list of all trials.
        failed: Whether a training could not be finished.
    """

    values: dict[str, Any]
    inputs: Inputs
    config: Config
    task: NodeTask
    place: int = 0
    scores: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failed: bool = False

    @cached_property
    def estimate(self) -> float:
        """The processor time of one training."""
        return max(estimated_seconds(self.inputs, self.task, self.config), 1e-3)

    @property
    def score(self) -> float | None:
        """The mean over seeds; None where the setting cannot be trained."""
        return None if self.failed or not self.scores else statistics.fmean(self.scores)

    @property
    def hopeless(self) -> float:
        """Another setting whose first score is below this is not trained again."""
        gap = 0.0 if self.score is None else margin(self.score, self.task)
        return self.score - HOPELESS * gap if self.score is not None and gap else -math.inf

    def train(self, seeds: int, *, against: Setting | None = None) -> None:
        """Train until this many seeds are trained, or until a score is hopeless against the best setting so far."""
        hopeless = -math.inf if against is None else against.hopeless
        begun = time.perf_counter()
        while len(self.scores) < seeds and not self.failed and min(self.scores, default=math.inf) >= hopeless:
            seeded = self.config.for_seed(self.config.split_seed + len(self.scores))
            try:
                state: State | None = train_inputs(self.inputs, self.task, seeded)
            except InputError:  # the loss diverged, or a normalisation does not allow these weights
                state = None
            if state is None or state.best is None:
                self.failed = True
            else:
                self.scores.append(state.best.score)
        self.seconds += time.perf_counter() - begun

    def is_better_than(self, best: Setting | None, *, margins: int = 1) -> bool:
        """Whether the score is clearly better; anything is better than a setting that cannot be trained."""
        if best is None or self.score is None:
            return False
        return best.score is None or self.score > best.score + margins * margin(best.score, self.task)

    def confirm(self, best: Setting, spare: float) -> float:
        """Train this setting and the one that it would replace with more seeds; returns the estimated time.

        Of many trials, one that is better by luck is adopted easily if two seeds decide. Further seeds end as soon as
        they show that it was luck, and where the difference is obvious there are none.
        """
        used = 0.0
        for seeds in range(len(self.scores) + 1, SURE_SEEDS + 1):
            if not self.is_better_than(best) or (
                margin(best.score or 0.0, self.task) and self.is_better_than(best, margins=OBVIOUS)
            ):
                break
            cost = self.estimate + (best.estimate if len(best.scores) < seeds else 0.0)
            if best.failed or used + cost > spare:
                break
            used += cost
            for one in (self, best):
                one.train(seeds)
        return used

    def trial(self, *, kept: bool) -> Trial:
        return Trial(self.values, self.score, round(self.seconds, 2), kept)


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
    return config.fit.most_epochs * (SECONDS_PER_EPOCH + SECONDS_PER_NUMBER * PASSES * numbers)


def margin(score: float, task: NodeTask) -> float:
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
