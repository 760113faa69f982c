"""From PyG's dictionaries to what the models read: planned hops, and the features of their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fastgtn.errors import InputError, nearest
from fastgtn.nn.inputs.features import FeatureBlock, Features, SparseMatrix
from fastgtn.relations import Hops, RelationStack

NodeType = str
EdgeType = tuple[str, str, str]
Metadata = tuple[list[NodeType], list[EdgeType]]
Normalize = Literal["row", "symmetric", "log", "none"]


@dataclass(frozen=True, eq=False)
class HeteroGraph:
    """The hops toward the wanted rows, and which nodes of each type they read."""

    hops: Hops
    wanted: dict[NodeType, int]  # node types in the order of the rows, and how many rows each has
    counts: dict[NodeType, int]
    nodes: dict[NodeType, Tensor] | None  # which nodes of each type the hops read; None for all, in order
    order: Tensor | None  # the row of each input among the nodes above, type after type

    @staticmethod
    def of(stack: RelationStack, num_hops: int, target: NodeType | None, *, all_columns: bool) -> HeteroGraph:
        """Plan hops for the nodes of one type, or for all nodes."""
        counts = dict(zip(stack.node_types, stack.node_counts, strict=True))
        if target is None:
            return HeteroGraph(stack.hops(num_hops), counts, counts, None, None)
        rows = torch.tensor(stack.nodes_of(target), dtype=torch.int64, device=stack.device)
        hops = stack.hops(num_hops, rows, all_columns=all_columns)
        for operator in hops:
            operator.smallest_value  # noqa: B018  # known before a model is traced, which cannot read numbers
        assert hops.inputs is not None
        nodes, places = {}, []
        for node_type in stack.node_types:
            mine = stack.nodes_of(node_type)
            place = ((hops.inputs >= mine.start) & (hops.inputs < mine.stop)).nonzero()[:, 0]
            nodes[node_type] = hops.inputs[place] - mine.start
            places.append(place)
        return HeteroGraph(hops, {target: counts[target]}, counts, nodes, torch.cat(places).argsort())

    def features(self, x_dict: Mapping[NodeType, Tensor]) -> Features:
        """The features of the inputs: each type has its own weight matrix."""
        blocks, start = [], 0
        for node_type, count in self.counts.items():
            matrix = as_matrix(x_dict[node_type])
            if self.nodes is not None:
                mine = self.nodes[node_type]
                matrix = matrix.select(mine) if isinstance(matrix, SparseMatrix) else matrix[mine]
                count = len(mine)
            places = torch.arange(start, start + count, device=x_dict[node_type].device)
            blocks.append(FeatureBlock(node_type, places, None, matrix, matrix.shape[1]))
            start += count
        features = Features(tuple(blocks), start)
        features.order = self.order
        return features

    def split(self, z: Tensor) -> dict[NodeType, Tensor]:
        """Rows of all wanted nodes, by node type."""
        return dict(zip(self.wanted, z.split(list(self.wanted.values())), strict=True))


def as_matrix(x: Tensor) -> Tensor | SparseMatrix:
    """Features as the models take them: real numbers, dense or sparse."""
    x = x if x.is_floating_point() else x.float()
    return x if x.layout == torch.strided else SparseMatrix.from_torch(x)


def build_stack(
    counts: Mapping[NodeType, int],
    edge_types: list[EdgeType],
    edge_index_dict: Mapping[EdgeType, Tensor],
    edge_weight_dict: Mapping[EdgeType, Tensor],
    *,
    identity: bool,
    normalize: Normalize,
    empty_rows: Literal["self", "zero"],
    dtype: torch.dtype,
) -> RelationStack:
    """One relation per edge type of the metadata; one that a graph does not have is empty."""
    none = torch.empty(2, 0, dtype=torch.int64)
    edges = {t: (edge_index_dict.get(t, none), edge_weight_dict.get(t)) for t in edge_types}
    stack = RelationStack.from_edges(edges, counts, identity=identity, dtype=dtype)
    if normalize == "log":
        return stack.log_normalized(empty_rows)
    if normalize == "symmetric":
        return stack.symmetrically_normalized(empty_rows)
    return stack.row_normalized(empty_rows) if normalize == "row" else stack


def checked_metadata(metadata: Metadata, target: NodeType | None) -> Metadata:
    """Refuse metadata that a graph cannot have."""
    node_types, edge_types = list(metadata[0]), [tuple(t) for t in metadata[1]]
    for edge_type in edge_types:
        if len(edge_type) != 3 or edge_type[0] not in node_types or edge_type[2] not in node_types:
            raise InputError(
                f"metadata has the edge type {edge_type}, which must be (source, name, target) with two of the node "
                f"types ({', '.join(node_types)}). Use metadata=data.metadata()."
            )
    if target is not None and target not in node_types:
        raise InputError(f'no node type "{target}"; {nearest(target, node_types)}')
    return node_types, [(s, name, t) for s, name, t in edge_types]


def check_inputs(
    metadata: Metadata,
    x_dict: Mapping[NodeType, Tensor],
    edge_index_dict: Mapping[EdgeType, Tensor],
    edge_weight_dict: Mapping[EdgeType, Tensor],
) -> None:
    """Refuse a graph that does not have the types that a layer was built for."""
    node_types, edge_types = metadata
    missing = [t for t in node_types if x_dict.get(t) is None]
    if missing:
        raise InputError(
            f"x_dict has no features of {', '.join(missing)}. Give each node type a matrix [nodes, features]; "
            "for a type without features, for instance torch.ones(num_nodes, 1)."
        )
    for node_type in node_types:
        x = x_dict[node_type]
        if not isinstance(x, Tensor) or x.dim() != 2 or x.is_complex():
            came = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise InputError(f'x_dict["{node_type}"] must be a real matrix [nodes, features], but got {came}.')
    for name, given in (("edge_index_dict", edge_index_dict), ("edge_weight_dict", edge_weight_dict)):
        unknown = [t for t in given if t not in edge_types]
        if unknown:
            raise InputError(
                f"{name} has the edge type {unknown[0]}, but the layer was built for "
                f"({', '.join(map(str, edge_types))}). Use metadata=data.metadata() of the graph that it will see."
            )
    if any(weight is not None and weight.requires_grad for weight in edge_weight_dict.values()):
        raise InputError("edge weights that require a gradient are not learned here. Pass weight.detach().")
