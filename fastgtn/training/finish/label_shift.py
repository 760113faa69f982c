r"""Class frequencies of the nodes to predict, if the labelled nodes were sampled with other frequencies.

Many splits have the same number of labelled nodes per class, which says nothing about the class frequencies of
the other nodes. Bayes' rule gives the scores for another prior. Expectation maximisation finds the prior under
which the scores of the unlabelled nodes are most likely. The labels of these nodes are not used.
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
        """Merge the map into the last layer."""
        head.weight.mul_(self.scale)
        head.bias.mul_(self.scale).add_(self.shift)


def shifted_scores(val_logits: Tensor, val_labels: Tensor, logits: Tensor) -> ScoreMap:
    """Corrected scores for nodes whose class frequencies may differ from those of the validation nodes.

    Calibration comes first, a temperature and a bias per class that make the validation labels most likely, since
    the estimate of the prior believes the probabilities that it is given.
    """
    num_classes = val_logits.size(1)
    scale, bias = _calibrated(val_logits.double(), val_labels)
    seen = (
        torch.bincount(val_labels, minlength=num_classes).double() + 1
    )  # a class without a validation node is still possible
    seen = seen / seen.sum()
    prior = estimated_prior((scale * logits.double() + bias).log_softmax(1), seen)
    shift = bias + (prior / seen).log()
    return ScoreMap(scale.to(logits.dtype), shift.to(logits.dtype), prior.to(logits.dtype))


def temperature(logits: Tensor, labels: Tensor) -> Tensor:
    """The factor on all logits that makes the labels most likely: probabilities are calibrated, their order stays."""
    log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_scale], max_iter=100, line_search_fn="strong_wolfe")
    wide = logits.detach().double()

    def closure() -> Tensor:
        optimizer.zero_grad()
        held = log_scale.square() / (2 * len(labels))  # without a mistake there is no finite optimum
        loss = F.cross_entropy(log_scale.exp() * wide, labels) + held
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return log_scale.detach().exp().to(logits.dtype)


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
    """Temperature (as a factor) and bias with the lowest cross entropy, regularised towards the identity."""
    log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(logits.size(1), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_scale, bias], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        # one pseudo-observation, since few labels or perfectly separated classes have no finite optimum
        held = (log_scale.square() + bias.square().sum()) / (2 * len(labels))
        loss = F.cross_entropy(log_scale.exp() * logits + bias, labels) + held
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return log_scale.detach().exp(), (bias - bias.mean()).detach()
