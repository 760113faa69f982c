"""Neighbour sampling: from the targets outwards, a few edges per node and hop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.options import Count, Section
from fastgtn.relations.kernels.sampling import draws as kernels
from fastgtn.relations.kernels.sampling.drawn_edges import unite
from fastgtn.relations.sampling.batch import Array, Batch, SampledGraph
from fastgtn.relations.sampling.entry import GraphSize, SamplerEntry, register
from fastgtn.relations.stack import RelationStack

ALL = np.iinfo(np.int64).max


class NeighborSampler:
    """Draw the neighbourhood of target nodes, hop by hop (algorithm 1 of the paper).

    In each hop every node gathered so far, the targets included, draws up to n of its incoming edges, of any
    relation, uniformly and without replacement; an edge drawn in several hops counts once. With as many hops
    as the model has, no row is ever read that drew nothing. Sample from raw weights and normalise the batch: then a
    row that was drawn whole is normalised as in the full graph.

    Args:
        fanouts: The number n for each hop, from the targets outwards; None draws all edges.
        per_relation: Draw up to n edges of each relation instead of n in all.
    """

    def __init__(self, stack: RelationStack, fanouts: Sequence[int | None], per_relation: bool = False) -> None:
        self.graph = SampledGraph(stack)
        self.fanouts = _checked(fanouts)
        self.per_relation = per_relation

    def sample(self, targets: Tensor, seed: int) -> Batch:
        """The neighbourhood of distinct nodes, given by their numbers in the graph."""
        graph, wanted = self.graph, self.graph.check(targets)
        with graph.numbering() as number:
            number[wanted] = np.arange(len(wanted))
            found, rounds = self._rounds(wanted, number, seed_bits(seed))
            nodes, counts = graph.order(wanted, found[len(wanted) :])
            edge_ptr, edges = _united(number[nodes], rounds, graph.lengths[nodes])
            number[nodes] = np.arange(len(nodes))
            batch = graph.batch(wanted, nodes, counts, number, edge_ptr, edges)
            number[nodes] = -1
        return batch

    def _rounds(self, nodes: Array, number: Array, seed: np.uint64) -> tuple[Array, list[tuple[Array, Array]]]:
        """All nodes in the order they were found, and for each hop the draws of each node with pointers."""
        graph, rounds = self.graph, []
        for turn, fanout in enumerate(self.fanouts):
            most = ALL if fanout is None else fanout
            starts = kernels.count_draws(nodes, graph.row_ptr, graph.seg_ptr, most, self.per_relation)
            draws = kernels.draw(
                nodes, starts, graph.row_ptr, graph.seg_ptr, most, self.per_relation, seed, turn, graph.longest_row
            )
            nodes = np.concatenate([nodes, kernels.discover(draws, graph.col, number, len(nodes))])
            rounds.append((starts, draws))
        return nodes, rounds


def seed_bits(seed: int) -> np.uint64:
    """Any whole number as 64 bits."""
    return np.uint64(int(seed) & 0xFFFFFFFFFFFFFFFF)


def derived_seed(*numbers: int) -> int:
    """One seed from several numbers, such as (seed, epoch, batch): close numbers give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _united(found: Array, rounds: list[tuple[Array, Array]], lengths: Array) -> tuple[Array, Array]:
    """The edges of all hops, row by row."""
    sizes = np.array([len(starts) for starts, _ in rounds])
    before = np.cumsum([0, *(len(draws) for _, draws in rounds)])
    starts = np.concatenate([part + shift for (part, _), shift in zip(rounds, before[:-1], strict=True)])
    draws = np.concatenate([draws for _, draws in rounds])
    return unite(found, np.cumsum(sizes) - sizes, sizes - 1, starts, draws, lengths)


def _checked(fanouts: Sequence[int | None]) -> tuple[int | None, ...]:
    if not len(fanouts):
        raise InputError(
            "fanouts is empty: give one number per hop of the model, such as [15, 10]; None draws all edges."
        )
    for fanout in fanouts:
        if fanout is not None and (isinstance(fanout, bool) or int(fanout) != fanout or fanout < 1):
            raise InputError(
                f"a fan-out must be a whole number of at least 1, or None for all edges, but got {fanout!r}."
            )
    return tuple(fanouts)


def _as_list(value: Any) -> Any:
    """A single fan-out applies to all hops."""
    return (value,) if isinstance(value, str | int) and not isinstance(value, bool) else value


Fanouts = Annotated[tuple[Count | Literal["all"], ...], BeforeValidator(_as_list), Field(strict=False, min_length=1)]


class NeighborOptions(Section):
    """The keys of the neighbour sampler."""

    fanouts: Fanouts = (15, 10)
    per_relation: bool = False

    def fanouts_of(self, hops: int) -> list[int | None]:
        """One number per hop, None for all edges; the last one is repeated, numbers beyond the hops are not used.

        With one round per hop, every row that is read has drawn its edges.
        """
        given = [None if fanout == "all" else fanout for fanout in self.fanouts]
        return (given + given[-1:] * hops)[: max(hops, 1)]


def _build(options: NeighborOptions, stack: RelationStack, hops: int) -> NeighborSampler:
    return NeighborSampler(stack, options.fanouts_of(hops), per_relation=options.per_relation)


def _num_nodes(options: NeighborOptions, size: GraphSize, hops: int) -> float:  # noqa: ARG001
    """Fewer nodes than are drawn, since some are drawn twice."""
    drawn = float(size.batch_size)
    for draws in size.mean_draws[: max(hops, 1)]:
        drawn *= 1 + draws
    return size.num_nodes * (1 - math.exp(-drawn / size.num_nodes)) if size.num_nodes else 0.0


NEIGHBOR = register(SamplerEntry("neighbor", NeighborOptions, _build, _num_nodes))
