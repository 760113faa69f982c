"""The training loop: the steps of an epoch, the validation after them, and the best epoch so far.

Epoch e always refers to the weights after e epochs, in the history, the selection and the checkpoint.
"""

import math
import time
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fastgtn.config import FitOptions
from fastgtn.data import NodeTask
from fastgtn.data.metrics import named
from fastgtn.data.task_interface import Task
from fastgtn.errors import InputError
from fastgtn.nn.classifier import Predictor
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.training.consistency import NUM_VIEWS, disagreement, ramp
from fastgtn.training.propagation import Propagation
from fastgtn.training.steps import Passes, Step
from fastgtn.training.team import ALONE, Team

Weights = dict[str, Tensor]
Record = dict[str, Any]  # one line of the history: epoch, loss, val_loss, val_micro_f1 …


class DivergedError(InputError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True, eq=False)
class Best:
    """The best epoch so far: the best score, then the lowest validation loss, then the earliest."""

    epoch: int
    score: float
    val_loss: float
    weights: Weights

    def is_beaten_by(self, score: float, val_loss: float) -> bool:
        """Whether a later epoch is better."""
        return (score, -val_loss) > (self.score, -self.val_loss)


@dataclass
class Speed:
    """The training time by kind of work, without validation. Batches are prepared while the model computes."""

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
    """Everything that changes in training. A checkpoint stores all of it except the speed."""

    model: Predictor
    optimizer: torch.optim.Optimizer
    average: Predictor | None
    best: Best | None = None
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    speed: Speed = field(default_factory=Speed)
    propagation: Propagation | None = None  # how logits are computed; not part of a checkpoint

    @staticmethod
    def start(model: Predictor, options: FitOptions) -> "State":
        """Before the first step."""
        return State(model, build_optimizer(model, options), deepcopy(model) if options.average else None)

    @property
    def epoch(self) -> int:
        return len(self.history)


@dataclass(frozen=True, eq=False)
class Trainer:
    """Changes a state, epoch by epoch: the steps on the training nodes, then one validation.

    Args:
        passes: How logits of the training and validation nodes are computed.
        team: The processes that train together; each has its own trainer.
    """

    state: State
    passes: Passes
    task: Task
    options: FitOptions
    team: Team = ALONE

    def run(self, after_epoch: Callable[[State], None], *, started: float | None = None) -> None:
        """Train until the last epoch, or until the validation has not improved for `patience` epochs.

        Args:
            started: When training began, by the performance counter, if not now; earlier parts of a resumed run count.
        """
        began = time.perf_counter() - self.state.seconds if started is None else started
        forward = self.team.parallel(self.state.model)
        while self.state.epoch < self.options.most_epochs and not self._is_out_of_patience():
            loss = self._train_epoch(forward)
            self._validate(loss)
            self.state.seconds = time.perf_counter() - began
            after_epoch(self.state)

    def _train_epoch(self, forward: nn.Module) -> float:
        """All steps of an epoch; returns the mean loss of the targets."""
        state = self.state
        state.model.train()
        self.team.reseed(self.options.seed, state.epoch)
        total = weight = 0.0
        started = time.perf_counter()
        with closing(self.passes.steps(state.epoch)) as steps:
            for number, step in enumerate(steps, state.epoch * self.passes.num_steps):
                begun = time.perf_counter()
                total += step.weight * self._step(step, forward, number)
                weight += step.weight
                state.speed.add(step, time.perf_counter() - begun)
        state.speed.seconds += time.perf_counter() - started
        return total / weight

    def _step(self, step: Step, forward: nn.Module, number: int) -> float:
        state, team, options = self.state, self.team, self.options
        loss = self._loss(step, forward, number)
        value = team.sum(float(loss.detach()))
        self._require_finite(value, "loss")
        state.optimizer.zero_grad()
        (loss * team.size).backward()  # several processes average their gradients, but the sum is needed
        self._require_finite_gradient()
        if options.clip:
            nn.utils.clip_grad_norm_(state.model.parameters(), options.clip)
        state.optimizer.step()
        if state.average is not None:
            # early weights are far from the final ones, so the average forgets faster at first
            decay = min(options.average, (1 + number) / (10 + number))
            with torch.no_grad():
                for mean, now in zip(state.average.parameters(), state.model.parameters(), strict=True):
                    mean.lerp_(now, 1 - decay)
        return value

    def _loss(self, step: Step, forward: nn.Module, number: int) -> Tensor:
        """This process's share of the loss, and of the term that compares views of nodes without labels."""
        device, count = step.labels.device, len(step.labels)
        # a few numbers per target, and the host waits for them
        views = [step.logits(forward).to(device) for _ in range(NUM_VIEWS if step.others else 1)]
        losses = [self.task.loss(logits[:count], step.labels) for logits in views]
        loss = sum(losses[1:], losses[0]) / len(losses) * step.share
        if not step.others:
            return loss
        weight = self.options.agreement * ramp(number) * step.others_share
        return loss + weight * disagreement([logits[count:] for logits in views])

    def _validate(self, loss: float) -> None:
        state = self.state
        epoch = state.epoch + 1
        record: Record = {"epoch": epoch, "loss": loss}
        chosen = state.average or state.model
        if len(self.task.val):
            val_loss, scores = self.val_scores(chosen)
            self._require_finite(val_loss, "validation loss")
            record |= {"val_loss": val_loss, **{f"val_{name}": value for name, value in scores.items()}}
        state.history.append(record)
        score, val_loss = self._score(record), record.get("val_loss", 0.0)
        if state.best is None or state.best.is_beaten_by(score, val_loss):
            weights = {name: tensor.detach().clone() for name, tensor in chosen.state_dict().items()}
            state.best = Best(epoch, score, val_loss, weights)

    def val_scores(self, model: Predictor) -> tuple[float, dict[str, float]]:
        """Loss and metrics over the validation rows of all processes."""
        task, team, labels = self.task, self.team, self.passes.val_labels
        tally, rows, total, weight = None, 0, 0.0, 0.0
        for logits in self.passes.val(model):
            part = labels[rows : rows + len(logits)]
            with torch.no_grad():
                counted = task.tally(logits, part, each_epoch=self.selected_by)
                tally = counted if tally is None else tally + counted
                total += float(task.loss(logits, part)) * task.loss_weight(part)
            weight += task.loss_weight(part)
            rows += len(logits)
        tallies = [one for one in team.gather(tally) if one is not None]
        scores = sum(tallies[1:], tallies[0]).scores(each_epoch=self.selected_by)
        return team.sum(total) / team.sum(weight), scores

    @property
    def selected_by(self) -> str:
        """The validation metric that chooses the epoch, "loss" or "last"."""
        assert isinstance(self.task, NodeTask)
        return selection_metric(self.task, self.options)

    def goodness(self, name: str, value: float) -> float:
        """The value of a metric with the sign that makes larger numbers better."""
        return named(name).goodness(value)

    def _score(self, record: Record) -> float:
        name = self.selected_by
        if name == "last":
            return float(record["epoch"])
        return -float(record["val_loss"]) if name == "loss" else self.goodness(name, float(record[f"val_{name}"]))

    def _is_out_of_patience(self) -> bool:
        patience, best = self.options.patience, self.state.best
        return bool(patience) and best is not None and self.state.epoch - best.epoch >= patience

    def _require_finite(self, value: float, name: str) -> None:
        if not math.isfinite(value):
            raise self._diverged(f"the {name}", str(value))

    def _require_finite_gradient(self) -> None:
        """Stop before a step that would spoil the weights; a largest entry cannot overflow as a sum of squares may."""
        found = [(name, p.grad) for name, p in self.state.model.named_parameters() if p.grad is not None]
        if not found:
            return
        gradients = [gradient for _, gradient in found]
        if bool(torch.isfinite(torch.stack(torch._foreach_norm(gradients))).all()):  # much faster than a largest entry
            return
        largest = torch.stack(torch._foreach_norm(gradients, float("inf")))
        if bool(torch.isfinite(largest).all()):
            return
        wrong = [name for (name, _), size in zip(found, largest, strict=True) if not bool(torch.isfinite(size))]
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise self._diverged(f"the gradient of {wrong[0]}{others}", "infinite or NaN")

    def _diverged(self, what: str, value: str) -> DivergedError:
        if not self.state.optimizer.state:
            return DivergedError(
                f"{what} is {value} before the first step, so features or edge weights are too large or too "
                "small for the model: rescale them, or normalize the features (features.normalize) and the "
                "relations (graph.normalize)."
            )
        return DivergedError(
            f"{what} became {value} in epoch {self.state.epoch + 1}: lower fit.learning_rate (now "
            f"{self.options.learning_rate}) or limit the gradient with fit.clip."
        )


def build_optimizer(model: Predictor, options: FitOptions) -> torch.optim.Optimizer:
    """Adam, with separate parameter groups for embeddings of nodes and for the filters."""
    filters = [f.logits for f in model.backbone.hop_filters() if f.logits.requires_grad]
    embeddings = [w for m in model.modules() if isinstance(m, InputLinear) for w in m.embeddings if w.requires_grad]
    own = {id(parameter) for parameter in (*filters, *embeddings)}
    rest = [p for p in model.parameters() if id(p) not in own and p.requires_grad]
    rate = options.filter_learning_rate
    groups: list[dict[str, Any]] = [
        {"params": rest},
        # most nodes get small gradients, if any, so the usual decay would wipe their embeddings out
        {"params": embeddings, "weight_decay": options.embedding_weight_decay},
        {
            "params": filters,
            "lr": options.learning_rate if rate is None else rate,
            # no decay by default: the gradient of a filter logit is small, so the usual decay would dominate it
            "weight_decay": options.filter_weight_decay,
        },
    ]
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    return torch.optim.Adam(groups, lr=options.learning_rate, weight_decay=options.decay, fused=fused)


def selection_metric(task: NodeTask, options: FitOptions) -> str:
    """The validation metric that chooses the epoch; a metric that the task does not have is refused."""
    name = task.selection_metric if options.select_by == "auto" else options.select_by
    if name == "last":
        return name
    if not len(task.val):
        raise InputError(
            "the validation split is empty, so it cannot choose an epoch: add labelled nodes to it, "
            'or set fit.select_by = "last".'
        )
    if name != "loss" and task.kind not in named(name).kinds:
        needed = " or ".join(named(name).kinds)
        raise InputError(f'fit.select_by = "{name}" needs a {needed} task, but this one is "{task.kind}".')
    return name
