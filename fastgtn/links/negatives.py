"""Pairs that are not links, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, contains, pair_keys
from fastgtn.relations import Relation

NegativeKind = Literal["uniform", "degree", "two_hop"]
TRIES = 50  # draws until a pair is found that is not a link
MOST_TWO_HOP = 200_000_000  # entries of the two-hop table, at most


@dataclass(frozen=True, eq=False)
class Negatives:
    """Where negatives come from: any node of the target type, popular ones more often, or nodes at two hops.

    Args:
        links: Sorted keys of all pairs that must not be drawn.
        two_hop: For each source the target nodes at two hops; only for that kind.
    """

    kind: NegativeKind
    num_targets: int
    links: Array
    popularity: Array
    two_hop: Any = None

    @staticmethod
    def of(graph: HeteroData, relation: Relation, links: Array, *, kind: NegativeKind) -> Negatives:
        """Prepare to draw pairs that are not among the links [2, E]."""
        if kind not in ("uniform", "degree", "two_hop"):
            raise InputError(f'negatives must be "uniform", "degree" or "two_hop", but got {kind!r}.')
        width = int(graph[relation.target].num_nodes or 0)
        known = [links]
        if relation.source == relation.target:  # pairs have no direction, and no node is its own partner
            known = [links, links[::-1], np.tile(np.arange(width), (2, 1))]
        keys = np.unique(np.concatenate([pair_keys(part, width) for part in known]))
        popularity = np.bincount(links[1], minlength=width).astype(float)
        table = _two_hop(graph, relation) if kind == "two_hop" else None
        return Negatives(kind, width, keys, popularity, table)

    def like(self, links: Array, *, seed: int, per_positive: int = 1) -> Array:
        """For each link, pairs of the same source that are not links, [2, E · per_positive].

        A source for which none is found within some tries (it may be linked to all targets) is left out.
        """
        source = np.repeat(links[0], per_positive)
        target, wrong = self._drawn(source, seed)
        return np.stack([source[~wrong], target[~wrong]])

    def beside(self, links: Array, *, seed: int) -> tuple[Array, Array]:
        """The links for which another target of the same source was found, [2, E], and these targets."""
        target, wrong = self._drawn(links[0], seed)
        return links[:, ~wrong], target[~wrong]

    def _drawn(self, source: Array, seed: int) -> tuple[Array, Array]:
        """A target for each source, and for which of them none was found that is not a link."""
        rng = np.random.default_rng([seed, 0x11E6])
        target = self._draw(source, rng)
        wrong = self._is_wrong(source, target)
        for _ in range(TRIES):
            if not wrong.any():
                break
            target[wrong] = self._draw(source[wrong], rng)
            wrong = self._is_wrong(source, target)
        return target, wrong

    def _is_wrong(self, source: Array, target: Array) -> Array:
        return contains(self.links, pair_keys(np.stack([source, target]), self.num_targets)) | (target < 0)

    def _draw(self, source: Array, rng: np.random.Generator) -> Array:
        if self.kind == "two_hop":
            start, count = self.two_hop.indptr[source], np.diff(self.two_hop.indptr)[source]
            place = start + (rng.random(len(source)) * count).astype(np.int64)
            few = self.two_hop.indices[np.minimum(place, max(self.two_hop.nnz - 1, 0))] if self.two_hop.nnz else place
            # a source without any node at two hops is compared with any node
            return np.where(count > 0, few, rng.integers(self.num_targets, size=len(source))).astype(np.int64)
        if self.kind == "degree":
            shares = np.cumsum(self.popularity**0.75 + 1e-12)
            return np.searchsorted(shares, rng.random(len(source)) * shares[-1]).clip(max=self.num_targets - 1)
        return rng.integers(self.num_targets, size=len(source))


def _two_hop(graph: HeteroData, relation: Relation) -> Any:
    """Which target nodes lie at exactly two steps from each source, over all relations in both directions."""
    matrices: dict[tuple[str, str], list[Any]] = {}
    for source, _, target in graph.edge_types:
        row, col = graph[source, _, target].edge_index.numpy()
        shape = int(graph[source].num_nodes or 0), int(graph[target].num_nodes or 0)
        one = sp.csr_matrix((np.ones(len(row), np.float32), (row, col)), shape=shape)
        matrices.setdefault((source, target), []).append(one)
        matrices.setdefault((target, source), []).append(one.T.tocsr())
    total: Any = None
    for (first, middle), near in matrices.items():
        if first != relation.source or (middle, relation.target) not in matrices:
            continue
        near_sum, far_sum = sum(near), sum(matrices[middle, relation.target])
        work = int(np.diff(far_sum.indptr)[near_sum.indices].sum())
        if work > MOST_TWO_HOP:
            raise InputError(
                f"the nodes at two hops through {middle} would take {work:,} entries, more than {MOST_TWO_HOP:,}: "
                'draw negatives "uniform" or by "degree".'
            )
        product = near_sum @ far_sum
        total = product if total is None else total + product
    if total is None:
        raise InputError(
            f"no {relation.target} lies at two hops from a {relation.source}: draw negatives uniform or by degree."
        )
    return total.tocsr()
