r"""K hops taken apart into steps: the one decomposition behind ranking, reasons, path tables and screening.

One hop is :math:`F_k = \sum_s α_{ks} R_s + \mathrm{diag}(s(α_k))`. The stored edges :math:`R_s` of one relation between
two node types are a step. The diagonal holds the identity and the self-loops of rows that a relation leaves empty:
there a walk stays at its node. This weight, :math:`s_q(α) = \sum_t \mathrm{marks}[q, t] α_t`, depends on the node
by its pattern q alone. Multiplied out, :math:`F_1 ⋯ F_K` is a sum over effective meta-paths, the sequences of steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fastgtn.relations.hops import Hops
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.schema import Relation


class Step(NamedTuple):
    """One relation between two node types, by number."""

    relation: int  # column of the filters
    near: int  # type of the rows: the current node of a walk from the target
    far: int  # type of the columns: the next node


@dataclass(frozen=True, eq=False)
class Block:
    """The stored edges of one step within one hop, in rows; nodes are numbered within their types."""

    ptr: Tensor  # int64 [rows + 1]
    col: Tensor  # int32 [E]
    values: Tensor  # [E]
    num_cols: int

    @property
    def num_rows(self) -> int:
        return self.ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.col.numel()

    @cached_property
    def _operator(self) -> Operator:
        rows = self.num_rows
        none = torch.zeros(rows, dtype=torch.int32)
        segments = Segments(torch.arange(rows + 1), none, self.ptr, self.col, self.num_cols, 1)
        return Operator(rows, self.num_cols, 1, (Edges(segments, self.values),), None)

    @cached_property
    def matrix(self) -> Any:
        """The same edges as a scipy CSR matrix in float64, parallel edges added up."""
        import scipy.sparse as sp

        parts = (self.values.double().numpy(), self.col.numpy(), self.ptr.numpy())
        matrix = sp.csr_matrix(parts, shape=(self.num_rows, self.num_cols), copy=True)
        matrix.sum_duplicates()
        return matrix

    def apply(self, h: Tensor) -> Tensor:
        """The product with features [columns, d] → [rows, d], in their precision."""
        return self._operator.apply(h[:, None], h.new_ones(1, 1))[:, 0]

    def reach(self, rows: Tensor) -> Tensor:
        """Which columns some rows read; both are masks."""
        taken = torch.repeat_interleave(rows, self.ptr.diff())
        columns = torch.zeros(self.num_cols, dtype=torch.bool)
        columns[self.col[taken].long()] = True
        return columns


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The steps of planned hops, and how walks stay. Build it with :meth:`of`.

    Level k holds the nodes within k hops of the targets: level 0 the targets, level K the inputs. The nodes of each
    type are numbered on their own, those of level k − 1 first in level k.
    """

    node_types: tuple[str, ...]
    relations: tuple[Relation, ...]
    steps: tuple[Step, ...]
    blocks: tuple[tuple[Block, ...], ...]  # per step: one block for every hop
    places: tuple[Tensor, ...]  # per type: the positions of its nodes among the inputs of the hops
    inputs: tuple[Tensor, ...]  # per type: which of its nodes these are
    counts: tuple[tuple[int, ...], ...]  # [K + 1][types]: nodes per level
    marks: Tensor  # float64 [Q, T]: which relations give a self-loop to rows of a pattern
    pattern: Tensor  # int64 [rows of the last hop]

    @staticmethod
    def of(node_types: Sequence[str], node_counts: Sequence[int], hops: Hops) -> Decomposition:
        """Take planned hops apart; hops that share edges share their blocks."""
        bounds = torch.tensor([0, *node_counts]).cumsum(0)
        inputs = torch.arange(hops.num_inputs) if hops.inputs is None else hops.inputs.cpu()
        kind = torch.bucketize(inputs, bounds[1:], right=True)
        places = tuple((kind == number).nonzero()[:, 0] for number in range(len(node_types)))
        sizes = [*(hop.num_rows for hop in hops), hops.num_inputs]
        counts = tuple(tuple(torch.bincount(kind[:n], minlength=len(places)).tolist()) for n in sizes)
        number = torch.empty_like(kind)
        for mine in places:
            number[mine] = torch.arange(len(mine))
        found: dict[int, dict[Step, Block]] = {}
        parts: list[dict[Step, Block]] = []
        for level, hop in enumerate(hops):
            part: dict[Step, Block] = {}
            for edges in hop.edges:
                if id(edges) not in found:
                    found[id(edges)] = _cut(edges, kind, number, counts[level], counts[level + 1])
                part |= found[id(edges)]
            parts.append(part)
        steps = tuple(sorted({step for part in parts for step in part}))
        return Decomposition(
            tuple(node_types),
            hops.relations,
            steps,
            tuple(_per_hop(step, parts, counts) for step in steps),
            places,
            tuple(inputs[mine] - start for mine, start in zip(places, bounds.tolist(), strict=False)),
            counts,
            *_patterns(hops.operators[-1]),
        )

    def __len__(self) -> int:
        """Hops K."""
        return len(self.counts) - 1

    @cached_property
    def leaving(self) -> tuple[tuple[int, ...], ...]:
        """For each node type, the numbers of the steps that start there."""
        kinds = range(len(self.node_types))
        return tuple(tuple(n for n, step in enumerate(self.steps) if step.near == kind) for kind in kinds)

    @cached_property
    def _patterns(self) -> tuple[Tensor, ...]:
        last = self.counts[-2]
        return tuple(self.pattern[mine[:n]] for mine, n in zip(self.places, last, strict=True))

    def patterns(self, kind: int, level: int) -> Tensor:
        """The pattern of each node of a type, for a level before the inputs."""
        return self._patterns[kind][: self.counts[level][kind]]

    def targets(self, kind: int) -> Tensor:
        """The requested rows that are nodes of a type."""
        return self.places[kind][: self.counts[0][kind]]

    def path(self, start: int, steps: Sequence[int]) -> MetaPath:
        """The meta-path of some steps, by number."""
        taken = [self.steps[s] for s in steps]
        types = (start, *(step.far for step in taken))
        return MetaPath(tuple(self.relations[s.relation] for s in taken), tuple(self.node_types[t] for t in types))

    def numbers(self, path: MetaPath) -> list[int] | None:
        """The steps of a meta-path by number, or None if the graph has no edge for one of them."""
        places = {step: number for number, step in enumerate(self.steps)}
        type_of = {name: number for number, name in enumerate(self.node_types)}
        taken = [Step(self.relations.index(r), type_of[near], type_of[far]) for r, near, far in path.steps]
        return [places[step] for step in taken] if all(step in places for step in taken) else None

    def effective_paths(self, start: int, *, most: int | None = None) -> Iterator[tuple[int, ...]]:
        """Every sequence of at most K steps that some target of a type can take, the empty one first, short ones first.

        Args:
            start: The node type of the targets, by number.
            most: Stop after this many.
        """
        yielded = 0
        now: list[tuple[tuple[int, ...], int, Tensor]] = [
            ((), start, torch.ones(self.counts[0][start], dtype=torch.bool))
        ]
        for level in range(len(self) + 1):
            longer: list[tuple[tuple[int, ...], int, Tensor]] = []
            for steps, kind, nodes in now:
                if yielded == most:
                    return
                yield steps
                yielded += 1
                if level == len(self) or (most is not None and len(longer) >= most):
                    continue  # what it leads to is not asked for
                for number in self.leaving[kind]:
                    reached = self.blocks[number][level].reach(nodes)
                    if bool(reached.any()):
                        longer.append(((*steps, number), self.steps[number].far, reached))
            now = longer


def _cut(
    edges: Edges, kind: Tensor, number: Tensor, num_rows: Sequence[int], num_cols: Sequence[int]
) -> dict[Step, Block]:
    """The edges of each relation, divided by the node types that they connect."""
    kinds, segments = len(num_rows), edges.segments
    # numpy sorts short integers in one pass, and millions of edges need a quarter of the memory
    dtype = torch.int16 if edges.columns.stop * kinds**2 < 1 << 15 else torch.int64
    rows, cols, values = segments.edge_rows().cpu(), segments.col.cpu(), edges.values.detach().cpu()
    kind, relation = kind.to(dtype), (segments.relation.to(dtype) + edges.first)[segments.edge_segments].cpu()
    keys = ((relation * kinds + kind[rows]) * kinds + kind[cols]).numpy()
    order, sizes = np.argsort(keys, kind="stable"), np.bincount(keys)
    names = np.flatnonzero(sizes)
    found = {}
    for name, mine in zip(names.tolist(), np.split(order, sizes[names].cumsum())[:-1], strict=True):
        step = Step(name // kinds**2, name // kinds % kinds, name % kinds)
        counts = torch.bincount(number[rows[mine]], minlength=num_rows[step.near])
        ptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        found[step] = Block(ptr, number[cols[mine]].int(), values[mine], num_cols[step.far])
    return found


def _per_hop(step: Step, parts: Sequence[dict[Step, Block]], counts: Sequence[Sequence[int]]) -> tuple[Block, ...]:
    """The block of each hop; a hop without a block gets an empty one."""
    return tuple(
        part.get(step) or _empty(counts[level][step.near], counts[level + 1][step.far])
        for level, part in enumerate(parts)
    )


def _empty(num_rows: int, num_cols: int) -> Block:
    none = torch.zeros(0, dtype=torch.int32)
    return Block(torch.zeros(num_rows + 1, dtype=torch.int64), none, torch.zeros(0), num_cols)


def _patterns(last: Operator) -> tuple[Tensor, Tensor]:
    """The distinct patterns of self-loops, and that of each row; the rows of other hops are the first of these."""
    if last.diagonal is None:
        marks = torch.zeros(1, last.num_relations, dtype=torch.float64)
        return marks, torch.zeros(last.num_rows, dtype=torch.int64)
    diagonal = last.diagonal.to("cpu")
    marks, same = diagonal.marks.double().unique(dim=0, return_inverse=True)
    return marks, same[diagonal.pattern]
