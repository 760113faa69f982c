"""HGT: attention with maps for each type of node and of edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.nn.baselines.parts.option_groups import AttentionOptions
from fastgtn.nn.baselines.parts.relational import RelationalBackbone, proper_relations
from fastgtn.nn.inputs.checks import Input
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.kernels.dropout import drop


@dataclass(frozen=True, eq=False)
class TypedEdges:
    """The edges of each relation, between nodes that are numbered within their types.

    Args:
        nodes: For each node type, the positions of its nodes among all nodes.
        edges: For each relation [from; to], in PyG's form.
    """

    nodes: dict[str, Tensor]
    edges: dict[tuple[str, str, str], Tensor]
    inputs: Tensor | None
    num_targets: int
    cost: int

    @staticmethod
    def of(edges: EdgeList, stack: RelationStack, names: dict[Relation, tuple[str, str, str]]) -> TypedEdges:
        everything = torch.arange(edges.num_nodes) if edges.inputs is None else edges.inputs
        within = torch.empty(edges.num_nodes, dtype=torch.int64)
        types = {
            end: name for relation, key in names.items() for end, name in zip(relation[::2], key[::2], strict=True)
        }
        nodes = {}
        for node_type, name in types.items():
            span = stack.nodes_of(node_type)
            nodes[name] = ((everything >= span.start) & (everything < span.stop)).nonzero()[:, 0]
            within[nodes[name]] = torch.arange(len(nodes[name]))
        typed = {}
        for number, key in enumerate(names.values()):
            mine = (edges.relation == number).nonzero()[:, 0]
            typed[key] = torch.stack([within[edges.cols[mine]], within[edges.rows[mine]]])
        return TypedEdges(nodes, typed, edges.inputs, edges.num_targets, edges.cost)


class HGT(RelationalBackbone):
    """Heterogeneous graph transformer of Hu et al.: attention with maps for each type of node and of edge.

    Args:
        heads: Number of attention heads; their total width is `hidden`.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        relations: Sequence[Relation],
        *,
        num_layers: int = 2,
        heads: int = 8,
        dropout: float = 0.5,
    ) -> None:
        proper = proper_relations(relations)
        types = sorted({end for relation in proper for end in relation[::2]})
        # Names of modules do not allow every character of a type name, so types are numbered.
        names = {r: (str(types.index(r.source)), str(n), str(types.index(r.target))) for n, r in enumerate(proper)}
        metadata = ([str(n) for n in range(len(types))], list(names.values()))
        from fastgtn.nn.baselines.parts.fused_layers import FusedHGTConv

        convs = [FusedHGTConv(hidden, hidden, metadata, heads) for _ in range(num_layers)]
        super().__init__(in_features, hidden, relations, convs, dropout=dropout, encoder="relu")
        self.names = names

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> TypedEdges:
        return TypedEdges.of(self.edges_toward(stack, rows), stack, self.names)

    def forward(self, x: Input, graph: RelationStack | TypedEdges) -> Tensor:
        """Representations of all nodes, or of the planned rows."""
        plan = self.plan(graph) if isinstance(graph, RelationStack) else graph
        z = self.input(Features.of(x))
        for number, conv in enumerate(self.convs):
            z = drop(z, self.dropout, self.training) if number else z
            out = conv({name: z[nodes] for name, nodes in plan.nodes.items()}, plan.edges)
            # types without incoming messages do not change
            z = z.index_copy(0, torch.cat([plan.nodes[name] for name in out]), torch.cat(list(out.values())))
        return z[: plan.num_targets]


@describes(HGT, "HGT")
class HGTOptions(AttentionOptions):
    """The keys of HGT."""

    name: Literal["hgt"]

    @property
    def floats_per_node(self) -> int:
        """Keys, queries and values are kept beside the features."""
        return 4 * self.hidden
