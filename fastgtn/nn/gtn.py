"""The original GTN, computed exactly and without a product of two sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self, cast

import torch
from pydantic import model_validator
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.aggregate import Activation, Aggregation, ChannelAggregation
from fastgtn.nn.backbone_options import describes
from fastgtn.nn.filters import HopFilters
from fastgtn.nn.inputs.checks import check_hyper_parameters
from fastgtn.nn.inputs.encoders import Encoder, Own
from fastgtn.nn.inputs.features import Features
from fastgtn.nn.learned import learned_graphs
from fastgtn.nn.meta_path.model import MetaPathModel
from fastgtn.nn.meta_path.options import AUTHORS, PAPER, MetaPathOptions
from fastgtn.nn.path_tables.rows import UnrolledRows
from fastgtn.nn.row_linear import RowLinear
from fastgtn.options import Amount, Choice, Layers, Numbers, Preset, Values, merged
from fastgtn.relations import Hops, Relation, RelationStack
from fastgtn.relations.checks import check_non_negative
from fastgtn.relations.kernels.dropout import drop

_COMFORT = 20  # a column that drifts further than this power of two is rescaled to about 1
_FLOAT64_SPAN = 1600  # float64 has 2,000; one more hop must fit before the column is brought back
_FLOAT32_SPAN = 160  # largest span of degrees, as a power of two; float32 has 250, but features and sums need some


class GTN(MetaPathModel):
    r"""Graph Transformer Network on raw, weighted adjacency matrices (paper eq. 5 to 8).

    The learned graph is :math:`A_c = \mathrm{rownorm}(F_{1c} ⋯ F_{Kc})`, and each GNN layer on it computes

    .. math:: Z' = f_{agg} \Big( \big\Vert_c \, σ(\tilde{D}_c^{-1} (A_c + γI) Z W) \Big).

    Row normalisation is a left scaling, so the :math:`D^{-1}` of all layers but the last cancel, and the last
    one is the same product applied to a column of ones. The exact result therefore costs one more column. With
    one filter (K = 1) the paper normalises only after adding :math:`γI`, and so does this.

    Args:
        in_features: Width of the feature matrix, or the :class:`Features` object that the model will read.
        out_features: Width d of the representation.
        relations: ``stack.relations``; a stack without identity gives GTN₋I.
        path_length: Number K of filters in the product (one more than the paper's GT layers).
        num_layers: GNN layers on the learned graph.
        gamma: Weight γ of the self-loops; a node's own share is γ / (1 + γ).
        encoder: ``"relu"`` adds a ReLU and a second map between the features and the learned graph.
        encoder_features: Width between these two maps; by default d.
        own: Whether a node's own features have a separate map, or share that of the messages as in the paper.
        rescale: Whether messages of a channel have a factor, see :meth:`rescale`; one until that is called.
    """

    divides_by_degrees = True

    def __init__(
        self,
        in_features: int | Features,
        out_features: int,
        relations: Sequence[Relation],
        *,
        gamma: float = 0.3,
        aggregate: Aggregation = "mean",
        path_length: int = 2,
        num_channels: int = 2,
        filter_init_std: float = 0.01,
        num_layers: int = 1,
        bias: bool = False,
        dropout: float = 0.5,
        encoder: Encoder = "linear",
        encoder_features: int | None = None,
        own: Own = "separate",
        rescale: bool = True,
        activation: Activation = "relu",
    ) -> None:
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
        self._build_encoder(
            in_features, out_features, out_features, encoder, own, between=encoder_features, rescale=rescale
        )
        widths = [aggregation.out_features for aggregation in aggregates]
        self.linears = nn.ModuleList(RowLinear(w, out_features, bias=False) for w in widths[:-1])
        self.biases = nn.ParameterList(torch.zeros(out_features) for _ in range(num_layers)) if bias else None
        self.out_features = widths[-1]

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        for bias in self.biases or ():
            bias.zero_()

    def hop_filters(self) -> list[HopFilters]:
        """The filters; all layers share one learned graph."""
        return [self.filters]

    def aggregations(self) -> list[ChannelAggregation]:
        """How each GNN layer combines its channels, with their type, which a ModuleList does not have."""
        return cast(list[ChannelAggregation], list(self.aggregates))

    @property
    def travelling_width(self) -> int:
        """All channels share one product XW."""
        return self.encoded_width * self.num_channels

    def channel_inputs(self, features: Features) -> Tensor:
        """Every channel starts from XW, to which the bias of the first layer has been added."""
        z = self.encode(features)
        z = z if self.biases is None else z + self.biases[0]
        return z[:, None].expand(-1, self.num_channels, -1)

    def mixing(self, mass: Tensor) -> tuple[Tensor, Tensor]:
        """A self-loop of weight γ beside the scaled mean of the messages; see :meth:`MetaPathModel.mixing`."""
        degree, total = self._degrees(mass)
        scales = mass.new_ones(self.num_channels) if self.scales is None else self.scales.to(mass.dtype)
        return self.own_weight(mass), scales * degree / (torch.where(mass > 0, mass, 1.0) * total)

    def own_weight(self, mass: Tensor) -> Tensor:
        return self.gamma / self._degrees(mass)[1]

    def _degrees(self, mass: Tensor) -> tuple[Tensor, Tensor]:
        """The degrees of the learned graph, without and with self-loops."""
        # the paper normalises a single filter only after adding γI; otherwise the learned graph has degrees 1 or 0
        degree = mass if self.path_length == 1 else (mass > 0).to(mass.dtype)
        return degree, torch.where(degree + self.gamma > 0, degree + self.gamma, 1.0)

    def _forward_hops(self, features: Features, hops: Hops) -> Tensor:
        check_non_negative(min(operator.smallest_value for operator in hops), "GTN divides by degrees, so it")
        filters = self.filters()
        z = self.encode(features)
        for number, aggregate in enumerate(self.aggregates):
            if number:
                z = self.linears[number - 1](drop(z, self.dropout, self.training))
            if self.biases is not None:
                z = z + self.biases[number]
            wide = z[:, None].expand(-1, self.num_channels, -1)  # channels share W, so every channel starts from ZW
            part = self._hops_of_layer(hops, number)
            own, scales = (None, None) if number else (self._own(features, part.num_targets), self.scales)
            z = aggregate(convolve(wide, part, filters, self.gamma, own=own, scales=scales))
        return z

    def _own(self, features: Features, count: int) -> Tensor | None:
        own = self.own_part(features, count)
        return own if own is None or self.biases is None else own + self.biases[0]

    def own_inputs(self, features: Features) -> Tensor:
        """The bias of the first layer is part of what a node reads of itself."""
        own = self._own(features, features.num_rows)
        return self.channel_inputs(features) if own is None else own.expand(-1, self.num_channels, -1)

    def _forward_unrolled(self, features: Features, rows: UnrolledRows) -> Tensor:
        rows.require(features, self.relations, self.num_hops, means=True)
        z = self.input(features)
        mean, degree = rows.means(z, self.input, self.filters())
        reached = (degree > 0).to(z.dtype)
        if self.biases is not None:
            z, mean = z + self.biases[0], mean + reached * self.biases[0]
        own = self._own(features, len(z))
        own = z[:, None] if own is None else own
        mean = mean if self.scales is None else self.scales[:, None] * mean
        if self.path_length == 1:
            degree = degree.to(z.dtype)
            return self.aggregations()[0](add_loops(degree * mean, degree, own, self.gamma))
        return self.aggregations()[0](add_loops(mean, reached, own, self.gamma))

    def learned_graphs(
        self,
        stack: RelationStack,
        *,
        layer: int = 0,  # noqa: ARG002
        top: int | None = None,
        max_memory: float = 2e9,
    ) -> RelationStack:
        r"""The meta-path graphs :math:`A_c` themselves, which all layers share; see :class:`MetaPathModel`."""
        stack.hops(1).require_relations(self.relations)
        stack.require_non_negative("GTN divides by degrees, so it")
        # a single filter is not normalised before the convolution, as in the paper
        normalize = self.path_length > 1
        return learned_graphs(stack, self.filters(), normalize=normalize, top=top, max_memory=max_memory)


@describes(GTN, "GTN")
class GTNOptions(MetaPathOptions):
    """The keys of GTN, which divides by degrees itself. With normalised rows, all hops of a path count the same."""

    settings: ClassVar[Values] = {
        "graph": {"normalize": "auto", "empty_rows": "auto"},
        "features": {"normalize": "auto"},
        "fit": {"epochs": "auto", "weight_decay": "auto", "consistency": "auto"},
    }
    normalizations: ClassVar[tuple[str, ...]] = ("none", "row", "joint")
    # channels share one map, so further paths may do harm, and with "none" empty rows make no difference: what was
    # decided with one normalisation need not be right for another
    tried_with_normalizations: ClassVar[tuple[Values, ...]] = (
        {"model.start": "first"},
        {"graph.empty_rows": "zero"},
    )
    presets: ClassVar[Mapping[Preset, Values]] = {
        "paper": merged(PAPER, {"graph": {"normalize": "none", "empty_rows": "self"}, "model": {"gamma": 1.0}}),
        "authors-2022": merged(
            AUTHORS, {"graph": {"normalize": "none", "empty_rows": "self"}, "model": {"gamma": 1.0, "bias": True}}
        ),
    }

    name: Literal["gtn"]
    path_length: Annotated[Layers | Literal["auto"], Choice(("auto", 2, 3, 4))] = "auto"
    gamma: Annotated[Amount | Literal["auto"], Numbers(0.0, 2.0, step=0.1)] = "auto"

    @model_validator(mode="after")
    def _non_local_is_of_fast_gtn(self) -> Self:
        if self.non_local.enabled:
            raise ValueError('non-local operations belong to FastGTN: set model.name = "fast_gtn"')
        return self


def convolve(
    z: Tensor,
    hops: Hops,
    filters: Tensor,
    gamma: float,
    *,
    own: Tensor | None = None,
    scales: Tensor | None = None,
) -> Tensor:
    r"""One graph convolution on the learned graph, :math:`\tilde{D}^{-1} (A + γI) z` for each channel [N, C, d].

    Args:
        own: What a node reads of itself, if it is not its row of `z`.
        scales: Factors of the messages of each channel, [C].
    """
    own = z[: hops.num_targets] if own is None else own
    if len(hops) == 1:
        degree = hops.operators[0].apply(torch.ones_like(z[:, :, :1]), filters[0])
        messages = hops.operators[0].apply(z, filters[0])
    else:
        messages, reached = path_means(z, hops, filters)
        degree = reached.to(z.dtype)
    return add_loops(messages if scales is None else scales[:, None] * messages, degree, own, gamma)


def add_loops(messages: Tensor, degree: Tensor, own: Tensor, gamma: float) -> Tensor:
    """Add a self-loop of weight γ to each row and divide by its degree; `degree` is without the self-loop."""
    total = degree + gamma
    return (messages + gamma * own) / torch.where(total > 0, total, 1.0)


def path_means(z: Tensor, hops: Hops, filters: Tensor) -> tuple[Tensor, Tensor]:
    r"""Rows of :math:`\mathrm{rownorm}(F_1 ⋯ F_K) z`, zero where no path starts, and which rows have paths.

    The degree column grows like the number of paths. It is kept in float64 and rescaled exactly with powers of two,
    together with the features. If degrees differ too much for float32, the features use float64 as well.
    """
    degree = z.new_ones(z.size(0), z.size(1), 1, dtype=torch.float64)
    scales: list[Tensor] = []
    span, is_traced = 0.0, torch.compiler.is_compiling()  # a traced program cannot look at numbers, and is always exact
    for k in reversed(range(len(hops))):
        degree = hops.operators[k].apply(degree, filters[k])
        scale, width = _balance(degree.detach())
        scales.append(scale)
        if not is_traced:
            span = max(span, _checked_width(float(width), len(hops)))
        degree = degree * scale
    h = z.double() if is_traced or span > _FLOAT32_SPAN else z
    for k, scale in zip(reversed(range(len(hops))), scales, strict=True):
        h = hops.operators[k].apply(h, filters[k])
        if is_traced or bool((scale != 1).any()):
            h = h * scale.to(h.dtype)
    reached = degree > 0
    inverse = 1 / torch.where(reached, degree, 1.0)
    return (h * inverse.to(h.dtype)).to(z.dtype), reached


def _checked_width(width: float, num_hops: int) -> float:
    """Refuse weights of paths that float64 cannot hold beside each other."""
    if not width <= _FLOAT64_SPAN:
        raise InputError(
            f"the weights of paths of {num_hops} hops differ by more than a factor of 2^{_FLOAT64_SPAN}, beyond "
            "the range of numbers: rescale the edge weights, take shorter paths, or use fast_gtn, which normalises "
            "each relation first."
        )
    return width


def _balance(column: Tensor) -> tuple[Tensor, Tensor]:
    """The power of two that brings each channel's column [N, C, 1] around 1, and its width in powers of two."""
    if not column.numel():
        return column.new_ones(1, column.size(1), 1), column.new_zeros(())
    positive = column > 0
    high = column.amax(0, keepdim=True)
    low = torch.where(positive, column, torch.inf).amin(0, keepdim=True)
    some = high > 0
    top, bottom = torch.where(some, high, 1.0).log2(), torch.where(some, low, 1.0).log2()
    middle = ((top + bottom) / 2).round()
    middle = torch.where(middle.abs() > _COMFORT, middle, 0.0)
    return torch.exp2(-middle), (top - bottom).max()
