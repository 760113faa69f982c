"""HAN: attention over neighbours along given meta-paths, then over the meta-paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.backbone import Backbone
from fastgtn.nn.backbone_options import describes
from fastgtn.nn.baselines.parts.option_groups import AttentionOptions, EncoderOptions
from fastgtn.nn.baselines.parts.predefined import Written, metapaths_of, neighbors_along
from fastgtn.nn.inputs.checks import Input, as_sizes, check_hyper_parameters
from fastgtn.nn.inputs.encoders import Encoder, InputLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Choice, Layers, Numbers, Share
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.kernels.dropout import drop

_NODE = "0"  # the convolution handles one node type at a time
EdgeType = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class PathGraphs:
    """For each node type that meta-paths start from: its nodes, and their neighbours along each path.

    The weights of paths are means over all nodes of the type, so all of them are computed.
    """

    groups: tuple[tuple[Tensor, dict[EdgeType, Tensor]], ...]
    num_nodes: int  # rows of the result
    inputs: Tensor | None

    @property
    def cost(self) -> int:
        return sum(edges.size(1) for _, graphs in self.groups for edges in graphs.values())


class HAN(Backbone):
    """Heterogeneous graph attention network of Wang et al.; only types with meta-paths are computed.

    Args:
        metapaths: Such as ``["APA", "APCPA"]``, or names of relations from the target outwards, ``["PA", "AP"]``.
            If empty, all paths that leave a type and return in the next step.
        max_neighbors: Number of neighbours of a node along a path, those with the most instances; 0 for all.
    """

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        relations: Sequence[Relation],
        *,
        metapaths: Sequence[Written] = (),
        num_layers: int = 1,
        heads: int = 8,
        max_neighbors: int = 100,
        dropout: float = 0.5,
        attention_dropout: float = 0.5,
        encoder: Encoder = "linear",
    ) -> None:
        super().__init__()
        from fastgtn.nn.baselines.parts.fused_layers import FusedHANConv

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
                f"HAN computes nodes of the types that its meta-paths start from ({', '.join(types)}), but targets are "
                f"of type {', '.join(sorted(found))}: add paths of that type to model.metapaths."
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


@describes(HAN, "HAN")
class HANOptions(AttentionOptions, EncoderOptions):
    """The keys of HAN. Without `metapaths`, all paths that leave a type and return in the next step are used."""

    name: Literal["han"]
    num_layers: Annotated[Layers, Choice((1, 2))]
    metapaths: Annotated[tuple[str | Annotated[tuple[str, ...], Field(strict=False)], ...], Field(strict=False)]
    max_neighbors: Annotated[int, Field(ge=0)]
    attention_dropout: Annotated[Share, Numbers(0.0, 0.8, step=0.2)]

    @property
    def num_hops(self) -> int:
        return self.num_layers * max((_num_steps(path) for path in self.metapaths), default=2)

    @property
    def floats_per_node(self) -> int:
        """The outputs of several meta-paths are kept side by side."""
        return 4 * self.hidden


def _num_steps(written: Written) -> int:
    """The number of steps of a meta-path. In ``A[writes]PA`` each capital outside of brackets starts a node type."""
    if not isinstance(written, str):
        return len(written)
    return max(len(re.findall("[A-Z]", re.sub(r"\[[^\]]*\]", "", written))) - 1, 1)
