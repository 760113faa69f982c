"""The training loop: the steps of an epoch, one validation after them, and the memory of the best epoch.

Epoch e always means the weights after the steps of e epochs, in the history, in the selection and in the checkpoint.
"""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fastgtn.data import NodeTask
from fastgtn.data.metrics import Tally
from fastgtn.errors import InputError
from fastgtn.models import NodeClassifier
from fastgtn.training.config import FitOptions
from fastgtn.training.distributed import ALONE, Team
from fastgtn.training.passes import Passes, Step
from fastgtn.training.propagation import Propagation

Weights = dict[str, Tensor]
Record = dict[str, Any]  # one line of the history: epoch, loss, val_loss, val_micro_f1 …


class DivergedError(InputError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True, eq=False)
class Best:
    """The chosen epoch so far: the best score, of equal scores the lowest validation loss, then the earliest."""

    epoch: int
    score: float
    val_loss: float
    weights: Weights

    def beats(self, other: "Best | None") -> bool:
        return other is None or (self.score, -self.val_loss) > (other.score, -other.val_loss)


@dataclass
class Speed:
    """Where the time of training goes, without validation; batches are made beside the computing."""

    targets: int = 0
    seconds: float = 0.0
    sampling: float = 0.0
    gathering: float = 0.0
    computing: float = 0.0

    def add(self, step: Step, computing: float) -> None:
        self.targets += step.targets
        self.sampling += step.sampling
        self.gathering += step.gathering
        self.computing += computing

    def summary(self) -> dict[str, float]:
        """Targets per second, and which share of all work is sampling, gathering features and computing."""
        work = max(self.sampling + self.gathering + self.computing, 1e-9)
        shares = {name: getattr(self, name) / work for name in ("sampling", "gathering", "computing")}
        rate = self.targets / max(self.seconds, 1e-9)
        return {"targets_per_second": round(rate, 1), **{name: round(share, 4) for name, share in shares.items()}}


@dataclass(eq=False)
class State:
    """Everything that changes in training, and so everything that a checkpoint holds, but for the speed."""

    model: NodeClassifier
    optimizer: torch.optim.Optimizer
    average: NodeClassifier | None
    best: Best | None = None
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    speed: Speed = field(default_factory=Speed)
    propagation: Propagation | None = None  # how logits are computed; not part of a checkpoint

    @staticmethod
    def start(model: NodeClassifier, options: FitOptions) -> "State":
        """Before the first step."""
        return State(model, build_optimizer(model, options), deepcopy(model) if options.average else None)

    @property
    def epoch(self) -> int:
        return len(self.history)


def optimise(
    state: State, passes: Passes, task: NodeTask, options: FitOptions, after_epoch: Callable[[State], None],
    team: Team = ALONE,
) -> None:  # fmt: skip
    """Take steps until the last epoch, or until the validation has not improved for `patience` epochs."""
    forward = team.parallel(state.model)
    while state.epoch < options.epochs and not _is_out_of_patience(state, options):
        loss = _train_epoch(state, passes, forward, task, options, team)
        _validate(state, loss, passes, task, options, team)
        after_epoch(state)


def _train_epoch(
    state: State, passes: Passes, forward: nn.Module, task: NodeTask, options: FitOptions, team: Team
) -> float:
    """All steps of an epoch; returns the mean loss of the targets."""
    state.model.train()
    team.reseed(options.seed, state.epoch)
    total = weight = 0.0
    started = time.perf_counter()
    with closing(passes.steps(state.epoch)) as steps:
        for number, step in enumerate(steps, state.epoch * passes.num_steps):
            begun = time.perf_counter()
            total += step.weight * _step(state, step, forward, task, options, team, number)
            weight += step.weight
            state.speed.add(step, time.perf_counter() - begun)
    state.speed.seconds += time.perf_counter() - started
    return total / weight


def build_optimizer(model: NodeClassifier, options: FitOptions) -> torch.optim.Optimizer:
    """Adam; the filters are a group of their own."""
    filters = [f.logits for f in model.backbone.hop_filters() if f.logits.requires_grad]
    own = {id(parameter) for parameter in filters}
    rest = [p for p in model.parameters() if id(p) not in own and p.requires_grad]
    rate = options.filter_learning_rate
    groups: list[dict[str, Any]] = [
        {"params": rest},
        {
            "params": filters,
            "lr": options.learning_rate if rate is None else rate,
            # none by default: the gradient of a logit is so small that a usual decay would decide its sign
            "weight_decay": options.filter_weight_decay,
        },
    ]
    return torch.optim.Adam(groups, lr=options.learning_rate, weight_decay=options.weight_decay, fused=True)


def _step(
    state: State, step: Step, forward: nn.Module, task: NodeTask, options: FitOptions, team: Team, number: int
) -> float:
    loss = task.loss(step.logits(forward), step.labels) * step.share
    value = team.sum(float(loss.detach()))
    _require_finite(value, state.epoch + 1, "loss", options)
    state.optimizer.zero_grad()
    (loss * team.size).backward()  # several processes take the mean of their gradients, where the sum is wanted
    if options.clip:
        nn.utils.clip_grad_norm_(state.model.parameters(), options.clip)
    state.optimizer.step()
    if state.average is not None:
        # early steps are far from the end: a young average forgets faster
        decay = min(options.average, (1 + number) / (10 + number))
        with torch.no_grad():
            for mean, now in zip(state.average.parameters(), state.model.parameters(), strict=True):
                mean.lerp_(now, 1 - decay)
    return value


def _validate(state: State, loss: float, passes: Passes, task: NodeTask, options: FitOptions, team: Team) -> None:
    epoch = state.epoch + 1
    record: Record = {"epoch": epoch, "loss": loss}
    chosen = state.average or state.model
    if len(task.val):
        val_loss, scores = _val_scores(passes.val(chosen), passes.val_labels, task, team)
        _require_finite(val_loss, epoch, "validation loss", options)
        record |= {"val_loss": val_loss, **{f"val_{name}": value for name, value in scores.items()}}
    state.history.append(record)
    candidate = Best(epoch, _score(record, task, options), record.get("val_loss", 0.0), chosen.state_dict())
    if candidate.beats(state.best):
        weights = {name: tensor.detach().clone() for name, tensor in candidate.weights.items()}
        state.best = Best(epoch, candidate.score, candidate.val_loss, weights)


def _val_scores(blocks: Iterable[Tensor], labels: Tensor, task: NodeTask, team: Team) -> tuple[float, dict[str, float]]:
    """Loss and metrics over the validation nodes of all processes."""
    tally, total, weight = Tally.empty(task.kind, task.num_classes), 0.0, 0.0
    for logits in blocks:
        part = labels[tally.rows : tally.rows + len(logits)]
        with torch.no_grad():
            tally += task.tally(logits, part)
            total += float(task.loss(logits, part)) * task.loss_weight(part)
        weight += task.loss_weight(part)
    tallies = team.gather(tally)
    return team.sum(total) / team.sum(weight), sum(tallies[1:], tallies[0]).scores()


def selection_metric(task: NodeTask, options: FitOptions) -> str:
    """By which validation metric epochs are chosen; refused where the task has no such metric."""
    name = task.selection_metric if options.select_by == "auto" else options.select_by
    if name == "last":
        return name
    if not len(task.val):
        raise InputError(
            "the validation split is empty, so no epoch can be chosen by it: label some nodes for validation, "
            'or set fit.select_by = "last".'
        )
    if name in ("ndcg", "mrr") and task.kind != "ranking":
        raise InputError(f'fit.select_by = "{name}" needs a ranking task, but this one is "{task.kind}".')
    return name


def _score(record: Record, task: NodeTask, options: FitOptions) -> float:
    name = selection_metric(task, options)
    if name == "last":
        return float(record["epoch"])
    return -float(record["val_loss"]) if name == "loss" else float(record[f"val_{name}"])


def _is_out_of_patience(state: State, options: FitOptions) -> bool:
    return bool(options.patience) and state.best is not None and state.epoch - state.best.epoch >= options.patience


def _require_finite(value: float, epoch: int, name: str, options: FitOptions) -> None:
    if not math.isfinite(value):
        raise DivergedError(
            f"the {name} became {value} in epoch {epoch}: lower fit.learning_rate (now {options.learning_rate}) "
            "or limit the gradient with fit.clip."
        )
