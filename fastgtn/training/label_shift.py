r"""Class priors of the nodes to be predicted, where the labelled nodes were picked with other ones.

Many splits have the same number of labelled nodes per class, which says nothing about how frequent the classes
are among the rest. Bayes' rule tells how scores change with the prior, and the scores of the unlabelled nodes
tell the prior: expectation maximisation finds the one under which they are most likely. Labels of the nodes to
be predicted are never needed.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOST_STEPS = 1000
TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """New scores ``scale · logits + shift``: calibrated, and for another class prior."""

    scale: Tensor  # []
    shift: Tensor  # [num_classes]
    prior: Tensor  # [num_classes], the estimated one

    def __call__(self, logits: Tensor) -> Tensor:
        return self.scale * logits + self.shift

    @torch.no_grad()
    def fold_into(self, head: nn.Linear) -> None:
        """Make the map part of the last layer."""
        head.weight.mul_(self.scale)
        head.bias.mul_(self.scale).add_(self.shift)


def shifted_scores(val_logits: Tensor, val_labels: Tensor, logits: Tensor) -> ScoreMap:
    """Scores for the nodes behind `logits`, whose classes may be more or less frequent than in validation.

    Calibration comes first, a temperature and a bias per class that make the validation labels most likely, since
    the estimate of the prior believes the probabilities that it is given.
    """
    num_classes = val_logits.size(1)
    scale, bias = _calibrated(val_logits.double(), val_labels)
    seen = torch.bincount(val_labels, minlength=num_classes).double() + 1  # a class without a node is not impossible
    seen = seen / seen.sum()
    prior = estimated_prior((scale * logits.double() + bias).log_softmax(1), seen)
    shift = bias + (prior / seen).log()
    return ScoreMap(scale.to(logits.dtype), shift.to(logits.dtype), prior.to(logits.dtype))


def estimated_prior(log_probabilities: Tensor, seen: Tensor) -> Tensor:
    r"""The class prior :math:`π` that makes unlabelled nodes most likely (expectation maximisation).

    .. math:: π_c \leftarrow \frac{1}{B} \sum_i \frac{p_{ic} \, π_c / s_c}{\sum_k p_{ik} \, π_k / s_k}

    Args:
        log_probabilities: Of classes under the prior `seen`, [B, num_classes].
    """
    prior = seen
    for _ in range(MOST_STEPS):
        shares = (log_probabilities + (prior / seen).log()).softmax(1).mean(0)
        new = shares.clamp(min=1e-6)
        new = new / new.sum()
        moved = float((new - prior).abs().max())
        prior = new
        if moved < TOLERANCE:
            break
    return prior


def _calibrated(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Temperature (as a factor) and bias with the least cross entropy, both held near doing nothing."""
    log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(logits.size(1), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_scale, bias], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        # one pseudo-observation: few labels, or classes that are told apart without a mistake, have no finite optimum
        held = (log_scale.square() + bias.square().sum()) / (2 * len(labels))
        loss = F.cross_entropy(log_scale.exp() * logits + bias, labels) + held
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return log_scale.detach().exp(), (bias - bias.mean()).detach()
