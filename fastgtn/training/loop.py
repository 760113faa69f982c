"""The training loop: one step and one validation per epoch, and the memory of the best epoch.

Epoch e always means the weights after e steps, in the history, in the selection and in the checkpoint.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.models import NodeClassifier
from fastgtn.training.build import Inputs, Plan
from fastgtn.training.config import FitOptions

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


@dataclass(eq=False)
class State:
    """Everything that changes in training, and so everything that a checkpoint holds."""

    model: NodeClassifier
    optimizer: torch.optim.Optimizer
    average: NodeClassifier | None
    best: Best | None = None
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0

    @staticmethod
    def start(model: NodeClassifier, options: FitOptions) -> "State":
        """Before the first step."""
        return State(model, build_optimizer(model, options), deepcopy(model) if options.average else None)

    @property
    def epoch(self) -> int:
        return len(self.history)


@dataclass(frozen=True, eq=False)
class Passes:
    """Which rows are computed for a step and for a validation."""

    train: Plan
    val: Plan | None  # None: the rows of validation follow those of training in the same pass
    num_train: int


def plan_passes(inputs: Inputs, task: NodeTask, model: NodeClassifier, options: FitOptions) -> Passes:
    """Share one pass between training and validation where that is exact and cheaper.

    Without dropout and averaging, the pass that makes the next step has the logits of the validation rows
    as well. Its gradient costs about two passes more, also for rows that have none.
    """
    train, val = (inputs.rows(task.target, split.nodes) for split in (task.train, task.val))
    apart = Passes(inputs.plan(model, train), inputs.plan(model, val), len(train))
    if options.average or model.dropout or model.backbone.dropout:
        return apart
    joint = Passes(inputs.plan(model, torch.cat([train, val])), None, len(train))
    assert apart.val is not None
    return joint if 3 * joint.train.cost <= 3 * apart.train.cost + apart.val.cost else apart


def optimise(
    state: State, passes: Passes, task: NodeTask, options: FitOptions, after_epoch: Callable[[State], None]
) -> None:
    """Take steps until the last epoch, or until the validation has not improved for `patience` epochs."""
    shared: Tensor | None = None
    while state.epoch < options.epochs and not _is_out_of_patience(state, options):
        state.model.train()
        logits = passes.train.logits(state.model) if shared is None else shared
        loss = _step(state, task.loss(logits[: passes.num_train], task.train.labels), options)
        if passes.val is None:
            shared = passes.train.logits(state.model)
        _validate(state, loss, _val_logits(state, passes, shared), task, options)
        after_epoch(state)


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


def _step(state: State, loss: Tensor, options: FitOptions) -> float:
    value = float(loss.detach())
    _require_finite(value, state.epoch + 1, "loss", options)
    state.optimizer.zero_grad()
    loss.backward()
    if options.clip:
        nn.utils.clip_grad_norm_(state.model.parameters(), options.clip)
    state.optimizer.step()
    if state.average is not None:
        # early epochs are far from the end: a young average forgets faster
        decay = min(options.average, (1 + state.epoch) / (10 + state.epoch))
        with torch.no_grad():
            for mean, now in zip(state.average.parameters(), state.model.parameters(), strict=True):
                mean.lerp_(now, 1 - decay)
    return value


@torch.no_grad()
def _val_logits(state: State, passes: Passes, shared: Tensor | None) -> Tensor:
    if passes.val is None:
        assert shared is not None
        return shared.detach()[passes.num_train :]
    model = state.average or state.model
    model.eval()
    return passes.val.logits(model)


@torch.no_grad()
def _validate(state: State, loss: float, logits: Tensor, task: NodeTask, options: FitOptions) -> None:
    epoch = state.epoch + 1
    record: Record = {"epoch": epoch, "loss": loss}
    if len(task.val):
        record["val_loss"] = float(task.loss(logits, task.val.labels))
        _require_finite(record["val_loss"], epoch, "validation loss", options)
        record |= {f"val_{name}": value for name, value in task.metrics(logits, task.val.labels).items()}
    state.history.append(record)
    chosen = state.average or state.model
    candidate = Best(epoch, _score(record, task, options), record.get("val_loss", 0.0), chosen.state_dict())
    if candidate.beats(state.best):
        weights = {name: tensor.detach().clone() for name, tensor in candidate.weights.items()}
        state.best = Best(epoch, candidate.score, candidate.val_loss, weights)


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
