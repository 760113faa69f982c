"""The decision threshold of the rare class, chosen on the validation nodes for a stated aim."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fastgtn.data.metrics.probabilities import threshold_counts
from fastgtn.errors import InputError

AIM = re.compile(r"^\s*(precision|recall)\s*>=\s*(0?\.\d+|1(?:\.0*)?|0)\s*$")

BEST_F1 = "best f1"
CAUTION = 0.75


@dataclass(frozen=True)
class Aim:
    """A lower limit of precision or recall, or the best F1."""

    name: Literal["precision", "recall", "f1"]
    limit: float

    @staticmethod
    def parse(text: str) -> "Aim":
        if text == BEST_F1:
            return Aim("f1", 0.0)
        found = AIM.match(text)
        if found is None:
            raise InputError(
                f'an aim is "precision >= 0.9" or "recall >= 0.8", with a number between 0 and 1, or "{BEST_F1}", '
                f'but got "{text}".'
            )
        name: Any = found.group(1)
        return Aim(name, float(found.group(2)))


@dataclass(frozen=True)
class Decision:
    """Nodes get the class where its probability is at least the threshold.

    Args:
        precision, recall: What the threshold reaches on the validation nodes.
        is_reached: Whether that fulfils the aim; if not, the threshold comes nearest to it.
    """

    class_name: str
    threshold: float
    aim: str
    precision: float
    recall: float
    is_reached: bool


def decided(probabilities: Tensor, asked: int, threshold: float) -> Tensor:
    """The class of each row: the positive one if its probability reaches the threshold, else the other one."""
    return torch.where(probabilities[:, asked].double() >= threshold, asked, 1 - asked)


def choose_decision(probabilities: Tensor, truth: Tensor, aim: str, *, class_name: str) -> Decision:
    """The threshold that fulfils the aim and is best in the other respect.

    With few validation nodes, one of many thresholds fulfils any aim by luck and fails on other nodes. Precision and
    recall are therefore replaced by the value that they exceed with a probability of three quarters, given these nodes
    (Jeffreys' prior).

    Args:
        probabilities: Of the class, of validation nodes, [B].
        truth: 1 for the nodes that have the class, [B].
    """
    wanted = Aim.parse(aim)
    hits, false, thresholds = threshold_counts(probabilities.double(), truth.double())
    precision, recall = hits / (hits + false), hits / hits[-1].clamp(min=1)
    f1 = 2 * hits / (hits + false + hits[-1].clamp(min=1))
    missed = hits[-1] - hits
    likely, other, seen = {
        "precision": (_exceeded(hits, false), recall, precision),
        "recall": (_exceeded(hits, missed), precision, recall),
        "f1": (f1, f1, f1),
    }[wanted.name]
    fulfilled = likely >= wanted.limit
    best = int(torch.where(fulfilled, other, -1.0).argmax()) if bool(fulfilled.any()) else int(likely.argmax())
    return Decision(
        class_name,
        float(thresholds[best]),
        aim,
        float(precision[best]),
        float(recall[best]),
        bool(seen[best] >= wanted.limit),
    )


def _exceeded(right: Tensor, wrong: Tensor) -> Tensor:
    """The share of successes that is exceeded with a probability of three quarters."""
    from scipy.special import betaincinv  # few trainings need it

    return torch.from_numpy(betaincinv(right.numpy() + 0.5, wrong.numpy() + 0.5, 1 - CAUTION))
