"""The original GTN, exact and without a single product of two sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.models.aggregate import Activation, Aggregation, ChannelAggregation
from fastgtn.models.dropout import drop
from fastgtn.models.encoders import Encoder
from fastgtn.models.features import Features
from fastgtn.models.filters import HopFilters
from fastgtn.models.inputs import check_hyper_parameters
from fastgtn.models.learned import learned_graphs
from fastgtn.models.meta_path_model import MetaPathModel
from fastgtn.models.unrolled import UnrolledRows
from fastgtn.relations import Hops, Relation, RelationStack
from fastgtn.relations.checks import check_non_negative

_COMFORT = 20  # binary orders of magnitude that a column may drift before it is brought back to 1
_FLOAT32_SPAN = 160  # between the largest and the smallest degree; float32 has 250, features and sums take some


class GTN(MetaPathModel):
    r"""Graph Transformer Network on raw, weighted adjacency matrices (paper eq. 5 to 8).

    The learned graph is :math:`A_c = \mathrm{rownorm}(F_{1c} ⋯ F_{Kc})`, and each GNN layer on it computes

    .. math:: Z' = f_{agg} \Big( \big\Vert_c \, σ(\tilde{D}_c^{-1} (A_c + γI) Z W) \Big).

    Row normalisation is a left scaling, so the :math:`D^{-1}` of all layers but the last cancel, and the last
    one is the same product applied to a column of ones: the exact result for the price of one more column. With
    one filter (K = 1) the paper normalises only after adding :math:`γI`, and so does this.

    Args:
        in_features: Width of the one feature matrix of all nodes, or a :class:`Features` object to build for.
        out_features: Width d of the representation.
        relations: ``stack.relations``; a stack without identity gives GTN₋I.
        path_length: Number K of filters in the product (one more than the paper's GT layers).
        num_layers: GNN layers on the learned graph.
        gamma: Weight γ of the self-loops; a node's own share is γ / (1 + γ).
        encoder: Put a ReLU and one more map between the features and the learned graph.
    """

    def __init__(
        self, in_features: int | Features, out_features: int, relations: Sequence[Relation], *, path_length: int = 2,
        num_channels: int = 2, num_layers: int = 1, gamma: float = 1.0, aggregate: Aggregation = "concat",
        activation: Activation = "relu", encoder: Encoder = "linear", dropout: float = 0.0, bias: bool = False,
        filter_init_std: float = 0.01,
    ) -> None:  # fmt: skip
        super().__init__()
        check_hyper_parameters(num_layers=num_layers, dropout=dropout)
        if gamma < 0:
            raise InputError(f"GTN's gamma is the weight of a self-loop, at least 0, but got {gamma}.")
        self.relations = tuple(Relation(*r) for r in relations)
        self.filters = HopFilters(path_length, num_channels, self.relations, init_std=filter_init_std)
        self.path_length, self.num_layers, self.num_channels = path_length, num_layers, num_channels
        self.gamma, self.dropout = gamma, dropout
        aggregates = [
            ChannelAggregation(aggregate, num_channels, out_features, activation=activation) for _ in range(num_layers)
        ]
        self.aggregates = nn.ModuleList(aggregates)
        self._build_encoder(in_features, out_features, out_features, encoder)
        widths = [aggregation.out_features for aggregation in aggregates]
        self.linears = nn.ModuleList(nn.Linear(w, out_features, bias=False) for w in widths[:-1])
        self.biases = nn.ParameterList(torch.zeros(out_features) for _ in range(num_layers)) if bias else None
        self.out_features = widths[-1]

    def hop_filters(self) -> list[HopFilters]:
        """The learned choices; all layers share one learned graph."""
        return [self.filters]

    def aggregations(self) -> list[ChannelAggregation]:
        """How each GNN layer joins its channels; a ModuleList does not know what it holds."""
        return cast(list[ChannelAggregation], list(self.aggregates))

    def _forward_hops(self, features: Features, hops: Hops) -> Tensor:
        check_non_negative(min(operator.smallest_value for operator in hops), "GTN divides by degrees, so it")
        filters = self.filters()
        z = self.encode(features)
        for number, aggregate in enumerate(self.aggregates):
            if number:
                z = self.linears[number - 1](drop(z, self.dropout, self.training))
            if self.biases is not None:
                z = z + self.biases[number]
            wide = z[:, None].expand(-1, self.num_channels, -1)  # W is shared: every channel starts from ZW
            z = aggregate(convolve(wide, self._hops_of_layer(hops, number), filters, self.gamma))
        return z

    def _forward_unrolled(self, features: Features, rows: UnrolledRows) -> Tensor:
        rows.require(features, self.relations, self.num_hops, means=True)
        own = self.input(features)
        mean, degree = rows.means(own, self.input, self.filters())
        reached = (degree > 0).to(own.dtype)
        if self.biases is not None:
            own, mean = own + self.biases[0], mean + reached * self.biases[0]
        if self.path_length == 1:
            degree = degree.to(own.dtype)
            return self.aggregations()[0](add_loops(degree * mean, degree, own[:, None], self.gamma))
        return self.aggregations()[0](add_loops(mean, reached, own[:, None], self.gamma))

    def learned_graphs(self, stack: RelationStack, *, top: int | None = None, max_memory: float = 2e9) -> RelationStack:
        r"""The meta-path graphs :math:`A_c` themselves, one relation per channel.

        Args:
            top: Keep only this many largest entries per row (their values stay as they are).
            max_memory: Bytes that the result may take; a larger one is refused.
        """
        stack.hops(1).require_relations(self.relations)
        stack.require_non_negative("GTN divides by degrees, so it")
        # a single filter is not normalised before the convolution, as in the paper
        normalize = self.path_length > 1
        return learned_graphs(stack, self.filters(), normalize=normalize, top=top, max_memory=max_memory)


def convolve(z: Tensor, hops: Hops, filters: Tensor, gamma: float) -> Tensor:
    r"""One graph convolution on the learned graph, :math:`\tilde{D}^{-1} (A + γI) z` for each channel [N, C, d]."""
    own = z[: hops.num_targets]
    if len(hops) == 1:
        degree = hops.operators[0].apply(torch.ones_like(z[:, :, :1]), filters[0])
        return add_loops(hops.operators[0].apply(z, filters[0]), degree, own, gamma)
    mean, reached = path_means(z, hops, filters)
    return add_loops(mean, reached.to(z.dtype), own, gamma)


def add_loops(messages: Tensor, degree: Tensor, own: Tensor, gamma: float) -> Tensor:
    """Give each row a self-loop of weight γ, and divide by its degree, which is `degree` without that."""
    total = degree + gamma
    return (messages + gamma * own) / torch.where(total > 0, total, 1.0)


def path_means(z: Tensor, hops: Hops, filters: Tensor) -> tuple[Tensor, Tensor]:
    r"""Rows of :math:`\mathrm{rownorm}(F_1 ⋯ F_K) z`, zero where no path starts, and which rows have paths.

    The degree column grows like the number of paths. It is kept in float64, and brought back to the middle of
    the number range with powers of two, exactly, and the features with it; where degrees are too far apart for
    float32, the features take float64 as well.
    """
    degree = z.new_ones(z.size(0), z.size(1), 1, dtype=torch.float64)
    scales: list[Tensor] = []
    span = 0.0
    for k in reversed(range(len(hops))):
        degree = hops.operators[k].apply(degree, filters[k])
        scale, width = _balance(degree.detach())
        scales.append(scale)
        span = max(span, width)
        degree = degree * scale
    h = z.double() if span > _FLOAT32_SPAN else z
    for k, scale in zip(reversed(range(len(hops))), scales, strict=True):
        h = hops.operators[k].apply(h, filters[k])
        if bool((scale != 1).any()):
            h = h * scale.to(h.dtype)
    reached = degree > 0
    inverse = 1 / torch.where(reached, degree, 1.0)
    return (h * inverse.to(h.dtype)).to(z.dtype), reached


def _balance(column: Tensor) -> tuple[Tensor, float]:
    """The power of two that brings each channel's column [N, C, 1] around 1, and its width in powers of two."""
    if not column.numel():
        return column.new_ones(1, column.size(1), 1), 0.0
    positive = column > 0
    high = column.amax(0, keepdim=True)
    low = torch.where(positive, column, torch.inf).amin(0, keepdim=True)
    some = high > 0
    top, bottom = torch.where(some, high, 1.0).log2(), torch.where(some, low, 1.0).log2()
    middle = ((top + bottom) / 2).round()
    middle = torch.where(middle.abs() > _COMFORT, middle, 0.0)
    return torch.exp2(-middle), float((top - bottom).max())
