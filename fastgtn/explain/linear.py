"""The linear part of a one-layer model, which is a sum over meta-paths, and the layers after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.explain.walks import Model, backbone_of, walks_of
from fastgtn.nn import Features, MetaPathModel
from fastgtn.nn.aggregate import ChannelAggregation
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.paths.walks import Array, Walks


@dataclass(frozen=True, eq=False)
class Messages:
    r"""The contribution of some paths to each target node, :math:`\sum_p w_p A_p Z` and :math:`\sum_p w_p A_p 1`."""

    values: Array  # [n, d, C]
    mass: Array  # [n, C]

    def __sub__(self, other: Messages) -> Messages:
        mass = self.mass - other.mass
        left = mass > 1e-12 * self.mass  # a smaller difference is a rounding error
        return Messages((self.values - other.values) * left[:, None], mass * left)


class LinearPart:
    r"""The decomposition of a one-layer model, :math:`F_1 ⋯ F_K Z = \sum_p w_p A_p Z`, for the nodes of one type.

    With non-local operations, the edges of the given features are used and held fixed.
    """

    def __init__(self, model: Model, stack: RelationStack, features: Features | Tensor, target: str) -> None:
        backbone = backbone_of(model)
        layers = backbone.num_layers
        if layers > 1:
            raise InputError(f"only a model of one layer is a sum over meta-paths, but this one has {layers} layers.")
        self.backbone = backbone
        self.walks: Walks = walks_of(model, stack, features=features)
        self.kind = stack.node_types.index(target)
        self.inputs = _by_type(backbone, backbone.channel_inputs, Features.of(features), stack)
        self.own = _by_type(backbone, backbone.own_inputs, Features.of(features), stack)[self.kind]  # [n, d, C]
        every = self.walks.product(self.inputs)[self.kind]
        self.whole = Messages(every, self.walks.totals()[self.kind])

    def along(self, path: MetaPath) -> Messages:
        """The contribution of one meta-path."""
        steps = self.walks.numbers(path)
        if steps is None:
            return Messages(np.zeros_like(self.own), np.zeros_like(self.whole.mass))
        end = self.walks.steps[steps[-1]].far if steps else self.kind
        ones = np.ones((len(self.inputs[end]), 1, self.own.shape[2]))
        both = self.walks.along(self.kind, steps, np.concatenate([self.inputs[end], ones], axis=1))
        return Messages(both[:, :-1], both[:, -1])

    def scaled(self, messages: Messages) -> tuple[Array, Array]:
        """The weights of own features [n, 1, C] and messages before the activation of the layer.

        The messages are rescaled to the weight of all paths: dropping a path makes the others heavier.
        """
        has = messages.mass > 0
        mass = np.where(has, self.whole.mass, 0.0)
        own, part = (weights.numpy() for weights in self.backbone.mixing(torch.from_numpy(mass)))
        part = part * mass / np.where(has, messages.mass, 1.0)
        return own[:, None], part[:, None]

    def hidden(self, messages: Messages, rows: Tensor | None = None) -> Tensor:
        """The input of the activation, [rows, C, d], if there were only these paths."""
        own, part = self.scaled(messages)
        before = torch.from_numpy(own * self.own + part * messages.values).transpose(1, 2)
        if rows is not None:
            before = before[rows]
        return before + self.bias

    @property
    def bias(self) -> Tensor:
        """The bias of the layer before its activation, [C, d]; the bias of a GTN is part of its inputs."""
        bias = self.backbone.layer_bias()
        d, C = self.own.shape[1:]
        return torch.zeros(C, d, dtype=torch.float64) if bias is None else bias.detach().double()

    @property
    def aggregate(self) -> ChannelAggregation:
        """The activation and the aggregation of channels."""
        return self.backbone.aggregations()[0]


@torch.no_grad()
def _by_type(
    backbone: MetaPathModel, read: Callable[[Features], Tensor], features: Features, stack: RelationStack
) -> list[Array]:
    """What a model reads of the nodes of each type, [n, d, C] in float64."""
    was_training = backbone.training
    backbone.eval()
    z = read(features)
    backbone.train(was_training)
    values = z.double().transpose(1, 2).contiguous().numpy()  # [N, d, C]
    return [values[stack.nodes_of(t).start : stack.nodes_of(t).stop] for t in stack.node_types]
