"""Train one model on one graph with one seed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.nn import Backbone, NodeClassifier
from fastgtn.relations.kernels import buffers
from fastgtn.system import peak_memory_mb
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.consistency import check_consistency
from fastgtn.training.device import chosen_device
from fastgtn.training.finish import check_finish, finish, start_at_prior
from fastgtn.training.loop import Record, State, Trainer, selection_metric
from fastgtn.training.predict import logit_blocks, representations
from fastgtn.training.prepare.numbers import number_scales
from fastgtn.training.prepare.start import freeze_filters, measure_features, rescale_messages, start_filters
from fastgtn.training.propagation import Propagation, check_propagation
from fastgtn.training.steps import plan_passes
from fastgtn.training.team import ALONE, Team

Watch = Callable[[State], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """A model with the weights of the chosen epoch, and the facts about its training."""

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
    facts: dict[str, Any]  # the metric that chose the epoch, and what was done after training


def fit_inputs(
    inputs: Inputs,
    task: NodeTask,
    config: Config,
    *,
    resume: Watch | None = None,
    watch: Watch | None = None,
    frozen: bool = False,
) -> Trained:
    """Train on the training split, choose the epoch on the validation split, score the test split once.

    Args:
        resume: A function that may replace the state before the first step.
        watch: A function that is called with the state after every epoch.
        frozen: Keep the filters uniform: the control of a model that learns them.
    """
    state = train_inputs(inputs, task, config, resume=resume, watch=watch, frozen=frozen)
    return chosen(inputs, task, config, state)


def train_inputs(
    inputs: Inputs,
    task: NodeTask,
    config: Config,
    *,
    resume: Watch | None = None,
    watch: Watch | None = None,
    team: Team = ALONE,
    frozen: bool = False,
) -> State:
    """Train and choose the epoch, without the test split.

    Args:
        team: The processes that train together; each of them calls this.
    """
    check(inputs, task, config)
    if task.kind == "number":
        task = task.standardized(loss=config.fit.number_loss, scale=number_scales(task, config.fit)[0])
    elif config.fit.class_weights == "balanced":
        task = task.balanced()
    with torch.random.fork_rng(devices=[]):  # keep the caller's random state unchanged
        torch.manual_seed(config.fit.seed)
        device = chosen_device(config.fit.device, team)
        inputs = inputs.on(device)
        model = _started_model(inputs, task, config, frozen=frozen).to(device)
        state = State.start(model, config.fit)
        if resume is not None:
            resume(state)
        started = time.perf_counter() - state.seconds
        if not state.epoch:
            model.backbone.prepare(inputs.features, inputs.stack)
            if state.average is not None:
                state.average.load_state_dict(model.state_dict())  # the running mean starts with the initial weights
        passes = plan_passes(inputs, task, model, config, team)
        state.propagation = passes.propagation
        Trainer(state, passes, task, config.fit, team).run(watch or (lambda _: None), started=started)
    buffers.release()
    return state


def _started_model(inputs: Inputs, task: NodeTask, config: Config, *, frozen: bool) -> NodeClassifier:
    """A new model before the first step: its head, its input scales, its filters and the size of its messages."""
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    if task.has_rare_class and task.class_weights is None:
        start_at_prior(model, task)
    measure_features(model, inputs)
    if frozen:
        freeze_filters(model.backbone)
    else:
        start_filters(model.backbone, inputs, config.model)
    rescale_messages(model, inputs, task)
    return model


def check(inputs: Inputs, task: NodeTask, config: Config) -> None:
    """Refuse a config that cannot be trained, before anything is written."""
    chosen_device(config.fit.device, ALONE)
    selection_metric(task, config.fit)
    check_finish(task, config.fit)
    check_consistency(inputs, task, config)
    number_scales(task, config.fit)
    if task.kind == "number" and config.fit.class_weights != "none":
        raise InputError('fit.class_weights = "balanced" is for classes, but the task predicts numbers: leave it out.')
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    check_propagation(model, config)
    _check_sees_moments(model, inputs)


def _check_sees_moments(model: NodeClassifier, inputs: Inputs) -> None:
    """Refuse models that see later nodes by other ways than edges, if the graph has moments."""
    walks = type(model.backbone).prepare is not Backbone.prepare
    if inputs.is_timed and (walks or model.backbone.sees_all_nodes):
        raise InputError(
            "the nodes have as_of, but the model compares all nodes (non-local operations) or walks along all edges "
            "before training (Node2Vec), so it would see the future: set model.non_local.enabled = false, or "
            "take another model."
        )


@torch.no_grad()
def predict_logits(model: NodeClassifier, inputs: Inputs, target: str) -> Tensor:
    """Logits of all nodes of a type, in evaluation mode."""
    return torch.cat(list(logit_blocks(model, representations(model, inputs, target))))


def chosen(inputs: Inputs, task: NodeTask, config: Config, state: State) -> Trained:
    """Load the weights of the best epoch and score the test split. Nothing else scores the test split.

    Corrected class frequencies change no choice, so the scores without the correction are stored beside them.
    """
    if state.best is None:
        raise InputError("no epoch was trained, so there are no weights to choose.")
    model = state.model
    assert isinstance(model, NodeClassifier)
    model.load_state_dict(state.best.weights)
    device = model.head.weight.device
    record = state.history[state.best.epoch - 1]
    z = representations(model, inputs.on(device), task.target, config.batch, seed=config.fit.seed)
    model.cpu()  # what follows, and whoever gets the model, reads graphs in the memory of the processor
    recorded = {name.removeprefix("val_"): value for name, value in record.items() if name.startswith("val_")}
    recorded.pop("loss", None)
    plain = _test_scores(model, task, z) if config.fit.label_shift != "none" else {}
    scores, facts = finish(model, task, config.fit, z, recorded)
    facts |= {"test_before_label_shift": plain} if plain else {}
    test = _test_scores(model, task.with_outcome(facts.get("decision"), facts.get("largest")), z)
    return Trained(
        config,
        inputs,
        model,
        state.best.epoch,
        scores,
        test,
        state.history,
        z,
        state.seconds,
        peak_memory_mb(),
        state.speed.summary(),
        state.propagation,
        facts,
    )


def _test_scores(model: NodeClassifier, task: NodeTask, z: Tensor) -> dict[str, float]:
    return task.score_test(logit_blocks(model, z[task.test_nodes])) if len(task.test_nodes) else {}
