"""Mini-batches as PyTorch Geometric graphs, for models that do not use relation stacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.relations import Batch, NeighborSampler, RelationStack, derived_seed
from fastgtn.relations.layout.segments import spans


def hetero_batches(
    graph: HeteroData,
    target: str,
    nodes: Tensor | None = None,
    *,
    fanouts: Sequence[int | None],
    batch_size: int,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    per_relation: bool = False,
) -> HeteroBatches:
    """Sample the neighbourhoods of nodes in batches, each as a small :class:`HeteroData`.

    The first `batch_size` nodes of the target type are the targets (`batch[target].batch_size` is their number);
    `n_id` contains the node numbers in the whole graph. All attributes with one entry per node are included.

    Args:
        target: Node type of the targets.
        nodes: Their numbers within the type; None for all of them.
        fanouts: Edges drawn per node and hop, from all relations together; None draws all.
        per_relation: Draw this number from each relation instead.
    """
    return HeteroBatches(
        graph,
        target,
        nodes,
        fanouts=fanouts,
        batch_size=batch_size,
        seed=seed,
        shuffle=shuffle,
        drop_last=drop_last,
        per_relation=per_relation,
    )


class HeteroBatches:
    """An iterable over the batches; each iteration is one epoch. Created by :func:`hetero_batches`.

    Batch b of epoch e depends on (seed, e, b) alone, so that workers may share the batches in any way;
    set `epoch` to resume where another run stopped.
    """

    def __init__(
        self,
        graph: HeteroData,
        target: str,
        nodes: Tensor | None,
        *,
        fanouts: Sequence[int | None],
        batch_size: int,
        seed: int,
        shuffle: bool,
        drop_last: bool,
        per_relation: bool,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: it must be at least 1.")
        if seed < 0:
            raise InputError(f"seed is {seed}: it must not be negative.")
        self.graph, self.target, self.batch_size = graph, target, batch_size
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last
        self.epoch = 0
        stack = RelationStack.from_hetero(graph, identity=False)
        self._numbers = {t: stack.nodes_of(t) for t in stack.node_types}
        own = stack.nodes_of(target)
        self.nodes = torch.arange(len(own)) if nodes is None else nodes.cpu().long()
        if self.nodes.numel() and not 0 <= int(self.nodes.min()) <= int(self.nodes.max()) < len(own):
            raise InputError(f'nodes of type "{target}" must lie in 0 … {len(own) - 1}: number them within their type.')
        self._sampler = NeighborSampler(stack, fanouts, per_relation)

    def __len__(self) -> int:
        full, rest = divmod(len(self.nodes), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[HeteroData]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = self._order(epoch)
        for number in range(len(self)):
            yield self._batch(epoch, number, order)

    def batch(self, epoch: int, number: int) -> HeteroData:
        """One batch of one epoch, without computing the earlier ones."""
        if not 0 <= number < len(self):
            raise InputError(f"batch {number} does not exist: an epoch has {len(self)} batches.")
        return self._batch(epoch, number, self._order(epoch))

    def _order(self, epoch: int) -> Tensor:
        if not self.shuffle:
            return self.nodes
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.nodes))
        return self.nodes[torch.from_numpy(order)]

    def _batch(self, epoch: int, number: int, order: Tensor) -> HeteroData:
        targets = order[number * self.batch_size : (number + 1) * self.batch_size]
        start = self._numbers[self.target].start
        sampled = self._sampler.sample(targets + start, derived_seed(self.seed, epoch, number))
        batch = HeteroData()
        for node_type, numbers in self._numbers.items():
            here = sampled.stack.nodes_of(node_type)
            n_id = sampled.nodes[here.start : here.stop] - numbers.start
            store = batch[node_type]
            store.num_nodes, store.n_id = len(here), n_id
            for name, value in self.graph[node_type].items():
                if name != "num_nodes":
                    store[name] = _entries(value, n_id, len(numbers))
        batch[self.target].batch_size = len(targets)
        self._add_edges(batch, sampled)
        return batch

    def _add_edges(self, batch: HeteroData, sampled: Batch) -> None:
        stack = sampled.stack
        (stored,) = stack.operator.edges
        number = stored.segments.edge_relations()
        order = number.argsort(stable=True)
        ends = torch.bincount(number, minlength=len(stack)).cumsum(0).tolist()
        rows, cols, values = stored.segments.edge_rows()[order], stored.segments.col.long()[order], stored.values[order]
        for t, relation in enumerate(stack.relations):
            mine = slice(ends[t - 1] if t else 0, ends[t])
            source, target = (stack.nodes_of(node_type).start for node_type in (relation.source, relation.target))
            batch[relation].edge_index = torch.stack([cols[mine] - source, rows[mine] - target])
            if "edge_weight" in self.graph[relation]:
                batch[relation].edge_weight = values[mine]


def _entries(value: Any, n_id: Tensor, count: int) -> Any:
    """The rows of an attribute for the chosen nodes; an attribute that is not per node is unchanged."""
    if isinstance(value, Tensor) and value.dim() and value.size(0) == count:
        if value.layout == torch.sparse_csr:
            return _csr_rows(value, n_id)
        rows = value.to_dense()[n_id] if value.layout != torch.strided else value[n_id]
        return rows.float() if rows.dtype == torch.float16 else rows  # stored as float16, computed as float32
    if isinstance(value, np.ndarray) and value.ndim and len(value) == count:
        return value[n_id.numpy()]
    return value


def _csr_rows(x: Tensor, rows: Tensor) -> Tensor:
    counts = x.crow_indices().diff()[rows]
    places = spans(x.crow_indices()[rows], counts)
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    size = (len(rows), x.size(1))
    return torch.sparse_csr_tensor(indptr, x.col_indices()[places], x.values()[places], size, check_invariants=False)
