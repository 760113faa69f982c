"""Combine the channels of a layer into one representation."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError, nearest
from fastgtn.nn.row_linear import RowLinear

Aggregation = Literal["concat", "mean", "sum", "none"]
Activation = Literal["relu", "elu", "tanh", "none"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "elu": nn.functional.elu,
    "tanh": torch.tanh,
    "none": lambda z: z,
}


class ChannelAggregation(nn.Module):
    r"""The activation per channel, then :math:`f_{agg}`: [B, C, d] → [B, out].

    Args:
        mode: ``"concat"`` concatenates channels and maps them back to d with a linear layer and the
            activation; ``"mean"`` and ``"sum"`` reduce; ``"none"`` only concatenates them.
    """

    def __init__(self, mode: Aggregation, num_channels: int, features: int, *, activation: Activation) -> None:
        super().__init__()
        modes = ("concat", "mean", "sum", "none")
        if mode not in modes:
            raise InputError(f'no aggregation "{mode}"; {nearest(mode, modes)}')
        if activation not in ACTIVATIONS:
            raise InputError(f'no activation "{activation}"; {nearest(activation, ACTIVATIONS)}')
        self.mode, self.activation = mode, activation
        self.out_features = num_channels * features if mode == "none" else features
        self.linear = RowLinear(num_channels * features, features) if mode == "concat" else None

    def forward(self, z: Tensor) -> Tensor:
        sigma = ACTIVATIONS[self.activation]
        z = sigma(z)
        if self.linear is not None:
            return sigma(self.linear(z.flatten(1)))
        if self.mode == "none":
            return z.flatten(1)
        return z.mean(1) if self.mode == "mean" else z.sum(1)

    def extra_repr(self) -> str:
        return f"{self.mode}, activation={self.activation}"
