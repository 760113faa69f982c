"""The layers after the hops, held at the activation pattern of each node: a linear map from messages to logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.nn import NodeClassifier
from fastgtn.nn.aggregate import ACTIVATIONS, ChannelAggregation


@dataclass(frozen=True, eq=False)
class Gates:
    r"""The activation pattern of some nodes, :math:`σ(z) / z`, for ReLU zero or one.

    With the pattern held fixed the logits are linear in the input of the activation, so they are a sum over whatever
    that input is a sum of. Build it with :meth:`of`.
    """

    model: NodeClassifier
    passed: Callable[[Tensor], Tensor]  # [n, C, d] → [n, out]
    added: Tensor  # [n, out]

    @staticmethod
    def of(model: NodeClassifier, aggregate: ChannelAggregation, before: Tensor) -> Gates:
        """From the input of the activation, [n, C, d] in float64."""
        return Gates(model, *activation_gates(aggregate, before))

    def logits(self, values: Tensor) -> Tensor:
        """The part of the logits [n, classes] that comes from a part of the input [n, C, d]; without the biases."""
        return self.passed(values) @ self.model.head.weight.double().T

    @property
    def constant(self) -> Tensor:
        """The part of the biases of the aggregation and the head, [n, classes]."""
        head = self.model.head
        return self.added @ head.weight.double().T + head.bias.double()


def activation_gates(aggregate: ChannelAggregation, before: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The linear map from what enters the activation, [n, C, d], to representations, with the gates of `before` fixed.

    Returns the map [n, C, d] → [n, out] without its constant, and the constant, [n, out].
    """
    sigma = ACTIVATIONS[aggregate.activation]
    first = _pattern(sigma(before), before)
    if aggregate.linear is not None:
        linear, bias = aggregate.linear.weight.double(), aggregate.linear.bias.double()
        inner = (first * before).flatten(1) @ linear.T + bias
        second = _pattern(sigma(inner), inner)
        return lambda part: second * ((first * part).flatten(1) @ linear.T), second * bias
    reduce = {"none": lambda z: z.flatten(1), "mean": lambda z: z.mean(1), "sum": lambda z: z.sum(1)}[aggregate.mode]
    return lambda part: reduce(first * part), reduce(torch.zeros_like(before))


def _pattern(after: Tensor, before: Tensor) -> Tensor:
    return torch.where(before != 0, after / torch.where(before != 0, before, 1.0), 0.0)
