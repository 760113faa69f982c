"""Numbers to predict: as a model learns them, and in the unit of the user."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

NumberLoss = Literal["mse", "huber"]
NumberScale = Literal["linear", "log"]
PLAIN = (1e-4, 1e9)  # sizes of numbers that are shown without an exponent
SKEWED = 1.0  # numbers with a larger skewness are learned on a logarithmic scale, unless validation says otherwise


def plain_number(value: float) -> str:
    """A number in the unit of the user: at least four digits, and no exponent unless it is very large or small."""
    if PLAIN[0] <= abs(value) < PLAIN[1]:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class NumberUnit:
    r"""How the outputs z of a model become numbers in the unit of the user.

    On a linear scale, a model learns deviations from the mean: :math:`ŷ = μ + σ z`. On a logarithmic scale it learns
    the logarithm of the expected number, :math:`ŷ = \min(ȳ e^z, \max y)`, so that what meta-paths add multiplies it.

    Args:
        offset: What is added to the outputs: the mean, or the logarithm of the mean, [outputs].
        deviation: What the outputs are multiplied by; ones on a logarithmic scale.
        largest: The largest training numbers, on a logarithmic scale; no prediction exceeds them.
        has_zeros: Whether some training numbers are zero, which the logarithmic loss must allow for.
    """

    offset: Tensor
    deviation: Tensor
    largest: Tensor | None = None
    has_zeros: bool = False

    @staticmethod
    def fit(labels: Tensor, scale: NumberScale) -> "NumberUnit":
        """Measure training labels [B, outputs], none negative and not all zero for a logarithmic scale."""
        y = labels.double()
        if scale == "log":
            offset = y.mean(0).log().float()
            return NumberUnit(offset, torch.ones_like(offset), labels.amax(0), bool((y == 0).any()))
        deviation = y.std(0, correction=0)
        return NumberUnit(y.mean(0).float(), torch.where(deviation > 0, deviation, 1.0).float())

    def learned(self, labels: Tensor) -> Tensor:
        """Labels as the loss reads them: in deviations from the mean, or in multiples of it."""
        return (labels - self.offset) / self.deviation if self.largest is None else labels / self.offset.exp()

    def told(self, labels: Tensor) -> Tensor:
        """The labels of :meth:`learned` in the unit of the user again."""
        if self.largest is None:
            return labels * self.deviation.to(labels) + self.offset.to(labels)
        return labels * self.offset.to(labels).exp()

    def numbers(self, logits: Tensor) -> Tensor:
        """The outputs of a model in the unit of the user."""
        return in_unit(logits * self.deviation.to(logits) + self.offset.to(logits), self.largest)

    def loss(self, logits: Tensor, labels: Tensor, loss: NumberLoss) -> Tensor:
        r"""The mean squared error, or Huber's loss; on a logarithmic scale the deviance of a mean :math:`μ = e^z`.

        .. math:: 2 (y / μ - 1 - \log (y / μ)), \quad \text{with zeros} \quad 4 (\sqrt y - \sqrt μ)^2 / \sqrt μ

        These are the deviances of a gamma distribution, whose deviation is proportional to its mean, and of a
        Tweedie distribution of power 1.5, which has zeros.
        """
        if self.largest is None:
            return F.huber_loss(logits, labels) if loss == "huber" else F.mse_loss(logits, labels)
        if self.has_zeros:
            return 4 * ((-logits / 4).exp() * labels.clamp(min=0).sqrt() - (logits / 4).exp()).square().mean()
        ratio = labels * (-logits).exp()
        return 2 * (ratio - 1 + logits - labels.clamp(min=torch.finfo(labels.dtype).tiny).log()).mean()


def in_unit(logits: Tensor, largest: Tensor | Sequence[float] | None) -> Tensor:
    """What a trained model computes as numbers: itself, or its exponential, at most the largest training numbers."""
    if largest is None:
        return logits
    limit = torch.as_tensor(largest).to(logits)
    return torch.minimum(torch.minimum(logits, limit.log()).exp(), limit)


def usual_scales(labels: Tensor) -> tuple[NumberScale, ...]:
    """The scales on which numbers [B, outputs] may be learned, the usual one first.

    Numbers of which none is negative, with a few that are much larger than most: a logarithmic scale comes first.
    """
    y = labels.double()
    if not len(y) or bool((y < 0).any()):
        return ("linear",)
    centred = y - y.mean(0)
    deviation = centred.square().mean(0).sqrt()
    skewness = centred.pow(3).mean(0) / deviation.pow(3).clamp(min=1e-300)
    return ("log", "linear") if bool((skewness > SKEWED).all()) else ("linear",)


def stable_numbers(labels: Tensor) -> Tensor:
    """Numbers of a logarithmic scale whose spread does not grow with their mean, for a least-squares regression."""
    return labels.log() if bool((labels > 0).all()) else labels.pow(0.25)
