"""Loops over an edge list, grouped by either end, on the team of threads.

A node adds up its edges in the order in which they came, so the bits of a sum do not depend on who computes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from fastgtn.relations.kernels.buffers import empty_tensor
from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.team import on_team
from fastgtn.relations.layout.segments import equal_chunks, sort_by

Array = np.ndarray

_EDGES = 1024  # edges that one thread handles at a time, where each stands alone


@dataclass(frozen=True, eq=False)
class Grouped:
    """The edges of node i are ``order[ptr[i] : ptr[i + 1]]``, and their far ends ``others[ptr[i] : ptr[i + 1]]``."""

    chunks: Array  # int64, boundaries of nodes with about equal work
    ptr: Array  # int64 [N + 1]
    order: Array  # int64 [E]
    others: Array  # int64 [E]

    @staticmethod
    def build(ends: Array, others: Array, count: int) -> "Grouped":
        ptr = np.concatenate([[0], np.bincount(ends, minlength=count).cumsum()])
        order = sort_by(ends, count)
        return Grouped(equal_chunks(ptr), ptr, order, others[order])

    def softmax(self, logits: Tensor) -> Tensor:
        """The softmax of the logits [E, H] over the edges of each node."""
        weights = empty_tensor(logits.shape, logits.dtype)
        self._run(_softmax, _softmax_all, self.order, as_array(logits), as_array(weights))
        return weights

    def collect(self, weights: Tensor, table: Tensor) -> Tensor:
        """The sums of ``weights[e] * table[j]`` over the edges e from or to j of each node, [N, H, d]."""
        out = empty_tensor((len(self.ptr) - 1, *table.shape[1:]), table.dtype)
        if not self.is_in_order:  # one gather: the loop below would wait for every single weight
            room = empty_tensor(weights.shape, weights.dtype)
            weights = torch.index_select(weights, 0, torch.from_numpy(self.order), out=room)
        self._run(_collect, _collect_all, self.others, as_array(weights), as_array(table), as_array(out))
        return out

    def logit_gradients(self, weights: Tensor, kept: Tensor, values: Tensor, grad: Tensor) -> Tensor:
        """The gradient of the logits of :meth:`softmax`, if `kept` of its weights were used in :meth:`collect`."""
        out = empty_tensor(weights.shape, weights.dtype)
        arrays = (as_array(tensor) for tensor in (weights, kept, values, grad, out))
        self._run(_logit_gradients, _logit_gradients_all, self.order, self.others, *arrays)
        return out

    def collect_scores(self, scores: Tensor) -> Tensor:
        """The sums of the scores [E, H] over the edges of each node."""
        out = empty_tensor((len(self.ptr) - 1, scores.size(1)), scores.dtype)
        self._run(_collect_scores, _collect_scores_all, self.order, as_array(scores), as_array(out))
        return out

    @cached_property
    def is_in_order(self) -> bool:
        """Whether the edges came grouped already."""
        return bool((self.order[1:] > self.order[:-1]).all())

    def _run(self, piece: Callable[..., None], whole: Callable[..., None], *arrays: Array) -> None:
        run_ranges(piece, whole, len(self.chunks) - 1, self.chunks, self.ptr, *arrays)


def grouped(edge_index: Tensor, end: int, count: int) -> Grouped:
    """The edges by sender (0) or receiver (1). A list is sorted once, because every epoch reads the same one."""
    is_tracked = not edge_index.is_inference()  # whether torch counts the changes of the list
    version, known = _known.get(edge_index, (None, {})) if is_tracked else (None, {})
    if is_tracked and version != edge_index._version:
        known = {}
        _known[edge_index] = edge_index._version, known
    if (end, count) not in known:
        ends = as_array(edge_index)
        known[end, count] = Grouped.build(ends[end], ends[1 - end], count)
    found: Grouped = known[end, count]
    return found


_known: Any = WeakIdKeyDictionary()  # edge_index → its version, and what was made of it


def edge_products(edge_index: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The products of the receiver's row of q and the sender's row of k [N, H, d], shape [E, H]."""
    out = empty_tensor((edge_index.size(1), q.size(1)), q.dtype)
    arrays = (as_array(tensor) for tensor in (edge_index, q, k, out))
    run_ranges(_products, _products_all, -(-len(out) // _EDGES), *arrays)
    return out


def edge_scores(edge_index: Tensor, received: Tensor, sent: Tensor, slope: float) -> Tensor:
    """The leaky ReLU of the scores of both ends [N, H], added up, shape [E, H]."""
    out = empty_tensor((edge_index.size(1), sent.size(1)), sent.dtype)
    edges, *arrays, target = (as_array(tensor) for tensor in (edge_index, received, sent, out))
    run_ranges(_scores, _scores_all, -(-len(out) // _EDGES), edges, *arrays, target.dtype.type(slope), target)
    return out


def as_array(tensor: Tensor) -> Array:
    """The numbers of a tensor, as the kernels read them."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


@kernel
def _softmax(first: int, last: int, chunks: Array, ptr: Array, order: Array, logits: Array, weights: Array) -> None:
    H = logits.shape[1]
    top, total = np.empty(H, logits.dtype), np.empty(H, logits.dtype)
    for i in range(chunks[first], chunks[last]):
        for h in range(H):
            top[h], total[h] = -np.inf, 0
        for place in range(ptr[i], ptr[i + 1]):
            for h in range(H):
                top[h] = max(top[h], logits[order[place], h])
        for place in range(ptr[i], ptr[i + 1]):
            e = order[place]
            for h in range(H):
                weights[e, h] = np.exp(logits[e, h] - top[h])
                total[h] += weights[e, h]
        for place in range(ptr[i], ptr[i + 1]):
            for h in range(H):
                weights[order[place], h] /= total[h]


@kernel
def _collect(
    first: int,
    last: int,
    chunks: Array,
    ptr: Array,
    others: Array,
    weights: Array,
    table: Array,
    out: Array,
) -> None:
    for i in range(chunks[first], chunks[last]):
        for h in range(weights.shape[1]):
            for d in range(table.shape[2]):
                out[i, h, d] = 0
        for place in range(ptr[i], ptr[i + 1]):
            j = others[place]
            for h in range(weights.shape[1]):
                weight = weights[place, h]
                for d in range(table.shape[2]):
                    out[i, h, d] += weight * table[j, h, d]


@kernel
def _logit_gradients(
    first: int,
    last: int,
    chunks: Array,
    ptr: Array,
    order: Array,
    others: Array,
    weights: Array,
    kept: Array,
    values: Array,
    grad: Array,
    out: Array,
) -> None:
    H = weights.shape[1]
    mean = np.empty(H, grad.dtype)  # of the gradients of the weights of one receiver
    for i in range(chunks[first], chunks[last]):
        for h in range(H):
            mean[h] = 0
        for place in range(ptr[i], ptr[i + 1]):
            e, j = order[place], others[place]
            for h in range(H):
                dot = grad.dtype.type(0)
                for d in range(values.shape[2]):
                    dot += grad[i, h, d] * values[j, h, d]
                scale = kept[e, h] if len(kept) else grad.dtype.type(1)
                out[e, h] = weights[e, h] * dot * scale
                mean[h] += out[e, h]
        for place in range(ptr[i], ptr[i + 1]):
            e = order[place]
            for h in range(H):
                out[e, h] -= weights[e, h] * mean[h]


@kernel
def _collect_scores(first: int, last: int, chunks: Array, ptr: Array, order: Array, scores: Array, out: Array) -> None:
    for i in range(chunks[first], chunks[last]):
        for h in range(scores.shape[1]):
            out[i, h] = 0
        for place in range(ptr[i], ptr[i + 1]):
            for h in range(scores.shape[1]):
                out[i, h] += scores[order[place], h]


@kernel
def _products(first: int, last: int, edges: Array, q: Array, k: Array, out: Array) -> None:
    for e in range(first * _EDGES, min(last * _EDGES, edges.shape[1])):
        j, i = edges[0, e], edges[1, e]
        for h in range(q.shape[1]):
            dot = q.dtype.type(0)
            for d in range(q.shape[2]):
                dot += q[i, h, d] * k[j, h, d]
            out[e, h] = dot


@kernel
def _scores(first: int, last: int, edges: Array, received: Array, sent: Array, slope: np.floating, out: Array) -> None:
    for e in range(first * _EDGES, min(last * _EDGES, edges.shape[1])):
        j, i = edges[0, e], edges[1, e]
        for h in range(out.shape[1]):
            score = received[i, h] + sent[j, h]
            out[e, h] = score if score > 0 else slope * score


_softmax_all = kernel(lambda threads, count, *arguments: on_team(_softmax, threads, count, arguments))
_collect_all = kernel(lambda threads, count, *arguments: on_team(_collect, threads, count, arguments))
_logit_gradients_all = kernel(lambda threads, count, *arguments: on_team(_logit_gradients, threads, count, arguments))
_collect_scores_all = kernel(lambda threads, count, *arguments: on_team(_collect_scores, threads, count, arguments))
_products_all = kernel(lambda threads, count, *arguments: on_team(_products, threads, count, arguments))
_scores_all = kernel(lambda threads, count, *arguments: on_team(_scores, threads, count, arguments))
