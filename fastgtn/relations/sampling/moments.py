"""What targets see at different moments: the graph before each moment, side by side in one stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from fastgtn.relations.layout.diagonal import Diagonal
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.sampling.batch import Batch, Sampler
from fastgtn.relations.sampling.neighbor import derived_seed
from fastgtn.relations.stack import RelationStack

KEPT_BYTES = 1e9  # of graphs before a moment, which a sampler keeps for the next batch
BYTES_PER_EDGE = 24


def by_moment(moments: Tensor) -> Iterator[tuple[float, Tensor]]:
    """Each different moment, the earliest first, and the positions that have it."""
    found, counts = moments.unique(return_counts=True)
    yield from zip(found.tolist(), moments.argsort(stable=True).split(counts.tolist()), strict=True)


def rounded_down(moments: Tensor, most: int) -> Tensor:
    """Round moments down to at most this many different ones, in groups of about equal size."""
    found = moments.unique()
    if len(found) <= most:
        return moments
    ordered = moments.sort().values
    edges = ordered[torch.arange(most) * len(ordered) // most].unique()
    return edges[torch.bucketize(moments, edges, right=True) - 1]


def seen_from(
    stack: RelationStack,
    rows: Tensor,
    moments: Tensor,
    *,
    hops: int | None,
    prepare: Callable[[RelationStack], RelationStack],
) -> Batch:
    """All that rows depend on within some hops, each at its moment; nothing is sampled.

    Args:
        stack: Raw relations, with times.
        moments: Of each row.
        hops: None keeps the whole graph before each moment.
        prepare: Normalises the relations before a moment.
    """
    parts, places = [], []
    for moment, mine in by_moment(moments):
        past = prepare(stack.before(moment))
        nodes = torch.arange(stack.num_nodes)
        if hops is not None:
            reached = past.hops(max(hops, 1), rows[mine]).inputs
            assert reached is not None
            nodes = reached.sort().values
            past = past.subset(nodes)
        parts.append(Batch(nodes, torch.searchsorted(nodes, rows[mine]), past))
        places.append(mine)
    return beside(parts, places)


class MomentSampler:
    """Draw around each target from the edges that are older than its moment.

    Targets of the same moment share one neighbourhood. Nothing that is later than the moment of a target reaches it,
    in any hop.

    Args:
        build: Makes a sampler of the graph before a moment.
        moments: Of all nodes of the stack; infinite where everything is seen.
    """

    def __init__(self, build: Callable[[RelationStack], Sampler], stack: RelationStack, moments: Tensor) -> None:
        self.moments = moments
        kept = int(KEPT_BYTES // (BYTES_PER_EDGE * max(stack.num_edges, 1)))
        self.sampler_before = lru_cache(max(kept, 1))(lambda moment: build(stack.before(moment)))

    def sample(self, targets: Tensor, seed: int) -> Batch:
        """The neighbourhoods of distinct nodes, side by side."""
        parts, places = [], []
        for number, (moment, mine) in enumerate(by_moment(self.moments[targets])):
            sampler: Sampler = self.sampler_before(moment)
            parts.append(sampler.sample(targets[mine], derived_seed(seed, number)))
            places.append(mine)
        return beside(parts, places)


def beside(parts: Sequence[Batch], places: Sequence[Tensor]) -> Batch:
    """Several parts of one graph as one, without an edge between them; a node may occur in each of them.

    Args:
        places: For each part, the positions of its targets among all targets.
    """
    first = parts[0].stack
    if len(parts) == 1:
        return Batch(parts[0].nodes, parts[0].targets[places[0].argsort()], first)
    counts = torch.tensor([part.stack.node_counts for part in parts])  # [parts, types]
    before = counts.sum(0).cumsum(0) - counts.sum(0)
    starts = before + counts.cumsum(0) - counts  # where the nodes of a type of a part begin
    numbers = [
        torch.cat([start + torch.arange(count) for start, count in zip(begin.tolist(), size.tolist(), strict=True)])
        for begin, size in zip(starts, counts, strict=True)
    ]
    new = torch.cat(numbers)
    order = new.argsort()
    targets = torch.cat([number[part.targets] for number, part in zip(numbers, parts, strict=True)])
    operator = _block_diagonal([part.stack.operator for part in parts], numbers, order)
    stack = RelationStack(first.node_types, tuple(counts.sum(0).tolist()), first.relations, operator)
    return Batch(torch.cat([part.nodes for part in parts])[order], targets[torch.cat(list(places)).argsort()], stack)


def _block_diagonal(parts: Sequence[Operator], numbers: Sequence[Tensor], order: Tensor) -> Operator:
    """The maps of all parts as one.

    Args:
        numbers: The new number of each node of a part.
        order: Which node, of all parts one after the other, each new number is.
    """
    stored = [part.edges[0] for part in parts]
    segments = [edges.segments for edges in stored]
    joined = Segments(
        row_ptr=_pointers([s.row_ptr for s in segments]),
        relation=torch.cat([s.relation for s in segments]),
        seg_ptr=_pointers([s.seg_ptr for s in segments]),
        col=torch.cat([n[s.col.long()].int() for n, s in zip(numbers, segments, strict=True)]),
        num_cols=len(order),
        num_relations=segments[0].num_relations,
    )
    rows, places = joined.select_rows(order)
    edges = Edges(rows, torch.cat([edges.values for edges in stored])[places], stored[0].first)
    return Operator(len(order), len(order), parts[0].num_relations, (edges,), _diagonals(parts, order))


def _pointers(parts: Sequence[Tensor]) -> Tensor:
    counts = torch.cat([part.diff() for part in parts])
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])


def _diagonals(parts: Sequence[Operator], order: Tensor) -> Diagonal | None:
    found = [part.diagonal for part in parts]
    if found[0] is None:
        return None
    diagonals = [diagonal for diagonal in found if diagonal is not None]
    all_marks = Diagonal.from_marks(torch.cat([diagonal.marks for diagonal in diagonals]))  # patterns of several parts
    shifts = torch.tensor([0, *(len(diagonal.marks) for diagonal in diagonals)]).cumsum(0)
    pattern = torch.cat([d.pattern + shift for d, shift in zip(diagonals, shifts.tolist(), strict=False)])
    return Diagonal(all_marks.marks, all_marks.pattern[pattern[order]])
