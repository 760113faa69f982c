"""Nodes without labels also teach: two views of a node, with different dropout, should give the same answer."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training.build import Inputs

NUM_VIEWS = 2
TEMPERATURE = 0.5  # of the mean answer that all views should give: below 1, a clear answer becomes clearer
FULL_AFTER = 20  # steps until the term has its whole weight: early answers are noise
MOST_NODES = 5000  # unlabelled nodes that an epoch looks at


def disagreement(views: Sequence[Tensor]) -> Tensor:
    r"""How far the class probabilities of each view are from the sharpened mean of all views, summed over the nodes.

    .. math:: \frac{1}{V} \sum_v \sum_i \lVert p_{vi} - \bar p_i' \rVert^2, \quad \bar p' \propto \bar p^{1/T}

    Args:
        views: Logits [n, classes] of the same nodes.
    """
    answers = [logits.softmax(-1) for logits in views]
    with torch.no_grad():
        sharp = (sum(answers[1:], answers[0]) / len(answers)).pow(1 / TEMPERATURE)
        sharp = sharp / sharp.sum(-1, keepdim=True)
    distances = [(answer - sharp).square().sum() for answer in answers]
    return sum(distances[1:], distances[0]) / len(distances)


def ramp(step: int) -> float:
    """The share of its weight that the term has in a step, counted from 0."""
    return min(1.0, (step + 1) / FULL_AFTER)


def nodes_without_labels(inputs: Inputs, task: NodeTask, config: Config) -> Tensor:
    """Nodes of the target type that are not in the training split; none where the term is off."""
    if not config.fit.agreement:
        return torch.empty(0, dtype=torch.int64)
    is_other = torch.ones(len(inputs.raw.nodes_of(task.target)), dtype=torch.bool)
    is_other[task.train.nodes] = False
    others = is_other.nonzero()[:, 0]
    if len(others) <= MOST_NODES:
        return others
    drawn = torch.randperm(len(others), generator=torch.Generator().manual_seed(config.fit.seed))[:MOST_NODES]
    return others[drawn.sort().values]


def check_consistency(inputs: Inputs, task: NodeTask, config: Config) -> None:
    """Refuse the term where it cannot be computed."""
    missing = missing_for_consistency(task, config, is_timed=inputs.is_timed)
    if config.fit.agreement and missing:
        raise InputError(f"fit.consistency needs {missing[0]}: set it to 0.")


def missing_for_consistency(task: NodeTask, config: Config, *, is_timed: bool) -> list[str]:
    """What the term needs and does not have; empty where it can be computed."""
    needs = {
        "one class per node": task.kind == "single",
        "training without mini-batches (batch.size = 0)": not config.batch.size,
        "nodes without as_of": not is_timed,
    }
    return [need for need, is_met in needs.items() if not is_met]
