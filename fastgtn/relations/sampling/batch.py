"""A sampled part of a graph, and the shared state of samplers: the graph's arrays and a table of node numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.checks import check_nodes
from fastgtn.relations.kernels.sampling.batch_edges import cut
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.stack import RelationStack

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Batch:
    """Some nodes of a graph and edges between them, as a stack of the same relations.

    Nodes stand type after type; within a type first the targets in the order they were asked for, then the others
    in the order of the graph.
    """

    nodes: Tensor  # int64, the numbers of the nodes in the graph
    targets: Tensor  # int64, the positions of the targets in `nodes`, in the requested order
    stack: RelationStack


class Sampler(Protocol):
    """Whatever turns target nodes into a batch; the same targets and seed always give the same one."""

    def sample(self, targets: Tensor, seed: int) -> Batch: ...


class SampledGraph:
    """The arrays of a stack, as the kernels read them. Any number of threads may sample from it at once."""

    def __init__(self, stack: RelationStack) -> None:
        if len(stack.operator.edges) != 1:
            raise InputError(
                "samplers need a stack that was built from a graph, not a joined one: sample first, then join."
            )
        self.stack = stack
        segments = stack.operator.edges[0].segments.to("cpu")
        segments.check()
        self.row_ptr, self.relation = segments.row_ptr.numpy(), segments.relation.numpy()
        self.seg_ptr, self.col = segments.seg_ptr.numpy(), segments.col.numpy()
        self.values = stack.operator.edges[0].values.cpu()
        self.ends = np.cumsum(stack.node_counts)
        self.lengths = np.diff(self.seg_ptr[self.row_ptr])  # edges of each row
        self.longest_row = int(self.lengths.max(initial=0))
        self._free: list[Array] = []

    def check(self, targets: Tensor) -> Array:
        """Refuse targets that are not distinct nodes of the graph."""
        check_nodes(targets, self.stack.num_nodes)
        return targets.cpu().numpy().astype(np.int32)

    @contextmanager
    def numbering(self) -> Iterator[Array]:
        """A number per node of the graph, all −1; whoever sets one sets it back."""
        try:
            number = self._free.pop()  # one array per thread at work: filling a new one would cost more than a batch
        except IndexError:
            number = np.full(self.stack.num_nodes, -1, np.int32)
        yield number
        self._free.append(number)  # not after an error, which may leave numbers behind

    def order(self, targets: Array, others: Array) -> tuple[Array, tuple[int, ...]]:
        """Type after type, targets before others, which are sorted; also returns the count of each type."""
        others = np.sort(others)
        types = np.searchsorted(self.ends, targets, side="right")
        cuts = np.searchsorted(others, self.ends)
        pieces, start = [], 0
        for t, stop in enumerate(cuts):
            pieces += [targets[types == t], others[start:stop]]
            start = stop
        counts = tuple(len(a) + len(b) for a, b in zip(pieces[::2], pieces[1::2], strict=True))
        return np.concatenate([np.empty(0, np.int32), *pieces]), counts

    def batch(
        self, targets: Array, nodes: Array, counts: tuple[int, ...], number: Array, edge_ptr: Array, edges: Array
    ) -> Batch:
        """Put a batch together from the edges of each of its rows, sorted; `number` has the new node numbers."""
        row_ptr, relation, seg_ptr, col = (
            torch.from_numpy(array)
            for array in cut(nodes, edge_ptr, edges, number, self.row_ptr, self.relation, self.seg_ptr, self.col)
        )
        big, size = self.stack.operator, len(nodes)
        numbers = torch.from_numpy(nodes.astype(np.int64))
        segments = Segments(row_ptr, relation, seg_ptr, col, size, big.edges[0].segments.num_relations)
        stored = Edges(segments, self.values.index_select(0, torch.from_numpy(edges)), big.edges[0].first)
        diagonal = None if big.diagonal is None else big.diagonal.to("cpu").rows(numbers)
        operator = Operator(size, size, big.num_relations, (stored,), diagonal)
        stack = RelationStack(self.stack.node_types, counts, self.stack.relations, operator)
        return Batch(numbers, torch.from_numpy(number[targets].astype(np.int64)), stack)
