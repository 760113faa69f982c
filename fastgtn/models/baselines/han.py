"""HAN: attention over neighbours along meta-paths that people chose, then over the meta-paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import HANConv

from fastgtn.errors import InputError
from fastgtn.models.backbone import Backbone
from fastgtn.models.baselines.attention import attend, edge_sums
from fastgtn.models.baselines.predefined import Written, metapaths_of, neighbors_along
from fastgtn.models.dropout import drop
from fastgtn.models.encoders import Encoder, InputLinear
from fastgtn.models.features import Features
from fastgtn.models.inputs import Input, as_sizes, check_hyper_parameters
from fastgtn.relations import Relation, RelationStack

_NODE = "0"  # the convolution sees nodes of one type at a time
EdgeType = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class PathGraphs:
    """For each node type that meta-paths start from: its nodes, and their neighbours along each path.

    The weights of paths are means over all nodes of the type, so all of them are computed, wanted or not.
    """

    groups: tuple[tuple[Tensor, dict[EdgeType, Tensor]], ...]
    num_nodes: int  # rows of the result
    inputs: Tensor | None

    @property
    def cost(self) -> int:
        return sum(edges.size(1) for _, graphs in self.groups for edges in graphs.values())


class FusedHANConv(HANConv):  # type: ignore[misc]
    """HANConv whose attention over neighbours runs in our kernel."""

    def propagate(self, edge_index: Tensor, *, x: tuple[Tensor, Tensor], alpha: tuple[Tensor, Tensor]) -> Tensor:
        scores = edge_sums(edge_index, alpha[1], alpha[0], slope=self.negative_slope)
        dropout = self.dropout if self.training else 0.0
        return attend(edge_index, scores, x[0], x[1].size(0), dropout=dropout).flatten(1)


class HAN(Backbone):
    """Heterogeneous graph attention network of Wang et al.; only types with meta-paths are computed.

    Args:
        metapaths: Such as ``["APA", "APCPA"]``, or names of relations from the target outwards, ``["PA", "AP"]``.
            Empty: all that leave a type and return in the next step.
        max_neighbors: Neighbours of a node along a path, those with most instances of it; 0 for all.
    """

    def __init__(
        self, in_features: int | Features, hidden: int, relations: Sequence[Relation], *,
        metapaths: Sequence[Written] = (), num_layers: int = 1, heads: int = 8, max_neighbors: int = 100,
        dropout: float = 0.5, attention_dropout: float = 0.5, encoder: Encoder = "linear",
    ) -> None:  # fmt: skip
        super().__init__()
        check_hyper_parameters(num_layers=num_layers, dropout=dropout)
        self.metapaths = metapaths_of(relations, metapaths)
        self.max_neighbors, self.out_features = max_neighbors, hidden
        self.feature_dropout, self.dropout = dropout, max(dropout, attention_dropout)
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout, encoder=encoder)
        metadata = ([_NODE], [self._edge_type(number) for number in range(len(self.metapaths))])
        options: dict[str, Any] = {"heads": heads, "dropout": attention_dropout}
        self.convs = nn.ModuleList(FusedHANConv(hidden, hidden, metadata, **options) for _ in range(num_layers))

    @property
    def num_hops(self) -> int:
        return len(self.convs) * max(len(path) for path in self.metapaths)

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> PathGraphs:
        """The meta-path graphs of all types, or of the type of the rows."""
        types = dict.fromkeys(path.types[0] for path in self.metapaths)
        if rows is None or not len(rows):
            nodes = [torch.tensor(stack.nodes_of(t), dtype=torch.int64) for t in types]
            groups = tuple((n, self._graphs(stack, t, n)) for t, n in zip(types, nodes, strict=True))
            return PathGraphs(groups, stack.num_nodes, None)
        ends = torch.tensor(stack.node_counts).cumsum(0)
        found = {stack.node_types[n] for n in torch.bucketize(rows, ends, right=True).unique().tolist()}
        if len(found) > 1 or not found <= set(types):
            raise InputError(
                f"HAN computes nodes of one type that its meta-paths start from ({', '.join(types)}), but wanted are "
                f"nodes of {', '.join(sorted(found))}: write paths of that type in model.metapaths."
            )
        target = found.pop()
        rest = torch.ones(stack.num_nodes, dtype=torch.bool)
        rest[rows] = False
        others = torch.tensor(stack.nodes_of(target), dtype=torch.int64)
        nodes_of_type = torch.cat([rows, others[rest[others]]])
        graphs = self._graphs(stack, target, nodes_of_type)
        return PathGraphs(((torch.arange(len(nodes_of_type)), graphs),), len(rows), nodes_of_type)

    def forward(self, x: Input, graph: RelationStack | PathGraphs) -> Tensor:
        """Representations of all nodes, zero for types without meta-paths; or of the planned rows."""
        plan = self.plan(graph) if isinstance(graph, RelationStack) else graph
        features = self.input(Features.of(x))
        out = features.new_zeros(len(features), self.out_features)
        for nodes, graphs in plan.groups:
            z = features[nodes]
            for number, conv in enumerate(self.convs):
                z = drop(z, self.feature_dropout, self.training) if number else z
                z = conv({_NODE: z}, graphs)[_NODE]
            out = out.index_copy(0, nodes, z)
        return out[: plan.num_nodes]

    def _graphs(self, stack: RelationStack, node_type: str, nodes: Tensor) -> dict[EdgeType, Tensor]:
        return {
            self._edge_type(number): neighbors_along(stack, path, nodes, self.max_neighbors)
            for number, path in enumerate(self.metapaths)
            if path.types[0] == node_type
        }

    @staticmethod
    def _edge_type(number: int) -> EdgeType:
        return (_NODE, str(number), _NODE)
