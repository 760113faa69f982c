"""The part of a one-layer model that is a sum over meta-paths, and what comes after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.insight.unrolled import Model, backbone_of, fast_gtn_layer, walks_of
from fastgtn.models import GTN, FastGTN, Features
from fastgtn.models.aggregate import ChannelAggregation
from fastgtn.relations import RelationStack
from fastgtn.relations.metapaths import MetaPath
from fastgtn.relations.walks import Array, Walks


@dataclass(frozen=True, eq=False)
class Messages:
    r"""What some of the paths bring to each target node, :math:`\sum_p w_p A_p Z` and :math:`\sum_p w_p A_p 1`."""

    values: Array  # [n, d, C]
    mass: Array  # [n, C]

    def __sub__(self, other: Messages) -> Messages:
        mass = self.mass - other.mass
        left = mass > 1e-12 * self.mass  # a difference of equals is rounding, not mass
        return Messages((self.values - other.values) * left[:, None], mass * left)


class LinearPart:
    r"""A one-layer model taken apart, :math:`F_1 ⋯ F_K Z = \sum_p w_p A_p Z`, for the nodes of one type.

    With non-local operations the edges are those of the features at hand, and are held fixed.
    """

    def __init__(self, model: Model, stack: RelationStack, features: Features | Tensor, target: str) -> None:
        backbone = backbone_of(model)
        layers = backbone.num_layers
        if layers > 1:
            raise InputError(f"only a model of one layer is a sum over meta-paths, but this one has {layers} layers.")
        self.backbone = backbone
        self.walks: Walks = walks_of(model, stack, features=features)
        self.kind = stack.node_types.index(target)
        self.inputs = _inputs(backbone, Features.of(features), stack)
        self.own = self.inputs[self.kind]  # [n, d, C]
        every = self.walks.product(self.inputs)[self.kind]
        self.whole = Messages(every, self.walks.totals()[self.kind])

    def along(self, path: MetaPath) -> Messages:
        """What one meta-path brings."""
        steps = self.walks.numbers(path)
        if steps is None:
            return Messages(np.zeros_like(self.own), np.zeros_like(self.whole.mass))
        end = self.walks.steps[steps[-1]].far if steps else self.kind
        ones = np.ones((len(self.inputs[end]), 1, self.own.shape[2]))
        both = self.walks.along(self.kind, steps, np.concatenate([self.inputs[end], ones], axis=1))
        return Messages(both[:, :-1], both[:, -1])

    def scaled(self, messages: Messages) -> tuple[Array, Array]:
        """Weights of own features [n, 1, C] and messages, as the layer adds them up before its activation.

        The mass of the messages is brought to that of all paths: dropping a path makes the others heavier.
        """
        has = messages.mass > 0
        mass = np.where(has, messages.mass, 1.0)
        if isinstance(self.backbone, FastGTN):
            gamma = fast_gtn_layer(self.backbone, 0).gamma
            part = np.where(has, (1 - gamma) * self.whole.mass / mass, 0.0)
            return np.full_like(part, gamma)[:, None], part[:, None]
        gamma = self.backbone.gamma
        degree = self.whole.mass if self.backbone.path_length == 1 else np.ones_like(mass)
        total = np.where(has, degree, 0.0) + gamma
        total = np.where(total > 0, total, 1.0)
        return (gamma / total)[:, None], np.where(has, degree / (mass * total), 0.0)[:, None]

    def hidden(self, messages: Messages, rows: Tensor | None = None) -> Tensor:
        """What enters the activation, [rows, C, d], if these were all the paths."""
        own, part = self.scaled(messages)
        before = torch.from_numpy(own * self.own + part * messages.values).transpose(1, 2)
        if rows is not None:
            before = before[rows]
        return before + self.bias

    @property
    def bias(self) -> Tensor:
        """What the layer adds to every node before its activation, [C, d]; that of a GTN is in its inputs."""
        bias = fast_gtn_layer(self.backbone, 0).bias if isinstance(self.backbone, FastGTN) else None
        d, C = self.own.shape[1:]
        return torch.zeros(C, d, dtype=torch.float64) if bias is None else bias.detach().double()

    @property
    def aggregate(self) -> ChannelAggregation:
        """What follows: the activation and the aggregation of channels."""
        if isinstance(self.backbone, FastGTN):
            return fast_gtn_layer(self.backbone, 0).aggregate
        return cast(ChannelAggregation, self.backbone.aggregates[0])


@torch.no_grad()
def _inputs(backbone: FastGTN | GTN, features: Features, stack: RelationStack) -> list[Array]:
    """The transformed features of each type, [n, d, C] in float64."""
    was_training = backbone.training
    z = backbone.eval().encode(features)
    backbone.train(was_training)
    if isinstance(backbone, GTN):
        z = z if backbone.biases is None else z + backbone.biases[0]
        z = z[:, None].expand(-1, backbone.num_channels, -1)
    else:
        z = z.unflatten(1, (backbone.num_channels, -1))
    values = z.double().transpose(1, 2).contiguous().numpy()  # [N, d, C]
    return [values[stack.nodes_of(t).start : stack.nodes_of(t).stop] for t in stack.node_types]
