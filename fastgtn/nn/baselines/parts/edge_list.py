"""Edge lists for PyG's convolutions and our kernels, restricted to the nodes that are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fastgtn.relations import IDENTITY, RelationStack
from fastgtn.relations.checks import check_nodes
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator

# Above this share of the nodes, a pass over all nodes is not more expensive than one over a selection.
_NEARLY_ALL = 0.9


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Weighted edges of several relations: edge e brings a message from ``cols[e]`` to ``rows[e]``.

    Args:
        num_nodes: Number of nodes; after :meth:`toward`, the requested ones come first.
        inputs: Which nodes of the whole graph these are; None for all of them, in order.
        num_targets: Number of requested nodes.
    """

    num_nodes: int
    rows: Tensor
    cols: Tensor
    values: Tensor
    relation: Tensor
    inputs: Tensor | None
    num_targets: int

    @staticmethod
    def of(stack: RelationStack) -> EdgeList:
        """Every edge of every relation but the identity, sorted by relation, receiver and sender."""
        found = [stack[t].coordinates() for t in range(len(stack)) if stack.relations[t] != IDENTITY]
        counts = torch.tensor([len(part.rows) for part in found], dtype=torch.int64)
        none = torch.empty(0, dtype=torch.int64)
        return EdgeList(
            stack.num_nodes,
            torch.cat([none, *(part.rows for part in found)]),
            torch.cat([none, *(part.cols for part in found)]),
            torch.cat([torch.empty(0, dtype=stack.dtype), *(part.values for part in found)]),
            torch.repeat_interleave(torch.arange(len(found)), counts),
            None,
            stack.num_nodes,
        )

    @property
    def edge_index(self) -> Tensor:
        """The edges in PyG's form, [from; to]."""
        return torch.stack([self.cols, self.rows])

    @property
    def cost(self) -> int:
        return len(self.rows) + self.num_nodes

    def merged(self) -> EdgeList:
        """One graph of all relations; the weights of edges between the same two nodes are added."""
        place, index = (self.rows * self.num_nodes + self.cols).unique(return_inverse=True)
        values = self.values.new_zeros(len(place)).index_add(0, index, self.values)
        return self.with_edges(place // max(self.num_nodes, 1), place % max(self.num_nodes, 1), values)

    def with_loops(self) -> EdgeList:
        """Each node sends one message of weight 1 to itself, in place of its own self-loops if it has any."""
        apart = self.rows != self.cols
        nodes = torch.arange(self.num_nodes)
        values = torch.cat([self.values[apart], self.values.new_ones(self.num_nodes)])
        return self.with_edges(torch.cat([self.rows[apart], nodes]), torch.cat([self.cols[apart], nodes]), values)

    def gcn_normalized(self) -> EdgeList:
        r"""Symmetric normalisation with self-loops, :math:`D^{-1/2} (A + I) D^{-1/2}`."""
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        (cols, rows), values = gcn_norm(self.edge_index, self.values, self.num_nodes, dtype=self.values.dtype)
        return self.with_edges(rows, cols, values)

    def with_edges(self, rows: Tensor, cols: Tensor, values: Tensor) -> EdgeList:
        """The same graph with other edges of one relation."""
        return replace(self, rows=rows, cols=cols, values=values, relation=torch.zeros_like(rows))

    def toward(self, wanted: Tensor | None, hops: int) -> EdgeList:
        """Only the nodes and edges that the requested nodes depend on within this many hops; nothing is sampled.

        The outermost nodes lack edges; no requested node reads their values.
        """
        if wanted is None:
            return self
        check_nodes(wanted, self.num_nodes)
        reached = torch.zeros(self.num_nodes, dtype=torch.bool)
        reached[wanted] = True
        for _ in range(hops):
            reached[self.cols[reached[self.rows]]] = True
            if int(reached.sum()) >= _NEARLY_ALL * self.num_nodes:
                return self
        reached[wanted] = False
        nodes = torch.cat([wanted, reached.nonzero()[:, 0]])
        number = torch.full((self.num_nodes,), -1)
        number[nodes] = torch.arange(len(nodes))
        kept = ((number[self.rows] >= 0) & (number[self.cols] >= 0)).nonzero()[:, 0]
        return EdgeList(
            len(nodes),
            number[self.rows[kept]],
            number[self.cols[kept]],
            self.values[kept],
            self.relation[kept],
            nodes,
            len(wanted),
        )

    def operator(self) -> Operator:
        """The linear map that sums messages, in our kernel."""
        return linear_map(self.rows, self.cols, self.values, (self.num_nodes, self.num_nodes))


def linear_map(rows: Tensor, cols: Tensor, values: Tensor, shape: tuple[int, int]) -> Operator:
    """A sparse matrix as an operator of one relation."""
    segments, order = Segments.build(rows, cols, torch.zeros_like(rows), shape=shape, num_relations=1)
    return Operator(*shape, 1, (Edges(segments, values[order]),), None)
