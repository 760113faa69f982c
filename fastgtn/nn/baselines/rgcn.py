"""RGCN: a map for each relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import torch
from torch import Tensor

from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.parts.edge_list import EdgeList, linear_map
from fastgtn.nn.baselines.parts.option_groups import EncoderOptions
from fastgtn.nn.baselines.parts.relational import RelationalBackbone, proper_relations
from fastgtn.nn.inputs.checks import Input
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Choice, Count
from fastgtn.relations import IDENTITY, Relation, RelationStack
from fastgtn.relations.kernels.dropout import drop
from fastgtn.relations.operator import Operator


@dataclass(frozen=True, eq=False)
class TypedMessages:
    """Messages of all relations as one map: from (relation, sender) pairs to receivers, averaged per relation.

    Args:
        senders: For each relation, the nodes that send along it: their blocks are stacked.
    """

    operator: Operator
    senders: tuple[Tensor, ...]
    inputs: Tensor | None
    num_targets: int
    cost: int

    @staticmethod
    def of(edges: EdgeList, num_relations: int) -> TypedMessages:
        pair, column = (edges.relation * edges.num_nodes + edges.cols).unique(return_inverse=True)
        ends = torch.searchsorted(pair, torch.arange(num_relations + 1) * edges.num_nodes)
        senders = tuple((pair % max(edges.num_nodes, 1))[a:b] for a, b in pairwise(ends.tolist()))
        group, place = (edges.relation * edges.num_nodes + edges.rows).unique(return_inverse=True)
        count = torch.bincount(place, minlength=len(group))[place]
        operator = linear_map(edges.rows, column, 1 / count, (edges.num_nodes, len(pair)))
        return TypedMessages(operator, senders, edges.inputs, edges.num_targets, edges.cost)


class RGCN(RelationalBackbone):
    """Relational GCN of Schlichtkrull et al.: the mean over the neighbours of each relation, with one map per relation.

    Args:
        num_bases: Number of basis maps that all relations share; None for independent maps.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        relations: Sequence[Relation],
        *,
        num_layers: int = 2,
        num_bases: int | None = None,
        dropout: float = 0.5,
        encoder: Encoder = "linear",
    ) -> None:
        count = len(proper_relations(relations))
        from fastgtn.nn.baselines.parts.fused_layers import FusedRGCNConv

        convs = [FusedRGCNConv(hidden, hidden, count, num_bases=num_bases) for _ in range(num_layers)]
        super().__init__(in_features, hidden, relations, convs, dropout=dropout, encoder=encoder)

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> TypedMessages:
        edges = self.edges_toward(stack, rows)
        return TypedMessages.of(edges, sum(relation != IDENTITY for relation in self.relations))

    def forward(self, x: Input, graph: RelationStack | TypedMessages) -> Tensor:
        """Representations of all nodes, or of the planned rows."""
        plan = self.plan(graph) if isinstance(graph, RelationStack) else graph
        z = self.input(Features.of(x))
        for number, conv in enumerate(self.convs):
            z = torch.relu(conv(drop(z, self.dropout, self.training) if number else z, plan))
        return z[: plan.num_targets]


@describes(RGCN, "RGCN")
class RGCNOptions(EncoderOptions):
    """The keys of RGCN. Without `num_bases`, relations share no weights."""

    name: Literal["rgcn"]
    num_bases: Annotated[Count | None, Choice((None, 2, 4))]

    @property
    def floats_per_node(self) -> int:
        """The messages to several relations are kept side by side."""
        return 4 * self.hidden
