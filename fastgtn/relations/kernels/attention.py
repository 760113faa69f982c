"""Attention over edges without a stored message: each edge is read twice forward and once backward."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.kernels.compile import kernel
from fastgtn.relations.kernels.dropout import drop


def attend(edge_index: Tensor, logits: Tensor, values: Tensor, num_rows: int, *, dropout: float = 0.0) -> Tensor:
    r"""Sum the values of senders, weighed by a softmax over the edges of each receiver.

    .. math:: y_{ih} = \sum_{e : j \to i} \frac{\exp(s_{eh})}{\sum_{e' : · \to i} \exp(s_{e'h})} \, v_{jh}

    Args:
        edge_index: Senders and receivers [2, E], in any order.
        logits: Scores s of edges, shape [E, H].
        values: What senders send, shape [M, H, d].
        dropout: Share of the weights that are set to zero, the others scaled; give 0 outside of training.
    """
    _check(edge_index, logits.size(1), (values, values.size(0)), (None, num_rows))
    _require(logits.size(0) == edge_index.size(1), f"logits [{edge_index.size(1)}, H]", logits)
    dtype = values.dtype
    logits, values = _widened(logits, values)
    if values.device.type != "cpu":
        return _attend_in_torch(edge_index, logits, values, num_rows, dropout).to(dtype)
    kept = drop(logits.new_ones(logits.shape), dropout) if dropout else logits.new_empty(0, logits.size(1))
    out: Tensor = _Attend.apply(edge_index, logits, values, num_rows, kept)
    return out.to(dtype)


def edge_dots(edge_index: Tensor, q: Tensor, k: Tensor) -> Tensor:
    r"""Products :math:`q_{ih} · k_{jh}` of the receiver's and the sender's vectors [N, H, d] for every edge, [E, H]."""
    _check(edge_index, q.size(1), (k, k.size(0)), (q, q.size(0)))
    _require(q.shape[1:] == k.shape[1:], f"the widths of both ends to agree, {tuple(q.shape[1:])}", k)
    if q.device.type != "cpu":
        return (q[edge_index[1]] * k[edge_index[0]]).sum(-1)
    out: Tensor = _EdgeDots.apply(edge_index, *_widened(q, k))
    return out.to(q.dtype)


def edge_sums(edge_index: Tensor, received: Tensor, sent: Tensor, *, slope: float) -> Tensor:
    """Leaky ReLU of the receiver's plus the sender's score [N, H] for every edge, [E, H]."""
    _check(edge_index, sent.size(1), (sent, sent.size(0)), (received, received.size(0)))
    if sent.device.type != "cpu":
        return F.leaky_relu(received[edge_index[1]] + sent[edge_index[0]], slope)
    out: Tensor = _EdgeSums.apply(edge_index, *_widened(received, sent), slope)
    return out.to(sent.dtype)


def _attend_in_torch(edges: Tensor, logits: Tensor, values: Tensor, num_rows: int, dropout: float) -> Tensor:
    """The same for other devices, with one message per edge."""
    to = edges[1]
    top = logits.new_full((num_rows, logits.size(1)), -torch.inf)
    top = top.scatter_reduce(0, to[:, None].expand_as(logits), logits.detach(), "amax")
    powers = (logits - top[to]).exp()
    total = torch.zeros_like(top).index_add(0, to, powers)
    weights = drop(powers / total[to], dropout, dropout > 0)
    return values.new_zeros(num_rows, *values.shape[1:]).index_add(0, to, weights[:, :, None] * values[edges[0]])


def _widened(*tensors: Tensor) -> list[Tensor]:
    """Numbers of one precision that the kernels have: float32 at least."""
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return [tensor.to(dtype) for tensor in tensors]


def _check(edge_index: Tensor, heads: int, *ends: tuple[Tensor | None, int]) -> None:
    """Refuse edges between nodes that do not exist, and tables of another number of heads."""
    shape = edge_index.dim() == 2 and edge_index.size(0) == 2
    _require(shape and edge_index.dtype == torch.int64, "edge_index int64 [2, E]", edge_index)
    for nodes, (table, count) in zip(edge_index, ends, strict=True):
        if nodes.numel():
            low, high = (int(bound) for bound in torch.aminmax(nodes))
            _require(0 <= low <= high < count, f"nodes in 0 … {count - 1}, but they span {low} … {high}", nodes)
        if table is not None:
            _require(table.size(1) == heads, f"{heads} heads", table)


def _require(holds: bool, expected: str, came: Tensor) -> None:
    if not holds:
        raise InputError(f"attention expects {expected}; got {came.dtype} {tuple(came.shape)}.")


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, logits: Tensor, values: Tensor, num_rows: int, kept: Tensor) -> Tensor:
        weights = torch.empty_like(logits, memory_format=torch.contiguous_format)
        out = values.new_zeros(num_rows, *values.shape[1:])
        _softmax(_array(edges), _array(logits), _array(weights), num_rows)
        _weighted_sum(_array(edges), _array(weights), _array(kept), _array(values), _array(out))
        ctx.save_for_backward(edges, weights, values, kept)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, weights, values, kept = ctx.saved_tensors
        logit_grad, value_grad = torch.empty_like(weights), torch.zeros_like(values).contiguous()
        arrays = [_array(tensor) for tensor in (edges, weights, kept, values, grad, logit_grad, value_grad)]
        _attend_gradients(*arrays)
        return None, logit_grad, value_grad, None, None


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(edges, q, k)
        out = q.new_empty(edges.size(1), q.size(1))
        _dots(_array(edges), _array(q), _array(k), _array(out))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, q, k = ctx.saved_tensors
        q_grad, k_grad = (torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (q, k))
        _dot_gradients(*(_array(tensor) for tensor in (edges, q, k, grad, q_grad, k_grad)))
        return None, q_grad, k_grad


class _EdgeSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, received: Tensor, sent: Tensor, slope: float) -> Tensor:
        ctx.slope, ctx.sizes = slope, (received.shape, sent.shape)
        out = sent.new_empty(edges.size(1), sent.size(1))
        _sums(_array(edges), _array(received), _array(sent), slope, _array(out))
        ctx.save_for_backward(edges, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, out = ctx.saved_tensors
        received, sent = (grad.new_zeros(size) for size in ctx.sizes)
        _sum_gradients(_array(edges), _array(out), _array(grad), ctx.slope, _array(received), _array(sent))
        return None, received, sent, None


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().contiguous().numpy()
    return array


@kernel
def _softmax(edges: np.ndarray, logits: np.ndarray, weights: np.ndarray, num_rows: int) -> None:
    E, H = logits.shape
    top = np.full((num_rows, H), -np.inf, logits.dtype)
    total = np.zeros((num_rows, H), logits.dtype)
    for e in range(E):
        i = edges[1, e]
        for h in range(H):
            top[i, h] = max(top[i, h], logits[e, h])
    for e in range(E):
        i = edges[1, e]
        for h in range(H):
            weights[e, h] = np.exp(logits[e, h] - top[i, h])
            total[i, h] += weights[e, h]
    for e in range(E):
        i = edges[1, e]
        for h in range(H):
            weights[e, h] /= total[i, h]


@kernel
def _weighted_sum(
    edges: np.ndarray, weights: np.ndarray, kept: np.ndarray, values: np.ndarray, out: np.ndarray
) -> None:
    E, H = weights.shape
    for e in range(E):
        j, i = edges[0, e], edges[1, e]
        for h in range(H):
            weight = weights[e, h] * kept[e, h] if len(kept) else weights[e, h]
            for d in range(values.shape[2]):
                out[i, h, d] += weight * values[j, h, d]


@kernel
def _attend_gradients(
    edges: np.ndarray,
    weights: np.ndarray,
    kept: np.ndarray,
    values: np.ndarray,
    grad: np.ndarray,
    logit_grad: np.ndarray,
    value_grad: np.ndarray,
) -> None:
    E, H = weights.shape
    mean = np.zeros((len(grad), H), grad.dtype)  # of the gradients of the weights, per receiver
    for e in range(E):
        j, i = edges[0, e], edges[1, e]
        for h in range(H):
            scale = kept[e, h] if len(kept) else grad.dtype.type(1)
            weight = weights[e, h] * scale
            dot = grad.dtype.type(0)
            for d in range(values.shape[2]):
                dot += grad[i, h, d] * values[j, h, d]
                value_grad[j, h, d] += weight * grad[i, h, d]
            logit_grad[e, h] = weights[e, h] * dot * scale
            mean[i, h] += logit_grad[e, h]
    for e in range(E):
        i = edges[1, e]
        for h in range(H):
            logit_grad[e, h] -= weights[e, h] * mean[i, h]


@kernel
def _dots(edges: np.ndarray, q: np.ndarray, k: np.ndarray, out: np.ndarray) -> None:
    for e in range(edges.shape[1]):
        j, i = edges[0, e], edges[1, e]
        for h in range(q.shape[1]):
            dot = q.dtype.type(0)
            for d in range(q.shape[2]):
                dot += q[i, h, d] * k[j, h, d]
            out[e, h] = dot


@kernel
def _dot_gradients(
    edges: np.ndarray, q: np.ndarray, k: np.ndarray, grad: np.ndarray, q_grad: np.ndarray, k_grad: np.ndarray
) -> None:
    for e in range(edges.shape[1]):
        j, i = edges[0, e], edges[1, e]
        for h in range(q.shape[1]):
            for d in range(q.shape[2]):
                q_grad[i, h, d] += grad[e, h] * k[j, h, d]
                k_grad[j, h, d] += grad[e, h] * q[i, h, d]


@kernel
def _sums(edges: np.ndarray, received: np.ndarray, sent: np.ndarray, slope: float, out: np.ndarray) -> None:
    slope = out.dtype.type(slope)
    for e in range(edges.shape[1]):
        j, i = edges[0, e], edges[1, e]
        for h in range(out.shape[1]):
            score = received[i, h] + sent[j, h]
            out[e, h] = score if score > 0 else slope * score


@kernel
def _sum_gradients(
    edges: np.ndarray, out: np.ndarray, grad: np.ndarray, slope: float, received: np.ndarray, sent: np.ndarray
) -> None:
    slope = out.dtype.type(slope)
    for e in range(edges.shape[1]):
        j, i = edges[0, e], edges[1, e]
        for h in range(out.shape[1]):
            change = grad[e, h] if out[e, h] > 0 else slope * grad[e, h]
            received[i, h] += change
            sent[j, h] += change
