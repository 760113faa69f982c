"""The part of a graph that new nodes depend on, with the new nodes in it."""

from dataclasses import replace

import torch
from torch import Tensor

from fastgtn.nn.inputs.features import FeatureBlock, Features, Matrix, selected, stacked
from fastgtn.relations import RelationStack
from fastgtn.relations.layout.diagonal import Diagonal
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator
from fastgtn.runs.scoring.new.edges import NewEdges
from fastgtn.training.build import Inputs


def nodes_around(raw: RelationStack, edges: NewEdges, num_hops: int) -> Tensor:
    """The stored nodes that new nodes see within some hops, in order."""
    ends = torch.cat([edges.rows, edges.cols])
    ends = ends[ends < raw.num_nodes].unique()
    if num_hops < 2 or not len(ends):
        return ends
    reached = raw.hops(num_hops - 1, ends).inputs
    assert reached is not None
    return reached.sort()[0]


def extended(
    inputs: Inputs, nodes: Tensor, edges: NewEdges, target: str, count: int, own: Matrix | None
) -> tuple[Inputs, Tensor]:
    """The graph between some stored nodes and the new nodes, and the rows of the new ones, which see all edges.

    Args:
        nodes: Stored nodes in order, with all ends of the new edges among them.
        count: The number of new nodes; they are put behind the stored nodes of their type.
        own: Their features; None if their type has embeddings. The row behind the last embedding is theirs then.
    """
    part = inputs.raw.subset(nodes)
    place = part.nodes_of(target).stop
    features = _with_rows(inputs.features.select(nodes), target, place, count, own)
    raw = _with_edges(part, nodes, edges, target, count, inputs.raw.num_nodes)
    return replace(inputs, raw=raw, features=features, moments=None), torch.arange(place, place + count)


def _with_edges(
    part: RelationStack, nodes: Tensor, edges: NewEdges, target: str, count: int, num_stored: int
) -> RelationStack:
    place, size = part.nodes_of(target).stop, part.num_nodes + count
    stored = torch.arange(part.num_nodes)
    stored += count * (stored >= place)  # new numbers of the stored nodes

    def number(ends: Tensor) -> Tensor:
        """Of nodes that new edges name by their numbers in the whole graph."""
        is_new = ends >= num_stored
        inside = torch.searchsorted(nodes, ends.clamp(max=num_stored - 1)).clamp(max=max(len(nodes) - 1, 0))
        old = stored[inside] if len(nodes) else torch.zeros_like(ends)
        return torch.where(is_new, ends - num_stored + place, old)

    (known,) = part.operator.edges
    segments, order = Segments.build(
        torch.cat([stored[known.segments.edge_rows()], number(edges.rows)]),
        torch.cat([stored[known.segments.col.long()], number(edges.cols)]),
        torch.cat([known.segments.edge_relations(), edges.relation]),
        shape=(size, size),
        num_relations=known.segments.num_relations,
    )
    values = torch.cat([known.values, edges.values])[order]
    diagonal = Diagonal.identity(size, len(part)) if part.has_identity else None
    counts = tuple(n + count * (t == target) for t, n in zip(part.node_types, part.node_counts, strict=True))
    operator = Operator(size, size, len(part), (Edges(segments, values),), diagonal)
    return RelationStack(part.node_types, counts, part.relations, operator)


def _with_rows(features: Features, target: str, place: int, count: int, own: Matrix | None) -> Features:
    """The same features with further rows at a place, which belong to the block of the target type."""
    new = torch.arange(place, place + count)
    blocks = [_with_block(block, target, new, features.num_rows, own) for block in features.blocks]
    return Features(tuple(blocks), features.num_rows + count, in_order=False)


def _with_block(block: FeatureBlock, target: str, new: Tensor, num_rows: int, own: Matrix | None) -> FeatureBlock:
    if block.places is None:  # one block of all nodes
        assert block.matrix is not None
        assert own is not None
        first = torch.arange(num_rows + len(new))
        first = torch.cat([first[: new[0]], first[num_rows:], first[new[0] : num_rows]]) if len(new) else first
        return replace(block, nodes=None, matrix=selected(stacked(block.matrix, own), first))
    places = block.places + len(new) * (block.places >= new[0])
    if block.key != target:
        return replace(block, places=places)
    places = torch.cat([places, new])
    if block.matrix is None:
        assert block.nodes is not None
        theirs = torch.full_like(new, block.width)  # behind the embeddings of the stored nodes
        return replace(block, places=places, nodes=torch.cat([block.nodes, theirs]), width=block.width + 1)
    assert own is not None
    return replace(block, places=places, nodes=None, matrix=stacked(block.matrix, own))
