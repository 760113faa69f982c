"""The control of a result: the same training with filters frozen at uniform."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from fastgtn.data.majority import majority_score
from fastgtn.errors import InputError
from fastgtn.explain.verdict import Control, Learned, filter_entropy
from fastgtn.runs.files import read_json, write_json
from fastgtn.training.device import device_here
from fastgtn.training.fit import Trained, fit_inputs, predict_logits
from fastgtn.training.prepare.setting import estimated_seconds
from fastgtn.training.prepare.trials import with_values

if TYPE_CHECKING:
    from fastgtn.runs.result import Result

FILE, KEPT = "control.json", "_control"
SEEDS = 3  # trainings with uniform filters: one alone says nothing about how much a score varies with the seed
APART = 1000  # between their seeds, so that the controls of several seeds of a run have none in common


def stored_control(result: Result) -> Control | None:
    """The control that was trained before; None where there is none, or where its file cannot be read."""
    if result.folder is None or not (result.folder / FILE).exists():
        return None
    try:
        return Control(**read_json(result.folder / FILE))
    except (InputError, TypeError):
        return None


def control_of(result: Result) -> Control:
    """The control of a result, from memory or its folder, or trained now."""
    found = _known(result) or train_control(result)
    result.__dict__[KEPT] = found  # the dataclass is frozen; a cached property is kept the same way
    return found


def learned_of(result: Result) -> Learned:
    """Evidence on whether a ranking was learned; it includes the control if one has been trained."""
    found = result.screening
    paths = None if found is None else [path for path in found if len(path.path)]
    return Learned(
        entropy=filter_entropy(result.model),
        num_significant=None if found is None else found.num_significant,
        num_paths=None if paths is None else len(paths),
        paths_tell=any(path.is_significant for path in paths or ()),
        beats_majority=_beats_majority(result),
        control=_known(result),
    )


def train_control(result: Result) -> Control:
    """Train the control with the config of the result and some seeds, its own first; its folder keeps the scores."""
    task, config = result.task, result.config
    config = with_values(config, {"fit.device": device_here(config.fit.device)})
    inputs = replace(result.inputs, options=config.graph)
    seeds = [config.fit.seed + APART * number for number in range(SEEDS)]
    trained = [fit_inputs(inputs, task, config.for_seed(seed), frozen=True) for seed in seeds]
    metric = result.chosen_by
    split = "test" if metric in result.test and metric in trained[0].test else "val"
    learned = (result.test if split == "test" else result.val)[metric]
    scores = [getattr(one, split)[metric] for one in trained]
    noise = 2 * (_node_variance(result, trained[0], split) + _seed_variance(scores)) ** 0.5
    control = Control(metric, split, learned, statistics.fmean(scores), noise, SEEDS)
    if result.folder is not None:
        write_json(result.folder / FILE, control.to_dict())
    return control


def control_seconds(result: Result) -> float:
    """How long a control would take, from the size of the graph."""
    return SEEDS * estimated_seconds(result.inputs, result.task, result.config)


def _known(result: Result) -> Control | None:
    found: Control | None = result.__dict__.get(KEPT)
    return found or stored_control(result)


def _beats_majority(result: Result) -> bool:
    """Whether the test score is above that of the commonest class by more than two standard errors.

    Validation scores have chosen the epoch and the settings, so the best of many is above chance even for labels that
    nothing predicts. They are used where no test labels exist.
    """
    task = result.task
    split, scores = ("test", result.test) if "micro_f1" in result.test else ("val", result.val)
    count = len(task.test_nodes) if split == "test" else len(task.val)
    if task.kind != "single" or not count or "micro_f1" not in scores:
        return True
    share = majority_score(task, split)
    return scores["micro_f1"] > share + 2 * (share * (1 - share) / count) ** 0.5


def _seed_variance(scores: Sequence[float]) -> float:
    """The variance of one score minus the mean of these, if all of them vary alike with the seed."""
    return statistics.variance(scores) * (1 + 1 / len(scores))


@torch.no_grad()
def _node_variance(result: Result, trained: Trained, split: str) -> float:
    """The variance of a difference of shares: only nodes on which both predict differently can make one."""
    task = result.task
    nodes = task.test_nodes if split == "test" else task.val.nodes
    if task.kind not in ("single", "multi"):
        return 0.0
    logits = [result.logits[nodes], predict_logits(trained.model, trained.inputs, task.target)[nodes]]
    if task.kind == "single":
        differ = (logits[0].argmax(1) != logits[1].argmax(1)).double()
    else:
        differ = ((logits[0] > 0) != (logits[1] > 0)).double().mean(1)
    return float(differ.mean() / len(nodes))
