"""Other implementations of one hop of all channels, which are compared with the fused kernel."""

from typing import Any

import torch
from torch import Tensor

from fastgtn.relations import RelationStack


class PerRelation:
    """One `torch.sparse` CSR product (MKL) per relation, and one per transposed relation backward."""

    def __init__(self, stack: RelationStack) -> None:
        N = stack.num_nodes
        self.matrices, self.transposed = [], []
        for t in range(len(stack) - 1):
            rows, cols, values = stack[t].coordinates()
            matrix = torch.sparse_coo_tensor(torch.stack([rows, cols]), values, (N, N), check_invariants=False)
            self.matrices.append(matrix.to_sparse_csr())
            self.transposed.append(matrix.T.coalesce().to_sparse_csr())

    def __call__(self, h: Tensor, filters: Tensor) -> Tensor:
        return _PerRelation.apply(self, h, filters)


class _PerRelation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, way: PerRelation, h: Tensor, filters: Tensor) -> Tensor:
        ctx.way = way
        N, C, d = h.shape
        products = [(matrix @ h.view(N, C * d)).view(N, C, d) for matrix in way.matrices]
        ctx.save_for_backward(h, filters, *products)
        out = filters[:, -1, None] * h  # the identity needs no product
        for t, product in enumerate(products):
            out = torch.addcmul(out, product, filters[:, t, None])
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        h, filters, *products = ctx.saved_tensors
        N, C, d = h.shape
        h_grad = filters[:, -1, None] * grad
        for t, matrix in enumerate(ctx.way.transposed):
            h_grad += (matrix @ (filters[:, t, None] * grad).view(N, C * d)).view(N, C, d)
        dots = [(grad * product).sum((0, 2)) for product in (*products, h)]
        return None, h_grad, torch.stack(dots, 1)


class Coalesced:
    """The published way: concatenate all weighed relations, add up duplicates, multiply, channel by channel."""

    def __init__(self, stack: RelationStack, *, sane_backward: bool) -> None:
        parts = [stack[t].coordinates() for t in range(len(stack))]  # the identity as stored edges
        self.indices = torch.cat([torch.stack([p.rows, p.cols]) for p in parts], 1)
        self.values = torch.cat([p.values for p in parts])
        self.relation = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor([len(p.rows) for p in parts]))
        self.shape = (stack.num_nodes, stack.num_nodes)
        self.sane_backward = sane_backward

    def __call__(self, h: Tensor, filters: Tensor) -> Tensor:
        return torch.stack([self._channel(h[:, c], filters[c]) for c in range(h.size(1))], 1)

    def _channel(self, h: Tensor, filters: Tensor) -> Tensor:
        values = self.values * filters[self.relation]
        if self.sane_backward:
            return _CoalescedProduct.apply(self.indices, values, h)
        mixed = torch.sparse_coo_tensor(self.indices, values, self.shape, check_invariants=False).coalesce()
        return torch.sparse.mm(mixed, h)


class _CoalescedProduct(torch.autograd.Function):
    """The same product with gradients for the edges that exist, instead of a dense N × N matrix."""

    @staticmethod
    def forward(ctx: Any, indices: Tensor, values: Tensor, h: Tensor) -> Tensor:
        ctx.save_for_backward(indices, values, h)
        N = h.size(0)
        mixed = torch.sparse_coo_tensor(indices, values, (N, N), check_invariants=False).coalesce()
        return torch.sparse.mm(mixed, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        indices, values, h = ctx.saved_tensors
        N = h.size(0)
        rows, cols = indices
        transposed = torch.sparse_coo_tensor(indices.flip(0), values, (N, N), check_invariants=False).coalesce()
        return None, (grad[rows] * h[cols]).sum(1), torch.sparse.mm(transposed, grad)
