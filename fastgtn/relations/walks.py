r"""Hops taken apart into steps that are really taken and steps that stay where they are.

One hop is :math:`F_k = D_k + \sum_s α_{ks} R_s`: the stored edges :math:`R_s` of each relation between two node
types are steps, and the diagonal :math:`D_k` holds the identity and the self-loops of rows that a relation leaves
empty, which stay. Multiplied out, :math:`F_1 ⋯ F_K` is a sum over effective meta-paths: the sequences of real steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fastgtn.relations.metapaths import MetaPath
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.schema import Relation

Array = np.ndarray


class Step(NamedTuple):
    """One relation between two node types, by number."""

    relation: int  # column of the filters
    near: int  # type of the rows: where a walk from the target stands
    far: int  # type of the columns: where it goes


@dataclass(frozen=True, eq=False)
class Walks:
    """All walks of K hops that filters allow, node type by node type, in float64.

    Build it with :meth:`of`. Node values are one array per node type, with the nodes of that type as rows.
    """

    node_types: tuple[str, ...]
    relations: tuple[Relation, ...]
    filters: Array  # [K, C, T]
    steps: tuple[Step, ...]
    matrices: tuple[tuple[Any, ...], ...]  # per step: one CSR matrix for every hop, or one per hop
    stays: tuple[Array, ...]  # per type: the diagonal of each hop, [n, K, C]

    @staticmethod
    def of(
        node_types: Sequence[str], node_counts: Sequence[int], relations: Sequence[Relation],
        operators: Sequence[Operator], filters: Tensor,
    ) -> Walks:  # fmt: skip
        """From the operator of each hop in product order; hops that share an operator share its matrices."""
        bounds = np.concatenate([[0], np.cumsum(node_counts)])
        found: dict[int, dict[Step, Any]] = {}  # edges that several hops share are taken apart once
        hops: list[dict[Step, Any]] = []
        for operator in operators:
            hop: dict[Step, Any] = {}
            for edges in operator.edges:
                if id(edges) not in found:
                    found[id(edges)] = _blocks(edges, bounds)
                hop |= found[id(edges)]
            hops.append(hop)
        steps = sorted({step for hop in hops for step in hop})
        empty = [
            sp.csr_matrix((node_counts[step.near], node_counts[step.far])) if any(step not in h for h in hops) else None
            for step in steps
        ]
        matrices = [tuple(hop.get(step, none) for hop in hops) for step, none in zip(steps, empty, strict=True)]
        alpha = filters.detach().double().cpu()
        stay = np.stack([_stay(operator, f) for operator, f in zip(operators, alpha, strict=True)], axis=1)  # [N, K, C]
        return Walks(
            tuple(node_types), tuple(relations), alpha.numpy(), tuple(steps),
            tuple(m[:1] if all(one is m[0] for one in m) else m for m in matrices),
            tuple(stay[a:b] for a, b in pairwise(bounds)),
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """Hops K and channels C."""
        return self.filters.shape[0], self.filters.shape[1]

    def channel(self, number: int) -> Walks:
        """The walks of one channel."""
        one = slice(number, number + 1)
        return replace(self, filters=self.filters[:, one], stays=tuple(stay[:, :, one] for stay in self.stays))

    def path(self, start: int, steps: Sequence[int]) -> MetaPath:
        """The meta-path of some steps, by number."""
        taken = [self.steps[s] for s in steps]
        types = (start, *(step.far for step in taken))
        return MetaPath(tuple(self.relations[s.relation] for s in taken), tuple(self.node_types[t] for t in types))

    def numbers(self, path: MetaPath) -> list[int] | None:
        """The steps of a meta-path by number; None where the graph has no edge for one of them."""
        places = {step: number for number, step in enumerate(self.steps)}
        type_of = {name: number for number, name in enumerate(self.node_types)}
        taken = [Step(self.relations.index(r), type_of[near], type_of[far]) for r, near, far in path.steps]
        return [places[step] for step in taken] if all(step in places for step in taken) else None

    def outwards(self, step: int, first: int, mass: Array) -> Array:
        r"""Push the mass before each hop from `first` on along one step, :math:`α_k R^\top m_k`: [hops, nodes, C]."""
        hops, n, C = mass.shape
        matrices = self.matrices[step]
        if len(matrices) == 1:
            columns = mass.swapaxes(0, 1).reshape(n, hops * C)
            moved = (matrices[0].T @ columns).reshape(-1, hops, C).swapaxes(0, 1)
        else:
            moved = np.stack([matrix.T @ now for matrix, now in zip(matrices[first:], mass, strict=True)])
        weighted: Array = moved * self.filters[first:, None, :, self.steps[step].relation]
        return weighted

    def inwards(self, step: int, hop: int, values: Array) -> Array:
        r"""Gather along one step of one hop, :math:`α_k R v`: [far nodes, …, C] → [near nodes, …, C]."""
        matrices = self.matrices[step]
        matrix = matrices[0 if len(matrices) == 1 else hop]
        gathered = (matrix @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])
        weighted: Array = gathered * self.filters[hop, :, self.steps[step].relation]
        return weighted

    def product(self, values: Sequence[Array]) -> list[Array]:
        r"""The whole :math:`F_1 ⋯ F_K v`: per type [n, d, C] → [n, d, C]."""
        now = list(values)
        for k in reversed(range(self.shape[0])):
            after = [stay[:, k, None] * value for stay, value in zip(self.stays, now, strict=True)]
            for number, step in enumerate(self.steps):
                after[step.near] += self.inwards(number, k, now[step.far])
            now = after
        return now

    def totals(self) -> list[Array]:
        r"""The degrees of the learned graph, :math:`v = F_1 ⋯ F_K 1`, per type [n, C]."""
        return [total[:, 0] for total in self.product([np.ones((len(s), 1, s.shape[2])) for s in self.stays])]

    def along(self, start: int, steps: Sequence[int], values: Array) -> Array:
        r"""The part of :math:`F_1 ⋯ F_K v` that takes exactly these steps: [end nodes, d, C] → [start nodes, d, C].

        With ones for values it is the mass of the path at each node.
        """
        types = [start, *(self.steps[s].far for s in steps)]
        d, C = values.shape[1:]
        reached: list[Array | None] = [None] * len(steps) + [values]  # by how many steps were taken before
        for k in reversed(range(self.shape[0])):
            for taken in range(len(steps) + 1):
                here, beyond = reached[taken], reached[taken + 1] if taken < len(steps) else None
                new = None if here is None else self.stays[types[taken]][:, k, None] * here
                if beyond is not None:
                    arrived = self.inwards(steps[taken], k, beyond)
                    new = arrived if new is None else new + arrived
                reached[taken] = new
        first = reached[0]
        return np.zeros((len(self.stays[start]), d, C)) if first is None else first


def _blocks(edges: Edges, bounds: Array) -> dict[Step, Any]:
    """The edges of each relation, cut by the node types they join."""
    rows, cols = edges.segments.edge_rows().cpu().numpy(), edges.segments.col.cpu().numpy().astype(np.int64)
    relation = edges.segments.edge_relations().cpu().numpy() + edges.first
    values = edges.values.detach().double().cpu().numpy()
    near, far = (np.searchsorted(bounds, nodes, side="right") - 1 for nodes in (rows, cols))
    kinds = len(bounds) - 1
    key = (relation * kinds + near) * kinds + far
    order = np.argsort(key, kind="stable")
    names, starts = np.unique(key[order], return_index=True)
    found = {}
    for name, mine in zip(names.tolist(), np.split(order, starts)[1:], strict=True):
        step = Step(name // kinds**2, name // kinds % kinds, name % kinds)
        place = rows[mine] - bounds[step.near], cols[mine] - bounds[step.far]
        shape = bounds[step.near + 1] - bounds[step.near], bounds[step.far + 1] - bounds[step.far]
        found[step] = sp.csr_matrix((values[mine], place), shape=shape)
    return found


def _stay(operator: Operator, filters: Tensor) -> Array:
    if operator.diagonal is None:
        return np.zeros((operator.num_rows, filters.size(0)))
    weights: Array = operator.diagonal.to("cpu").weights(filters.to(torch.float64)).numpy()
    return weights
