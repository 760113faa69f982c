r"""Explain the prediction of one node: the contributions of meta-paths, the node itself and the biases to a logit.

With the activation pattern of the node held fixed, a one-layer model is linear in what enters the activation, so the
logit is a sum of one term per meta-path, one for the node's own features and one for the biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.explain.gates import Gates
from fastgtn.explain.instances import Instance, heaviest_instances
from fastgtn.explain.linear import LinearPart
from fastgtn.explain.ranking import RankedPath, rank_metapaths
from fastgtn.explain.walks import backbone_of
from fastgtn.nn import Features, NodeClassifier
from fastgtn.notebook import html_table, text_table
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.paths.walks import Array


@dataclass(frozen=True)
class Reason:
    """The contribution of one meta-path to the logit of the explained class, and its heaviest instances."""

    path: RankedPath
    contribution: float
    instances: tuple[Instance, ...]


@dataclass(frozen=True)
class Reasons:
    """The parts of one logit, which add up to the logit.

    Args:
        own: Contribution of the node's own features (γ).
        empty: Contribution of walks that never leave the node.
        bias: Contribution of the biases of the layer, the aggregation and the head.
        others: Contribution of all meta-paths that are not listed.
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

    def __repr__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        parts = [(reason.path.name, reason.contribution, _shown(reason)) for reason in self.reasons]
        parts += [("other paths", self.others, ""), ("the node itself (empty path)", self.empty, "")]
        parts += [("the node's own features (γ)", self.own, ""), ("bias", self.bias, "")]
        rows = [[name, f"{value:+z.3f}", example] for name, value, example in [*parts, ("together", self.logit, "")]]
        return f"logit of class {self.class_number} at node {self.node}", ["from", "adds", "heaviest instance"], rows


def _shown(reason: Reason) -> str:
    """The heaviest instance of a path, with nodes as types and numbers."""
    if not reason.instances:
        return ""
    pairs = zip(reason.path.path.types, reason.instances[0].nodes, strict=True)
    return " ← ".join(f"{node_type} {number}" for node_type, number in pairs)


@torch.no_grad()
def explain_node(
    model: NodeClassifier,
    stack: RelationStack,
    features: Features | Tensor,
    target: str,
    node: int,
    *,
    class_number: int | None = None,
    top: int = 10,
    instances: int = 3,
) -> Reasons:
    """Decompose the logit of one node. Only nodes within K hops are read, unless the model is non-local.

    Args:
        node: Its number within the target type.
        class_number: The class of the logit; by default the predicted one.
        top: Number of meta-paths: the heaviest at this node, in the order of their contributions.
        instances: Number of concrete paths to show for each.
    """
    around = Surroundings.of(model, stack, Features.of(features), target, node)
    here, part = around.node, LinearPart(model, around.stack, around.features, target)
    before = part.hidden(part.whole, torch.tensor([here]))  # [1, C, d]
    gates = Gates.of(model, part.aggregate, before)
    constant = gates.constant[0]
    logits = gates.logits(before)[0] + constant
    number = int(logits.argmax()) if class_number is None else class_number
    own_scale, scale = (side[here] for side in part.scaled(part.whole))

    def term(values: Array) -> float:
        return float(gates.logits(torch.from_numpy(values).T[None])[0, number])

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
        bias=float(constant[number] + gates.logits(part.bias[None])[0, number]),
        others=every - empty - sum(reason.contribution for reason in reasons),
    )


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The part of a graph that one node depends on."""

    stack: RelationStack
    features: Features
    node: int  # number of the node within its type, here
    nodes: dict[str, Tensor] | None  # the node numbers in the whole graph, by type; None if this is the whole graph

    @staticmethod
    def of(model: NodeClassifier, stack: RelationStack, features: Features, target: str, node: int) -> Surroundings:
        place = stack.nodes_of(target)
        if not 0 <= node < len(place):
            raise InputError(f"{target} node {node} does not exist: {target} nodes are numbered 0 … {len(place) - 1}.")
        backbone = backbone_of(model)
        if backbone.sees_all_nodes:
            return Surroundings(stack, features, node, None)
        inside = backbone.plan(stack, torch.tensor([place.start + node])).inputs
        assert inside is not None
        inside = inside.sort().values  # grouped by type
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
