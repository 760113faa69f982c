"""Attention over edges without a stored message: each edge is read twice forward and twice backward."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.kernels.buffers import empty_tensor
from fastgtn.relations.kernels.dropout import drop
from fastgtn.relations.kernels.edge_loops import edge_products, edge_scores, grouped


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
        received = grouped(edges, 1, num_rows)
        weights = received.softmax(logits)
        ctx.save_for_backward(edges, weights, values, kept)
        return received.collect(_remaining(weights, kept), values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, weights, values, kept = ctx.saved_tensors
        logit_grad = grouped(edges, 1, len(grad)).logit_gradients(weights, kept, values, grad)
        value_grad = grouped(edges, 0, len(values)).collect(_remaining(weights, kept), grad)
        return None, logit_grad, value_grad, None, None


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(edges, q, k)
        return edge_products(edges, q, k)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, q, k = ctx.saved_tensors
        return None, grouped(edges, 1, len(q)).collect(grad, k), grouped(edges, 0, len(k)).collect(grad, q)


class _EdgeSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, received: Tensor, sent: Tensor, slope: float) -> Tensor:
        out = edge_scores(edges, received, sent, slope)
        ctx.slope, ctx.sizes = slope, (len(received), len(sent))
        ctx.save_for_backward(edges, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, out = ctx.saved_tensors
        change = torch.ops.aten.leaky_relu_backward(grad, out, ctx.slope, True)
        received, sent = ctx.sizes
        by_ends = grouped(edges, 1, received), grouped(edges, 0, sent)
        return None, *(edges_of.collect_scores(change) for edges_of in by_ends), None


def _remaining(weights: Tensor, kept: Tensor) -> Tensor:
    """The weights after dropout."""
    return torch.mul(weights, kept, out=empty_tensor(kept.shape, kept.dtype)) if len(kept) else weights
