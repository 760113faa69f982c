r"""Layer-wise importance sampling, as for the heterogeneous graph transformer: some nodes of each type per step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from fastgtn.errors import InputError, nearest
from fastgtn.options import Count, Section
from fastgtn.relations.kernels.sampling import draws as kernels
from fastgtn.relations.kernels.sampling.batch_edges import edges_among
from fastgtn.relations.sampling.batch import Array, Batch, SampledGraph
from fastgtn.relations.sampling.entry import GraphSize, SamplerEntry, register
from fastgtn.relations.sampling.neighbor import seed_bits
from fastgtn.relations.stack import RelationStack


class LayerSampler:
    r"""Gather around the targets a dense neighbourhood with equal shares for rare and common node types.

    Every gathered node i hands one unit per relation to its neighbours, :math:`b_j = \sum_{t,i} [A_t]_{ij} / \deg_t(i)`
    over unweighted edges. In each step, type after type, up to a budget of the neighbours are gathered without
    replacement, with probabilities :math:`p_j \propto b_j^2`. The batch has all edges between gathered nodes.

    Args:
        budgets: How many nodes per step: of every type, or by node type (none of those left out).
        depth: Number of steps; at least the number of hops of the model lets every hop reach further.
    """

    def __init__(self, stack: RelationStack, budgets: int | Mapping[str, int], depth: int) -> None:
        self.graph = SampledGraph(stack)
        self.budgets = _checked(budgets, stack.node_types)
        if depth < 1:
            raise InputError(f"depth is the number of sampling steps, at least 1, but got {depth}.")
        self.depth = depth

    def sample(self, targets: Tensor, seed: int) -> Batch:
        """The neighbourhood of distinct nodes, given by their numbers in the graph."""
        graph, wanted = self.graph, self.graph.check(targets)
        with graph.numbering() as number:
            number[wanted] = 0  # marked as gathered; the final numbers are assigned at the end
            others = self._gather(wanted, number, seed_bits(seed))
            nodes, counts = graph.order(wanted, others)
            number[nodes] = np.arange(len(nodes))
            edge_ptr, edges = edges_among(nodes, number, graph.row_ptr, graph.seg_ptr, graph.col)
            batch = graph.batch(wanted, nodes, counts, number, edge_ptr, edges)
            number[nodes] = -1
        return batch

    def _gather(self, targets: Array, number: Array, seed: np.uint64) -> Array:
        graph = self.graph
        score = np.zeros(graph.stack.num_nodes)
        csr = (graph.row_ptr, graph.seg_ptr, graph.col, number, score)
        candidates = kernels.add_to_budget(targets, *csr, np.empty(0, np.int32))
        gathered = [np.empty(0, np.int32)]
        ends = [0, *graph.ends.tolist()]
        for step in range(self.depth):
            for t, budget in enumerate(self.budgets):
                waiting = (candidates >= ends[t]) & (candidates < ends[t + 1]) & (number[candidates] < 0)
                new = _drawn(candidates[waiting], score, budget, seed, step)
                number[new] = 0
                gathered.append(new)
                candidates = kernels.add_to_budget(new, *csr, candidates)
        return np.concatenate(gathered)


def _drawn(candidates: Array, score: Array, budget: int, seed: np.uint64, step: int) -> Array:
    r"""Up to `budget` of the candidates without replacement, in proportion to the square of their scores.

    The smallest waiting times :math:`-\log(u_j) / b_j^2` are those that drawing one after the other would choose.
    """
    if len(candidates) <= budget:
        return np.sort(candidates)
    waits = -np.log(kernels.uniforms(seed, step, candidates)) / score[candidates] ** 2
    return np.sort(candidates[np.argpartition(waits, budget)[:budget]])


def _checked(budgets: int | Mapping[str, int], node_types: tuple[str, ...]) -> tuple[int, ...]:
    if not isinstance(budgets, Mapping):
        budgets = dict.fromkeys(node_types, budgets)
    for node_type, budget in budgets.items():
        if node_type not in node_types:
            raise InputError(f'budgets contain the unknown node type "{node_type}"; {nearest(node_type, node_types)}')
        if budget < 0:
            raise InputError(
                f'the budget of "{node_type}" is {budget}: give the largest number of nodes per step, at least 0.'
            )
    if not any(budgets.values()):
        raise InputError("all budgets are 0: at least one node type must be sampled.")
    return tuple(int(budgets.get(node_type, 0)) for node_type in node_types)


class LayerOptions(Section):
    """The keys of the layer-wise sampler."""

    budget: Count = 512


def _build(options: LayerOptions, stack: RelationStack, hops: int) -> LayerSampler:
    return LayerSampler(stack, options.budget, max(hops, 1))


def _num_nodes(options: LayerOptions, size: GraphSize, hops: int) -> float:
    return min(size.num_nodes, size.batch_size + options.budget * size.num_node_types * max(hops, 1))


LAYER = register(SamplerEntry("layer", LayerOptions, _build, _num_nodes))
