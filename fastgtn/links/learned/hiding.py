"""Stacks of relations from which some links are removed, in every relation that holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.links.edges import Array, contains, hiding, pair_keys
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.operator import Edges


@dataclass(frozen=True, eq=False)
class Hider:
    """Removes links from stacks of one graph, and from samples of them.

    Args:
        places: The numbers of the relations that hold links, and whether they hold them in the opposite direction.
        starts: The numbers of the first source and of the first target.
    """

    places: tuple[tuple[int, bool], ...]
    starts: tuple[int, int]
    width: int

    @staticmethod
    def of(graph: HeteroData, stack: RelationStack, relation: Relation) -> Hider:
        """For the stack of a graph that has both directions of every relation."""
        places = tuple((stack.relations.index(r), flipped) for r, flipped in hiding(graph, relation))
        spans = [stack.nodes_of(t) for t in (relation.source, relation.target)]
        return Hider(places, (spans[0].start, spans[1].start), len(spans[1]))

    def without(self, stack: RelationStack, links: Array, nodes: Tensor | None = None) -> RelationStack:
        """The same stack without some links [2, E] in either direction.

        Args:
            nodes: The numbers of the nodes of a sampled stack in the graph.
        """
        hidden = np.sort(pair_keys(links, self.width))
        edges = tuple(self._kept(part, hidden, nodes) for part in stack.operator.edges)
        return replace(stack, operator=replace(stack.operator, edges=edges))

    def _kept(self, edges: Edges, hidden: Array, nodes: Tensor | None) -> Edges:
        segments = edges.segments
        rows, cols = segments.edge_rows(), segments.col.long()
        relation = segments.edge_relations() + edges.first
        ends = [side if nodes is None else nodes[side] for side in (cols, rows)]  # messages go from columns to rows
        kept = torch.ones(len(rows), dtype=torch.bool)
        for number, flipped in self.places:
            mine = (relation == number).nonzero()[:, 0]
            pair = [end[mine].numpy() for end in (ends[::-1] if flipped else ends)]
            keys = pair_keys(np.stack([pair[0] - self.starts[0], pair[1] - self.starts[1]]), self.width)
            kept[mine[torch.from_numpy(contains(hidden, keys))]] = False
        return Edges(segments.keep(kept, segments.num_cols), edges.values[kept], edges.first)
