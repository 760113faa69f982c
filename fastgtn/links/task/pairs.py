"""Pairs of nodes that are links or not, as validation and test score them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, pair_keys
from fastgtn.links.negatives import NegativeKind, Negatives
from fastgtn.relations import Relation


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes, numbered within their types, and whether each of them is a link (1) or not (0)."""

    source: Array
    target: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.source)

    @property
    def links(self) -> Array:
        """Those pairs that are links, [2, E]."""
        return np.stack([self.source, self.target])[:, self.labels > 0]

    @property
    def has_both(self) -> bool:
        """Whether there are links and other pairs."""
        return len(np.unique(self.labels)) > 1

    @staticmethod
    def of(links: Array, others: Array) -> Pairs:
        """Links [2, E] followed by pairs that are not links [2, F]."""
        both = np.concatenate([links, others], axis=1)
        return Pairs(both[0], both[1], np.repeat([1.0, 0.0], [links.shape[1], others.shape[1]]))

    @staticmethod
    def none() -> Pairs:
        """No pairs."""
        empty = np.zeros(0, np.int64)
        return Pairs(empty, empty, empty.astype(float))

    def once(self) -> Pairs:
        """Pairs without direction: one that is stored in both directions is scored once."""
        ends = np.sort(np.stack([self.source, self.target]), axis=0)
        _, first = np.unique(pair_keys(ends, int(ends.max(initial=0)) + 1), return_index=True)
        kept = np.sort(first)
        return Pairs(ends[0, kept], ends[1, kept], self.labels[kept])

    def check(self, graph: HeteroData, relation: Relation) -> None:
        """Refuse nodes that do not exist, and labels that cannot be scored."""
        for name, nodes, kind in (("source", self.source, relation.source), ("target", self.target, relation.target)):
            count = int(graph[kind].num_nodes or 0)
            if len(nodes) and (nodes.min() < 0 or nodes.max() >= count):
                raise InputError(
                    f"the {name} nodes of the given pairs must lie in 0 … {count - 1}, the nodes of type "
                    f'"{kind}", but they span {nodes.min()} … {nodes.max()}.'
                )
        if not ((self.labels == 0) | (self.labels == 1)).all() or not self.labels.any():
            raise InputError("the labels of the given pairs must be 0 and 1, and some of the pairs must be links.")


def with_negatives(
    graph: HeteroData, relation: Relation, links: Array, known: Array, *, kind: NegativeKind, seed: int
) -> Pairs:
    """Links, followed by as many drawn pairs that are not among the known ones."""
    return Pairs.of(links, Negatives.of(graph, relation, known, kind=kind).like(links, seed=seed))
