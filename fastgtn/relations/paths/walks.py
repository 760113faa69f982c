"""All walks over decomposed hops with filter weights, for rankings, explanations and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from fastgtn.relations.paths.decomposition import Decomposition, Step
from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.schema import Relation

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Walks:
    """All walks of K hops over all nodes, node type by node type, in float64.

    Build it with :meth:`of`. Node values are one array per node type, with the nodes of that type as rows.
    """

    parts: Decomposition
    filters: Array  # [K, C, T]
    stays: tuple[Array, ...]  # per type: the diagonal of each hop, [n, K, C]

    @staticmethod
    def of(parts: Decomposition, filters: Tensor) -> Walks:
        """From hops over all rows that were taken apart, and filters [K, C, T]."""
        alpha = filters.detach().double().cpu()
        by_pattern = (alpha @ parts.marks.T).permute(2, 0, 1).numpy()  # [Q, K, C]
        stays = (by_pattern[parts.patterns(kind, 0).numpy()] for kind in range(len(parts.node_types)))
        return Walks(parts, alpha.numpy(), tuple(stays))

    @property
    def node_types(self) -> tuple[str, ...]:
        return self.parts.node_types

    @property
    def relations(self) -> tuple[Relation, ...]:
        return self.parts.relations

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.parts.steps

    @property
    def shape(self) -> tuple[int, int]:
        """Hops K and channels C."""
        return self.filters.shape[0], self.filters.shape[1]

    @cached_property
    def matrices(self) -> tuple[tuple[Any, ...], ...]:
        """Per step: one CSR matrix for every hop, or one per hop."""
        same = [all(block is blocks[0] for block in blocks) for blocks in self.parts.blocks]
        return tuple(
            tuple(block.matrix for block in (blocks[:1] if one else blocks))
            for blocks, one in zip(self.parts.blocks, same, strict=True)
        )

    def channel(self, number: int) -> Walks:
        """The walks of one channel."""
        one = slice(number, number + 1)
        return replace(self, filters=self.filters[:, one], stays=tuple(stay[:, :, one] for stay in self.stays))

    def path(self, start: int, steps: Sequence[int]) -> MetaPath:
        """The meta-path of some steps, by number."""
        return self.parts.path(start, steps)

    def numbers(self, path: MetaPath) -> list[int] | None:
        """The steps of a meta-path by number, or None if the graph has no edge for one of them."""
        return self.parts.numbers(path)

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
