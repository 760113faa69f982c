"""Neighbour sampling: from the targets outwards, a few edges per node and hop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations import sampling_kernels as kernels
from fastgtn.relations.batch import Array, Batch, SampledGraph
from fastgtn.relations.stack import RelationStack

ALL = np.iinfo(np.int64).max


class NeighborSampler:
    """Draw the neighbourhood of target nodes, hop by hop (algorithm 1 of the paper).

    In each hop every node gathered so far, the targets included, draws up to n of its incoming edges, whatever
    their relation, uniformly and without replacement; an edge drawn in several hops counts once. With as many hops
    as the model has, no row is ever read that drew nothing. Sample from raw weights and normalise the batch: then a
    row that was drawn whole is normalised as in the full graph.

    Args:
        fanouts: n for each hop, from the targets outwards; None takes all edges.
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
        """All nodes in the order they were found, and for each hop where each node's draws start, and the draws."""
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
    edge_ptr, edges = kernels.unite(found, np.cumsum(sizes) - sizes, sizes - 1, starts, draws, lengths)
    return edge_ptr, edges


def _checked(fanouts: Sequence[int | None]) -> tuple[int | None, ...]:
    if not len(fanouts):
        raise InputError("fanouts is empty: give one number per hop of the model, such as [15, 10]; None takes all.")
    for fanout in fanouts:
        if fanout is not None and (isinstance(fanout, bool) or int(fanout) != fanout or fanout < 1):
            raise InputError(f"a fan-out must be a whole number from 1 on, or None for all, but got {fanout!r}.")
    return tuple(fanouts)
