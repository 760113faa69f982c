"""Convolutions that know the types of nodes and edges: RGCN and HGT."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, HGTConv

from fastgtn.errors import InputError
from fastgtn.models.backbone import Backbone
from fastgtn.models.baselines.attention import attend, edge_dots
from fastgtn.models.baselines.edge_list import EdgeList, linear_map
from fastgtn.models.dropout import drop
from fastgtn.models.encoders import Encoder, InputLinear
from fastgtn.models.features import Features
from fastgtn.models.inputs import Input, as_sizes, check_hyper_parameters
from fastgtn.relations import IDENTITY, Relation, RelationStack
from fastgtn.relations.operator import Operator


class RelationalBackbone(Backbone):
    """Encoder and convolutions over the relations of a schema."""

    def __init__(
        self, in_features: int | Features, hidden: int, relations: Sequence[Relation], convs: Sequence[nn.Module], *,
        dropout: float, encoder: Encoder,
    ) -> None:  # fmt: skip
        super().__init__()
        check_hyper_parameters(num_layers=len(convs), dropout=dropout)
        self.dropout, self.out_features = dropout, hidden
        self.relations = tuple(relations)
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout, encoder=encoder)
        self.convs = nn.ModuleList(convs)

    @property
    def num_hops(self) -> int:
        return len(self.convs)

    def edges_toward(self, stack: RelationStack, rows: Tensor | None) -> EdgeList:
        """The typed edges around the rows; refused where the stack has other relations."""
        stack.hops(1).require_relations(self.relations)
        return EdgeList.of(stack).toward(rows, self.num_hops)


@dataclass(frozen=True, eq=False)
class TypedMessages:
    """Messages of all relations as one map: from (relation, sender) pairs to receivers, averaged per relation.

    Args:
        senders: For each relation, the nodes that send along it: their blocks stand one below the other.
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


def _proper(relations: Sequence[Relation]) -> list[Relation]:
    """All but the identity."""
    proper = [relation for relation in relations if relation != IDENTITY]
    if not proper:
        raise InputError("the graph has no relations, and this model learns a map for each: take another model.")
    return proper


class FusedRGCNConv(FastRGCNConv):  # type: ignore[misc]
    """RGCNConv that maps each sender once per relation, then sums all messages in our kernel."""

    def propagate(self, edge_index: TypedMessages, *, x: Tensor, **_: object) -> Tensor:
        weight = self.weight
        if self.comp is not None:
            weight = torch.einsum("rb,bio->rio", self.comp, weight)
        sent = torch.cat([x[nodes] @ weight[r] for r, nodes in enumerate(edge_index.senders)])
        return edge_index.operator.apply(sent[:, None], sent.new_ones(1, 1)).flatten(1)


class RGCN(RelationalBackbone):
    """Relational GCN of Schlichtkrull et al.: the mean over neighbours of each relation, with a map of its own.

    Args:
        num_bases: The maps of all relations are sums of this many; None for independent ones.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, relations: Sequence[Relation], *, num_layers: int = 2,
        num_bases: int | None = None, dropout: float = 0.5, encoder: Encoder = "linear",
    ) -> None:  # fmt: skip
        count = len(_proper(relations))
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


@dataclass(frozen=True, eq=False)
class TypedEdges:
    """The edges of each relation, between nodes that are numbered within their types.

    Args:
        nodes: For each node type, where its nodes stand among all.
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


class FusedHGTConv(HGTConv):  # type: ignore[misc]
    """HGTConv whose attention runs in our kernel, and whose maps of relations have a backward pass of their size.

    PyG's loop over relations and heads writes slices of one table; each slice would fill a whole one in the backward.
    """

    def _construct_src_node_feat(
        self, k_dict: dict[str, Tensor], v_dict: dict[str, Tensor], edge_index_dict: dict[tuple[str, str, str], Tensor]
    ) -> tuple[Tensor, Tensor, dict[tuple[str, str, str], int]]:
        sizes = [len(k_dict[edge_type[0]]) for edge_type in edge_index_dict]
        offset = dict(zip(edge_index_dict, itertools.accumulate(sizes, initial=0), strict=False))
        k, v = (
            torch.cat([self._mapped(table[edge_type[0]], maps.weight, edge_type) for edge_type in edge_index_dict])
            for table, maps in ((k_dict, self.k_rel), (v_dict, self.v_rel))
        )
        return k, v, offset

    def _mapped(self, x: Tensor, weight: Tensor, edge_type: tuple[str, str, str]) -> Tensor:
        """What one relation makes of its senders [N, H, D]: a map for each head."""
        by_head = weight.unflatten(0, (self.heads, -1))[:, self.edge_types_map[edge_type]]
        return torch.einsum("nhd,hde->nhe", x, by_head)

    def propagate(self, edge_index: Tensor, *, k: Tensor, q: Tensor, v: Tensor, edge_attr: Tensor) -> Tensor:
        scores = edge_dots(edge_index, q, k) * edge_attr / math.sqrt(q.size(-1))
        return attend(edge_index, scores, v, q.size(0)).flatten(1)


class HGT(RelationalBackbone):
    """Heterogeneous graph transformer of Hu et al.: attention with maps for each type of node and of edge.

    Args:
        heads: Attention heads side by side; together they are `hidden` wide.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, relations: Sequence[Relation], *, num_layers: int = 2,
        heads: int = 8, dropout: float = 0.5,
    ) -> None:  # fmt: skip
        proper = _proper(relations)
        types = sorted({end for relation in proper for end in relation[::2]})
        # Names of modules may not hold every character that a type may: number them instead.
        names = {r: (str(types.index(r.source)), str(n), str(types.index(r.target))) for n, r in enumerate(proper)}
        metadata = ([str(n) for n in range(len(types))], list(names.values()))
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
            # types that receive nothing stay as they are
            z = z.index_copy(0, torch.cat([plan.nodes[name] for name in out]), torch.cat(list(out.values())))
        return z[: plan.num_targets]
