r"""Why one node got its prediction: what each meta-path, the node itself and the biases add to a logit.

With the activation pattern of the node held fixed, a one-layer model is linear in what enters the activation, so the
logit is a sum of one term per meta-path, one for the node's own features and one for the biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.insight.instances import Instance, heaviest_instances
from fastgtn.insight.linear_part import LinearPart
from fastgtn.insight.ranking import RankedPath, rank_metapaths
from fastgtn.insight.unrolled import backbone_of
from fastgtn.models import Features, NodeClassifier
from fastgtn.models.aggregate import ACTIVATIONS, ChannelAggregation
from fastgtn.relations import RelationStack
from fastgtn.relations.metapaths import MetaPath
from fastgtn.relations.walks import Array


@dataclass(frozen=True)
class Reason:
    """What one meta-path adds to the logit of the explained class, and its heaviest instances."""

    path: RankedPath
    contribution: float
    instances: tuple[Instance, ...]


@dataclass(frozen=True)
class Reasons:
    """The parts of one logit. They add up to it.

    Args:
        own: From the node's own features by γ.
        empty: From walks of the learned graph that never leave the node.
        bias: From the biases of the layer, the aggregation and the head.
        others: From all meta-paths that are not listed.
    """

    node: int
    class_number: int
    logits: tuple[float, ...]
    reasons: tuple[Reason, ...]
    own: float
    empty: float
    bias: float
    others: float

    @property
    def logit(self) -> float:
        return self.logits[self.class_number]


@torch.no_grad()
def explain_node(
    model: NodeClassifier, stack: RelationStack, features: Features | Tensor, target: str, node: int, *,
    class_number: int | None = None, top: int = 10, instances: int = 3,
) -> Reasons:  # fmt: skip
    """Take the logit of one node apart; only the nodes within its K hops are read, unless the model is non-local.

    Args:
        node: Its number within the target type.
        class_number: Which logit; by default the largest.
        top: How many meta-paths: the heaviest at this node, listed by what they contribute.
        instances: How many concrete paths to show for each.
    """
    around = Surroundings.of(model, stack, Features.of(features), target, node)
    here, part = around.node, LinearPart(model, around.stack, around.features, target)
    before = part.hidden(part.whole, torch.tensor([here]))  # [1, C, d]
    logits, slope, constant = linearized(model, part.aggregate, before)
    number = int(logits.argmax()) if class_number is None else class_number
    weight = slope[number]  # [C, d]
    own_scale, scale = (side[here] for side in part.scaled(part.whole))

    def term(values: Array) -> float:
        return float((weight * torch.from_numpy(values).T).sum())

    def along(path: MetaPath) -> float:
        return term(scale * part.along(path).values[here])

    ranking = rank_metapaths(model, around.stack, target, nodes=[here], top=top, features=around.features)
    reasons = []
    for ranked in ranking:
        found = heaviest_instances(part.walks, ranked.path, here, total=part.whole.mass[here], top=instances)
        named = tuple(around.renumbered(instance, ranked.path.types) for instance in found)
        reasons.append(Reason(ranked, along(ranked.path), named))
    own, empty = term(own_scale * part.own[here]), along(MetaPath((), (target,)))
    every = term(scale * part.whole.values[here])
    return Reasons(
        node=node,
        class_number=number,
        logits=tuple(logits.tolist()),
        reasons=tuple(sorted(reasons, key=lambda reason: -abs(reason.contribution))),
        own=own,
        empty=empty,
        bias=float(constant[number] + (weight * part.bias).sum()),
        others=every - empty - sum(reason.contribution for reason in reasons),
    )


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The part of a graph that one node depends on."""

    stack: RelationStack
    features: Features
    node: int  # number of the node within its type, here
    nodes: dict[str, Tensor] | None  # what the nodes of each type are called outside; None for the whole graph

    @staticmethod
    def of(model: NodeClassifier, stack: RelationStack, features: Features, target: str, node: int) -> Surroundings:
        place = stack.nodes_of(target)
        if not 0 <= node < len(place):
            raise InputError(f"there is no {target} node {node}: they are numbered 0 … {len(place) - 1}.")
        backbone = backbone_of(model)
        if backbone.sees_all_nodes:
            return Surroundings(stack, features, node, None)
        inside = backbone.plan(stack, torch.tensor([place.start + node])).inputs
        assert inside is not None
        inside = inside.sort().values  # type after type
        ranges = {t: stack.nodes_of(t) for t in stack.node_types}
        nodes = {t: inside[(inside >= r.start) & (inside < r.stop)] - r.start for t, r in ranges.items()}
        here = int((nodes[target] == node).nonzero())
        return Surroundings(stack.subset(inside), features.select(inside), here, nodes)

    def renumbered(self, instance: Instance, types: Sequence[str]) -> Instance:
        """An instance in the numbers of the whole graph."""
        if self.nodes is None:
            return instance
        nodes = tuple(int(self.nodes[t][n]) for t, n in zip(types, instance.nodes, strict=True))
        return Instance(nodes, instance.weight)


def linearized(model: NodeClassifier, aggregate: ChannelAggregation, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of one node [1, C, d], and the linear map from `before` to them under its activation pattern.

    Returns logits [classes], slopes [classes, C, d] and constants [classes]; the pattern of an activation σ is
    σ(z) / z, for ReLU zero or one.
    """
    _, C, d = before.shape
    sigma = ACTIVATIONS[aggregate.activation]
    head, head_bias = model.head.weight.double(), model.head.bias.double()
    first = _pattern(sigma(before), before)[0]  # [C, d]
    after = first * before[0]
    if aggregate.linear is not None:
        linear, bias = aggregate.linear.weight.double(), aggregate.linear.bias.double()
        inner = linear @ after.flatten() + bias
        gated = head * _pattern(sigma(inner), inner)
        slope, constant = gated @ linear, gated @ bias + head_bias
    else:
        copies = {"none": head, "mean": head.repeat(1, C) / C, "sum": head.repeat(1, C)}
        slope, constant = copies[aggregate.mode], head_bias
    slope = slope.unflatten(1, (C, d)) * first
    return (slope * before[0]).sum((1, 2)) + constant, slope, constant


def _pattern(after: Tensor, before: Tensor) -> Tensor:
    return torch.where(before != 0, after / torch.where(before != 0, before, 1.0), 0.0)
