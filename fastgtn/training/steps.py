"""The passes of an epoch's steps and of a validation: all targets at once, or in batches."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.nn import NodeClassifier
from fastgtn.nn.classifier import Predictor
from fastgtn.relations import derived_seed
from fastgtn.training.batches import Batcher, made_ahead, shuffled
from fastgtn.training.build import Inputs, Plan, hops_seen
from fastgtn.training.consistency import nodes_without_labels
from fastgtn.training.predict import Inference
from fastgtn.training.propagation import Propagation, choose
from fastgtn.training.team import ALONE, Team


@dataclass(frozen=True, eq=False)
class Step:
    """Some training nodes, ready for one step of the optimiser."""

    logits: Callable[[nn.Module], Tensor]
    labels: Tensor  # of the targets of this process
    targets: int  # how many the step has in all processes
    weight: float  # weight in the mean loss of an epoch
    share: float  # share of this weight that belongs to this process
    sampling: float = 0.0  # seconds
    gathering: float = 0.0
    others: int = 0  # nodes without labels whose logits follow those of the targets
    others_share: float = 0.0  # what one of them weighs among those of all processes


class Passes(Protocol):
    """The source of the logits of steps and validations."""

    num_steps: int
    val_labels: Tensor
    propagation: Propagation | None

    def steps(self, epoch: int) -> Generator[Step, None, None]:
        """The steps of an epoch; the first epoch is 0."""

    def val(self, model: Predictor) -> Iterable[Tensor]:
        """The logits of this process's part of the validation rows, block by block."""


def plan_passes(inputs: Inputs, task: NodeTask, model: NodeClassifier, config: Config, team: Team = ALONE) -> Passes:
    """The passes of a config."""
    if config.batch.size:
        return Batches(inputs, task, model, config, team)
    whole = WholeGraph.of(inputs, task, model, config, team)
    return whole if team.size > 1 else whole.joined_if_cheaper(inputs, task, model, config)


@dataclass(eq=False)
class WholeGraph:
    """One step per epoch on all training nodes. The rows that they depend on are planned once."""

    train: Plan
    train_labels: Tensor
    targets: int
    weight: float
    share: float
    propagation: Propagation | None
    validation: Inference | None  # None: the rows of validation, if any, follow those of training in the same pass
    val_labels: Tensor
    num_steps: int = 1
    shared: Tensor | None = None  # logits of all rows with the present weights
    others: int = 0  # nodes without labels among the rows of training, and how many all processes have
    all_others: int = 0

    @staticmethod
    def of(inputs: Inputs, task: NodeTask, model: NodeClassifier, config: Config, team: Team) -> "WholeGraph":
        """Training and validation in separate passes."""
        mine, weight, share = _shares(task, task.train.labels, team)
        unlabelled = nodes_without_labels(inputs, task, config)
        others = unlabelled[team.part(len(unlabelled))]
        nodes = torch.cat([task.train.nodes[mine], others])
        val_nodes = task.val.nodes[team.part(len(task.val))]
        inputs, both = inputs.seen_by(inputs.rows(task.target, torch.cat([nodes, val_nodes])), hops_seen(model))
        rows, val_rows = both[: len(nodes)], both[len(nodes) :]
        choice = choose(inputs, model, config, rows, val_rows)
        validation, val_labels = _validation(inputs, val_rows, task, model, config, team, choice.val)
        return WholeGraph(
            choice.train or inputs.plan(model, rows),
            task.train.labels[mine],
            len(task.train),
            weight,
            share,
            choice.propagation,
            validation,
            val_labels,
            others=len(others),
            all_others=len(unlabelled),
        )

    def joined_if_cheaper(self, inputs: Inputs, task: NodeTask, model: NodeClassifier, config: Config) -> "WholeGraph":
        """Share one pass between training and validation if that is exact and cheaper.

        Without dropout and averaging, the pass that makes the next step has the logits of the validation rows
        as well. Its gradient costs about two passes more, also for rows that have none. Unrolled rows share nothing.
        """
        if self.others or (self.propagation is not None and self.propagation.chosen == "unrolled"):
            return self
        val = None if self.validation is None else self.validation.plan
        if val is None or config.fit.average or model.dropout or model.backbone.dropout:
            return self
        both = inputs.rows(task.target, torch.cat([task.train.nodes, task.val.nodes]))
        inputs, both = inputs.seen_by(both, hops_seen(model))
        joint = inputs.plan(model, both)
        if 3 * joint.cost > 3 * self.train.cost + val.cost:
            return self
        return WholeGraph(
            joint, self.train_labels, self.targets, self.weight, 1.0, self.propagation, None, self.val_labels
        )

    def steps(self, epoch: int) -> Generator[Step, None, None]:  # noqa: ARG002
        each = 1 / max(self.all_others, 1)
        yield Step(
            self._train_logits,
            self.train_labels,
            self.targets,
            self.weight,
            self.share,
            others=self.others,
            others_share=each,
        )

    def _train_logits(self, model: nn.Module) -> Tensor:
        logits = self.train.logits(model) if self.shared is None else self.shared
        self.shared = None
        return logits[: len(self.train_labels) + self.others]

    def val(self, model: Predictor) -> Iterable[Tensor]:
        if self.validation is not None:
            return self.validation.logits(model)
        if not len(self.val_labels):
            return ()
        self.shared = self.train.logits(model)  # with a gradient, for the next step
        return (self.shared.detach()[len(self.train_labels) :].cpu(),)


class Batches:
    """Steps on sampled neighbourhoods of some training nodes; each node is used once per epoch.

    Batch b of epoch e depends on nothing but (seed, e, b): not on threads, processes or what was computed before.
    All processes sample the same batch, and each computes its part of the targets.
    """

    propagation: Propagation | None = None  # always over edges

    def __init__(self, inputs: Inputs, task: NodeTask, model: NodeClassifier, config: Config, team: Team) -> None:
        self.task, self.team, self.options, self.seed = task, team, config.batch, config.fit.seed
        self.rows = inputs.rows(task.target, task.train.nodes)
        self.batcher = Batcher(inputs, model, config.batch)
        self.num_steps = -(-len(self.rows) // config.batch.size)
        val_rows = inputs.rows(task.target, task.val.nodes[team.part(len(task.val))])
        self.validation, self.val_labels = _validation(inputs, val_rows, task, model, config, team)

    def steps(self, epoch: int) -> Generator[Step, None, None]:
        parts = shuffled(len(self.rows), self.options.size, self.seed, epoch)

        def make(number: int) -> Step:
            return self._step(parts[number], derived_seed(self.seed, epoch, number))

        yield from made_ahead(make, range(self.num_steps), self.options.prefetch)

    def val(self, model: Predictor) -> Iterator[Tensor]:
        return iter(()) if self.validation is None else self.validation.logits(model)

    def _step(self, chosen: Tensor, seed: int) -> Step:
        labels = self.task.train.labels[chosen]
        mine, weight, share = _shares(self.task, labels, self.team)
        batch = self.batcher.make(self.rows[chosen], seed, mine)
        return Step(batch.plan.logits, labels[mine], len(chosen), weight, share, batch.sampling, batch.gathering)


def _shares(task: NodeTask, labels: Tensor, team: Team) -> tuple[slice, float, float]:
    """This process's part of some targets, the weight of all of them, and the part's share of it.

    A process without a target still computes one, with share 0, because it must take part in every exchange.
    """
    mine, weight = team.part(len(labels)), task.loss_weight(labels)
    if team.size == 1:
        return mine, weight, 1.0
    share = task.loss_weight(labels[mine]) / weight if weight else 1 / team.size
    return (mine, weight, share) if mine.start < mine.stop else (slice(0, 1), weight, 0.0)


def _validation(
    inputs: Inputs,
    rows: Tensor,
    task: NodeTask,
    model: NodeClassifier,
    config: Config,
    team: Team,
    plan: Plan | None = None,
) -> tuple[Inference | None, Tensor]:
    labels = task.val.labels[team.part(len(task.val))]
    if not len(labels):
        return None, labels
    return Inference(inputs, model, rows, config.batch, seed=config.fit.seed, plan=plan), labels
