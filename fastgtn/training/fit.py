"""Train one model on one graph with one seed."""

import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.errors import InputError, nearest
from fastgtn.models import NodeClassifier
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.config import Config
from fastgtn.training.distributed import ALONE, Team
from fastgtn.training.free_memory import require_memory
from fastgtn.training.inference import logit_blocks, representations
from fastgtn.training.label_shift import shifted_scores
from fastgtn.training.loop import Record, State, optimise, selection_metric
from fastgtn.training.memory import plan_memory
from fastgtn.training.passes import plan_passes
from fastgtn.training.propagation import Propagation, check_propagation

Watch = Callable[[State], None]


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model with the weights of the chosen epoch, and what is known of it."""

    config: Config
    inputs: Inputs
    model: NodeClassifier
    epoch: int
    val: dict[str, float]
    test: dict[str, float]
    history: list[Record]
    representations: Tensor  # of all nodes of the target type, [nodes, out_features]
    seconds: float
    peak_memory_mb: float
    speed: dict[str, float]  # targets per second, and the shares of sampling, gathering and computing
    propagation: Propagation | None  # for GTN and FastGTN: over edges, or with unrolled rows

    @property
    def logits(self) -> Tensor:
        """Class scores of all nodes of the target type; for very many classes rather take :meth:`logit_blocks`."""
        return torch.cat(list(self.logit_blocks()))

    def logit_blocks(self) -> Iterator[Tensor]:
        """The same, some nodes at a time."""
        return logit_blocks(self.model, self.representations)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        return {"val": self.val, "test": self.test}

    @property
    def filters(self) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
        """The learned weights of relations of each layer, [K, C, T] in product order."""
        return [filters().detach().numpy() for filters in self.model.backbone.hop_filters()]


def fit(graph: HeteroData, task: NodeTask, config: Config | Mapping[str, Any] | str | Path | None = None) -> Result:
    """Train on the training split, choose the epoch on the validation split, score the test split once.

    Args:
        config: A :class:`Config`, nested values such as ``{"model": {"name": "gtn"}}``, or a TOML file.
    """
    if not isinstance(config, Config):
        config = Config.from_toml(config) if isinstance(config, str | Path) else Config.of(config or {})
    _check_task(graph, task)
    require_memory(plan_memory(graph, task, config), config)
    return fit_inputs(Inputs.of(graph, config), task, config)


def _check_task(graph: HeteroData, task: NodeTask) -> None:
    if not isinstance(task, NodeTask):
        raise InputError(
            f"fit needs a task, made by NodeTask.from_labels from labels and splits, but got {type(task).__name__}."
        )
    if task.target not in graph.node_types:
        raise InputError(f'the task is about "{task.target}"; {nearest(task.target, graph.node_types)}')
    count = int(graph[task.target].num_nodes or 0)
    highest = max((int(n.max()) for n in (task.train.nodes, task.val.nodes, task.test_nodes) if len(n)), default=-1)
    if highest >= count:
        raise InputError(
            f"the task has labels of {task.target} {highest}, but the graph has {count} of them, from 0 on."
        )


def fit_inputs(
    inputs: Inputs, task: NodeTask, config: Config, *, resume: Watch | None = None, watch: Watch | None = None
) -> Result:
    """The same with the relations and features that several seeds share.

    Args:
        resume: May replace the state before the first step.
        watch: Is shown the state after every epoch.
    """
    return chosen(inputs, task, config, train_inputs(inputs, task, config, resume=resume, watch=watch))


def train_inputs(
    inputs: Inputs, task: NodeTask, config: Config, *, resume: Watch | None = None, watch: Watch | None = None,
    team: Team = ALONE,
) -> State:  # fmt: skip
    """Train and choose the epoch; the test split plays no part.

    Args:
        team: The processes that train together; each of them calls this.
    """
    check(inputs, task, config)
    task = task.balanced() if config.fit.class_weights == "balanced" else task
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are not ours to move
        torch.manual_seed(config.fit.seed)
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
        state = State.start(model, config.fit)
        if resume is not None:
            resume(state)
        started = time.perf_counter() - state.seconds
        if not state.epoch:
            model.backbone.prepare(inputs.features, inputs.stack)
            if state.average is not None:
                state.average.load_state_dict(model.state_dict())  # the mean begins with what was prepared

        def after_epoch(state: State) -> None:
            state.seconds = time.perf_counter() - started
            if watch is not None:
                watch(state)

        passes = plan_passes(inputs, task, model, config, team)
        state.propagation = passes.propagation
        optimise(state, passes, task, config.fit, after_epoch, team)
    return state


def check(inputs: Inputs, task: NodeTask, config: Config) -> None:
    """Refuse, before anything is written, what could not be trained."""
    selection_metric(task, config.fit)
    if config.fit.label_shift == "em" and (task.kind != "single" or not len(task.val) or not len(task.test_nodes)):
        raise InputError(
            'fit.label_shift = "em" estimates how frequent each class is among the test nodes, of tasks with one label '
            f'per node; this is "{task.kind}", with {len(task.val)} validation and {len(task.test_nodes)} test nodes.'
        )
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    check_propagation(model, config)


@torch.no_grad()
def predict_logits(model: NodeClassifier, inputs: Inputs, target: str) -> Tensor:
    """Logits of all nodes of a type, in evaluation mode."""
    return torch.cat(list(logit_blocks(model, representations(model, inputs, target))))


def chosen(inputs: Inputs, task: NodeTask, config: Config, state: State) -> Result:
    """Take the weights of the best epoch; here, and only here, the test split is scored."""
    if state.best is None:
        raise InputError("no epoch was trained, so there are no weights to choose.")
    state.model.load_state_dict(state.best.weights)
    record = state.history[state.best.epoch - 1]
    z = representations(state.model, inputs, task.target, config.batch, seed=config.fit.seed)
    if config.fit.label_shift == "em":
        val, wanted = (
            torch.cat(list(logit_blocks(state.model, z[part]))) for part in (task.val.nodes, task.test_nodes)
        )
        shifted_scores(val, task.val.labels, wanted).fold_into(state.model.head)
    test = task.score_test(logit_blocks(state.model, z[task.test_nodes])) if len(task.test_nodes) else {}
    scores = {name.removeprefix("val_"): value for name, value in record.items() if name.startswith("val_")}
    scores.pop("loss", None)
    return Result(
        config, inputs, state.model, state.best.epoch, scores, test, state.history, z, state.seconds, _peak_memory(),
        state.speed.summary(), state.propagation,
    )  # fmt: skip


def _peak_memory() -> float:
    """The largest resident size of this process so far, in MB; macOS counts bytes, Linux kB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2 ** (20 if sys.platform == "darwin" else 10)
