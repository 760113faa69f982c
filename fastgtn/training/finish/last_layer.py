"""What happens between the last epoch and the result: units, calibration, class frequencies, a threshold for an aim.

All of it is decided on validation nodes and becomes part of the last layer or of the stored facts.
"""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from fastgtn.config import FitOptions
from fastgtn.data import NodeTask
from fastgtn.data.decision import BEST_F1, Aim, choose_decision
from fastgtn.data.majority import majority_score
from fastgtn.data.metrics import named
from fastgtn.errors import InputError
from fastgtn.nn import NodeClassifier
from fastgtn.training.finish.label_shift import ScoreMap, shifted_scores, temperature
from fastgtn.training.loop import selection_metric
from fastgtn.training.predict import logit_blocks
from fastgtn.training.prepare.numbers import number_scales

FEW_CLASSES = 20  # with more classes, no balance is stored


def check_finish(task: NodeTask, options: FitOptions) -> None:
    """Refuse, before training, what could not be done after it."""
    if options.calibrate != "none" and (task.kind != "single" or not len(task.val)):
        raise InputError(
            'fit.calibrate = "temperature" needs one class per node and validation nodes; '
            f'this task is "{task.kind}", with {len(task.val)} validation nodes.'
        )
    if options.aim:
        Aim.parse(options.aim)
        if task.kind != "single" or task.num_classes != 2 or not len(task.val):
            raise InputError(
                "fit.aim chooses a threshold between two classes on the validation nodes; this task has "
                f"{task.num_classes} classes ({task.kind}) and {len(task.val)} validation nodes."
            )
    if options.label_shift == "em" and (task.kind != "single" or not len(task.val) or not len(task.test_nodes)):
        raise InputError(
            'fit.label_shift = "em" estimates how frequent each class is among the test nodes, of tasks with one label '
            f'per node; this is "{task.kind}", with {len(task.val)} validation and {len(task.test_nodes)} test nodes.'
        )


def finish(
    model: NodeClassifier, task: NodeTask, options: FitOptions, z: Tensor, recorded: dict[str, float]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Change the last layer as the options say; returns the validation scores and what is worth storing.

    Args:
        z: The representations of all nodes of the target type.
        recorded: The validation scores of the chosen epoch.
    """
    facts: dict[str, Any] = {"selected_by": selection_metric(task, options)}
    if task.kind == "single" and 1 < task.num_classes <= FEW_CLASSES:
        facts["balance"] = dict(zip(task.class_names, task.balance, strict=True))
        facts["majority"] = majority_score(task, "val" if len(task.val) else "train")
    if task.kind == "number":
        largest = in_unit(model, task, options)
        facts |= {} if largest is None else {"largest": largest}
        task = task.with_outcome(None, largest)
    if not len(task.val):
        return recorded, facts
    if options.calibrate == "temperature":
        scale = temperature(_logits(model, z[task.val.nodes]), task.val.labels)
        ScoreMap(scale, scale.new_zeros(task.num_classes), scale.new_zeros(0)).fold_into(model.head)
        facts["temperature"] = 1 / float(scale)
    if options.label_shift == "em":
        val, wanted = (_logits(model, z[part]) for part in (task.val.nodes, task.test_nodes))
        shifted_scores(val, task.val.labels, wanted).fold_into(model.head)
        facts["val_before_label_shift"], recorded = recorded, {}
    val = _logits(model, z[task.val.nodes])
    aim = options.aim or (BEST_F1 if task.has_rare_class and task.num_classes == 2 else "")
    if aim:
        p, truth = task.probabilities(val)[:, task.positive], task.val.labels == task.positive
        name = task.class_names[task.positive]
        facts["decision"] = asdict(choose_decision(p, truth, aim, class_name=name))
        task = task.with_outcome(facts["decision"])
        # scores of classes follow the threshold; those of probabilities are the recorded ones
        recorded = {name: value for name, value in recorded.items() if named(name).is_costly}
    return task.metrics(val, task.val.labels) | recorded, facts


@torch.no_grad()
def start_at_prior(model: NodeClassifier, task: NodeTask) -> None:
    """Begin with the frequencies of the classes, so that the first steps do not go into learning them."""
    model.head.bias.copy_(torch.tensor(task.balance).clamp(min=1e-4).log())


@torch.no_grad()
def in_unit(model: NodeClassifier, task: NodeTask, options: FitOptions) -> list[float] | None:
    """Make the unit of the user part of the last layer, so that the model predicts in it.

    On a logarithmic scale it predicts logarithms; the largest numbers of the training are returned then.
    """
    unit = task.standardized(scale=number_scales(task, options)[0]).unit
    assert unit is not None
    model.head.weight.mul_(unit.deviation[:, None])
    model.head.bias.mul_(unit.deviation).add_(unit.offset)
    return None if unit.largest is None else unit.largest.tolist()


def _logits(model: NodeClassifier, z: Tensor) -> Tensor:
    return torch.cat(list(logit_blocks(model, z)))
