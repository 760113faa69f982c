"""Non-local operations: one more relation per hop, between similar nodes anywhere in the graph."""

import warnings
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from fastgtn.options import Choice, Count, Section
from fastgtn.relations import ANY, Relation
from fastgtn.relations.kernels.hop import edge_dots, sweep
from fastgtn.relations.kernels.nearest import largest_products
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges

NON_LOCAL = Relation(ANY, "non_local", ANY)


class NonLocalOptions(Section):
    """How non-local relations are made.

    Args:
        neighbors: The number n of entries kept per row.
        hidden: Widths of the two layers of :math:`g_θ`.
        exclude_self: Whether a node may not choose itself.
        final_relu: Whether :math:`g_θ` ends with a ReLU.
        init_logit: Initial logit of the relation in the filters; the others start around 0.
    """

    neighbors: Annotated[Count, Choice((3, 5, 10))] = 5
    hidden: Annotated[tuple[Count, Count], Field(strict=False)] = (128, 64)
    exclude_self: Annotated[bool, Choice((False, True))] = False
    final_relu: bool = True
    init_logit: Annotated[float, Choice((-2.0, -1.0, 0.0))] = -1.0


class NonLocalKeys(NonLocalOptions):
    """The section `[model.non_local]` of a config."""

    enabled: bool = False


class NonLocal(nn.Module):
    r"""Join each node to the n nodes most similar to it, :math:`A[i, :] = \mathrm{softmax}(\mathrm{top}_n(M[i, :]))`.

    The similarity is :math:`M = G G^\top` with :math:`G = g_θ(\frac{1}{C} \sum_c h_c)`. M itself is never
    stored: memory is O(N·n) and one tile. The gradient reaches :math:`g_θ` through the chosen entries.

    Args:
        features: Width d of the hidden features.
    """

    def __init__(self, features: int, options: NonLocalOptions) -> None:
        super().__init__()
        if options.neighbors == 1:
            warnings.warn(
                "non-local operations with one neighbour: its softmax weight is always 1, so g_θ gets no gradient "
                "and cannot learn. Use neighbors ≥ 2.",
                stacklevel=2,
            )
        self.options = options
        last = [nn.ReLU()] if options.final_relu else []
        wide, narrow = options.hidden
        self.project = nn.Sequential(nn.Linear(features, wide), nn.ReLU(), nn.Linear(wide, narrow), *last)

    def forward(self, h: Tensor, num_rows: int, nodes: Tensor | None = None) -> Edges:
        """The relation from all nodes to the first rows.

        Args:
            h: Hidden features [N, C, d].
            nodes: The numbers of the nodes in the order of h, if it is another one. Of equal products the lower
                number is taken, so that the relation of a row does not depend on the rows that are asked for with it.
        """
        g = self.project(h.mean(1))
        g = g.float() if g.dtype in (torch.bfloat16, torch.float16) else g  # near neighbours differ in few digits
        nearest = self._nearest(g.detach(), num_rows, nodes)
        n = nearest.size(1)
        steps = torch.arange(num_rows + 1, device=g.device)
        segments = Segments(
            row_ptr=steps,
            relation=torch.zeros(num_rows, dtype=torch.int32, device=g.device),
            seg_ptr=steps * n,
            col=nearest.flatten(),
            num_cols=len(g),
            num_relations=1,
        )
        values = _products(segments, g).view(num_rows, n).softmax(-1).flatten()
        return Edges(segments, values)

    def _nearest(self, g: Tensor, num_rows: int, nodes: Tensor | None) -> Tensor:
        place = torch.arange(len(g), device=g.device) if nodes is None else nodes.argsort()  # of node numbers in g
        rows, options = place.argsort()[:num_rows], self.options
        nearest = largest_products(g[place], options.neighbors, rows=rows, exclude_self=options.exclude_self)
        return place.int()[nearest.long()]

    def extra_repr(self) -> str:
        return str(self.options)


def _products(segments: Segments, g: Tensor) -> Tensor:
    if g.device.type == "cpu":
        products: Tensor = _EdgeProducts.apply(segments, g)
        return products
    return (g[segments.edge_rows()] * g[segments.col.long()]).sum(-1)


class _EdgeProducts(torch.autograd.Function):
    r"""Inner products of the ends of each edge, :math:`v_{ij} = ⟨g_i, g_j⟩`, without gathering N·n·d numbers."""

    @staticmethod
    def forward(ctx: Any, segments: Segments, g: Tensor) -> Tensor:
        ctx.segments = segments
        g = g.contiguous()
        ctx.save_for_backward(g)
        table = g.detach().numpy()
        return torch.from_numpy(edge_dots(segments, torch.ones(1, 1, dtype=g.dtype).numpy(), table, table))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (g,) = ctx.saved_tensors
        columns, order = ctx.segments.transposed
        grad = grad.contiguous()
        out = torch.zeros_like(g)
        one = torch.ones(1, 1, dtype=g.dtype).numpy()
        sweep(ctx.segments, grad.numpy(), one, g.numpy(), out.numpy())
        sweep(columns, grad[order].numpy(), one, g.numpy(), out.numpy(), keep=True)
        return None, out
