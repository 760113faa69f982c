"""FastGTN: features are propagated hop by hop, and meta-path graphs are never built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.aggregate import Activation, Aggregation, ChannelAggregation
from fastgtn.nn.backbone import reset_children
from fastgtn.nn.backbone_options import Range, describes, field_ranges
from fastgtn.nn.filters import HopFilters
from fastgtn.nn.gtn import GTN
from fastgtn.nn.inputs.checks import check_hyper_parameters
from fastgtn.nn.inputs.encoders import Encoder, Own
from fastgtn.nn.inputs.features import Features
from fastgtn.nn.learned import learned_graphs
from fastgtn.nn.meta_path.model import MetaPathModel
from fastgtn.nn.meta_path.options import AUTHORS, PAPER, MetaPathOptions
from fastgtn.nn.non_local import NON_LOCAL, NonLocal, NonLocalKeys, NonLocalOptions
from fastgtn.nn.path_tables.rows import UnrolledRows
from fastgtn.nn.row_linear import RowLinear
from fastgtn.options import Amount, Choice, Layers, Numbers, Preset, Values, merged
from fastgtn.relations import IDENTITY, Hops, Relation, RelationStack
from fastgtn.relations.kernels.dropout import drop


class FastGTNLayer(nn.Module):
    r"""K hops along softly chosen relations (paper eq. 16 and 17).

    .. math::
        Z' = f_{agg} \Big( \big\Vert_c \, σ(γ Z W_c + (1-γ) F_{1c} F_{2c} ⋯ F_{Kc} Z W_c) \Big), \quad
        F_{kc} = \sum_t α_{kct} A_t
    """

    def __init__(
        self,
        features: int,
        relations: Sequence[Relation],
        *,
        path_length: int,
        num_channels: int,
        gamma: float,
        aggregate: Aggregation,
        activation: Activation,
        bias: bool,
        filter_init_std: float,
        non_local: NonLocalOptions | None,
    ) -> None:
        super().__init__()
        self.relations = tuple(relations)
        self.num_channels, self.gamma = num_channels, gamma
        with_non_local = insert_non_local(self.relations) if non_local else self.relations
        self.filters = HopFilters(path_length, num_channels, with_non_local, init_std=filter_init_std)
        self.bias = nn.Parameter(torch.zeros(num_channels, features)) if bias else None
        self.aggregate = ChannelAggregation(aggregate, num_channels, features, activation=activation)
        self.non_local = nn.ModuleList()
        if non_local:
            self.non_local.extend(NonLocal(features, non_local) for _ in range(path_length))
            self._start_non_local()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        reset_children(self)
        if self.bias is not None:
            self.bias.zero_()
        self._start_non_local()

    @torch.no_grad()
    def _start_non_local(self) -> None:
        for module in self.non_local:
            place = self.filters.relations.index(NON_LOCAL)
            self.filters.logits[:, :, place] = cast(NonLocal, module).options.init_logit

    def forward(self, z: Tensor, hops: Hops, own: Tensor | None = None, scales: Tensor | None = None) -> Tensor:
        """Compute the representations of the targets from ``Z [W_1 | … | W_C]`` of the inputs, [M, C·d].

        Args:
            own: The targets' own part [B, 1, d], if it is not their row of Z W.
            scales: Factors of the messages of each channel, [C].
        """
        z = z.unflatten(1, (self.num_channels, -1))  # [M, C, d]
        h = self.propagate(z, hops)
        return self.combine(z[: h.size(0)] if own is None else own, h, scales)

    def combine(self, own: Tensor, h: Tensor, scales: Tensor | None = None) -> Tensor:
        """Compute representations from the targets' own part and the result of the hops, [B, C, d]."""
        out = self.gamma * own + (1 - self.gamma) * (h if scales is None else scales[:, None] * h)
        if self.bias is not None:
            out = out + self.bias
        result: Tensor = self.aggregate(out)
        return result

    def propagate(self, h: Tensor, hops: Hops) -> Tensor:
        """Apply the hops from the rightmost factor to the leftmost."""
        filters = self.filters()  # [K, C, T]
        for k in reversed(range(len(hops))):
            operator = hops.operators[k]
            if len(self.non_local):
                T = len(self.filters.relations)
                columns = [t for t in range(T) if self.filters.relations[t] != NON_LOCAL]
                edges = self.non_local[k](h, operator.num_rows, hops.inputs)
                place = self.filters.relations.index(NON_LOCAL)
                operator = operator.widened(columns, T).with_edges(edges.at(place))
            h = operator.apply(h, filters[k])
        return h


class FastGTN(MetaPathModel):
    r"""Fast Graph Transformer Network with any number of layers.

    The stack should be row-normalised, ``stack.row_normalized()``, as the paper assumes; raw weights work too,
    and keep the degrees.

    Args:
        in_features: Width of the feature matrix, or the :class:`Features` object that the model will read.
        out_features: Width d of the representation.
        relations: ``stack.relations``.
        path_length: Number of hops K per layer, the length of the longest meta-path.
        gamma: Share of the node's own features, γ.
        aggregate: How channels are combined, see :class:`ChannelAggregation`.
        encoder: ``"relu"`` adds a ReLU and a second map between the features and the first hop.
        encoder_features: Width between these two maps; by default d.
        own: Whether a node's own features have a separate map, or share that of the messages as in the paper.
        rescale: Whether messages of a channel have a factor, see :meth:`rescale`; one until that is called.
        dropout: Dropout on the features before each layer.
        non_local: Options of the non-local relation that is added at each hop; None for none.
    """

    def __init__(
        self,
        in_features: int | Features,
        out_features: int,
        relations: Sequence[Relation],
        *,
        path_length: int = 2,
        num_channels: int = 2,
        num_layers: int = 1,
        gamma: float = 0.2,
        aggregate: Aggregation = "mean",
        activation: Activation = "relu",
        encoder: Encoder = "linear",
        encoder_features: int | None = None,
        own: Own = "separate",
        rescale: bool = True,
        dropout: float = 0.5,
        bias: bool = False,
        filter_init_std: float = 0.1,
        non_local: NonLocalOptions | None = None,
    ) -> None:
        super().__init__()
        check_hyper_parameters(num_layers=num_layers, dropout=dropout)
        if not 0 <= gamma <= 1:
            raise InputError(f"FastGTN's gamma is a share between 0 and 1, but got {gamma}.")
        self.relations = tuple(Relation(*r) for r in relations)
        self.path_length, self.num_layers, self.num_channels = path_length, num_layers, num_channels
        self.dropout = dropout
        layers = [
            FastGTNLayer(
                out_features,
                self.relations,
                path_length=path_length,
                num_channels=num_channels,
                gamma=gamma,
                aggregate=aggregate,
                activation=activation,
                bias=bias,
                filter_init_std=filter_init_std,
                non_local=non_local,
            )
            for _ in range(num_layers)
        ]
        self.layers = nn.ModuleList(layers)
        travelling = num_channels * out_features
        self._build_encoder(
            in_features, out_features, travelling, encoder, own, between=encoder_features, rescale=rescale
        )
        widths = [layer.aggregate.out_features for layer in layers]
        self.linears = nn.ModuleList(RowLinear(w, num_channels * out_features, bias=False) for w in widths[:-1])
        self.out_features = widths[-1]
        self.sees_all_nodes = non_local is not None

    @classmethod
    def from_gtn(cls, gtn: GTN) -> FastGTN:
        r"""The same function as a GTN on a row-normalised stack; own share :math:`γ_F = γ / (1 + γ)`."""
        aggregations = gtn.aggregations()
        model = cls(
            Features.like(gtn.input.widths, gtn.input.embedded),
            gtn.encoded_width,
            gtn.relations,
            path_length=gtn.path_length,
            num_channels=gtn.num_channels,
            num_layers=gtn.num_layers,
            gamma=gtn.gamma / (1 + gtn.gamma),
            aggregate=aggregations[0].mode,
            activation=aggregations[0].activation,
            encoder=gtn.input.encoder,
            encoder_features=None if gtn.second is None else gtn.input.out_features,
            own="shared" if gtn.own_input is None else "separate",
            rescale=gtn.scales is not None,
            dropout=gtn.dropout,
            bias=gtn.biases is not None,
        ).to(gtn.filters.logits.dtype)
        C = gtn.num_channels
        model.input.copy_statistics(gtn.input)
        with torch.no_grad():
            for mine, shared in zip(model.input.weights, gtn.input.weights, strict=True):
                mine.copy_(shared.repeat(1, mine.size(1) // shared.size(1)))  # GTN's channels share W
            if model.second is not None and gtn.second is not None:
                model.second.weight.copy_(gtn.second.weight.repeat(C, 1))
            if model.own_input is not None and gtn.own_input is not None:
                model.own_input.load_state_dict(gtn.own_input.state_dict())
            if model.scales is not None and gtn.scales is not None:
                model.scales.copy_(gtn.scales)
            for mine, shared in zip(model.linears.parameters(), gtn.linears.parameters(), strict=True):
                mine.copy_(shared.repeat(C, 1))
            for number, layer in enumerate(model.typed_layers()):
                layer.filters.load_state_dict(gtn.filters.state_dict())
                layer.aggregate.load_state_dict(aggregations[number].state_dict())
                if layer.bias is not None and gtn.biases is not None:
                    layer.bias.copy_(gtn.biases[number].expand(C, -1))
        return model

    def hop_filters(self) -> list[HopFilters]:
        """The filters of each layer."""
        return [layer.filters for layer in self.typed_layers()]

    def learned_graphs(
        self, stack: RelationStack, *, layer: int = 0, top: int | None = None, max_memory: float = 2e9
    ) -> RelationStack:
        r"""The meta-path graphs :math:`F_{1c} ⋯ F_{Kc}` of one layer; see :class:`MetaPathModel`."""
        if self.sees_all_nodes:
            raise InputError("with non-local operations the learned graph depends on the features of each hop.")
        stack.hops(1).require_relations(self.relations)
        filters = self.hop_filters()[layer]()
        return learned_graphs(stack, filters, normalize=False, top=top, max_memory=max_memory)

    @property
    def travelling_width(self) -> int:
        """The input map has a part for each channel."""
        return self.encoded_width

    def channel_inputs(self, features: Features) -> Tensor:
        """Each channel has its own part of the input map."""
        return self.encode(features).unflatten(1, (self.num_channels, -1))

    def mixing(self, mass: Tensor) -> tuple[Tensor, Tensor]:
        """The shares γ and 1 − γ, whatever the mass, and the scales; see :meth:`MetaPathModel.mixing`."""
        gamma = self.typed_layers()[0].gamma
        scales = mass.new_ones(self.num_channels) if self.scales is None else self.scales.to(mass.dtype)
        return self.own_weight(mass), (1 - gamma) * scales.expand_as(mass)

    def own_weight(self, mass: Tensor) -> Tensor:
        return torch.full_like(mass, self.typed_layers()[0].gamma)

    def layer_bias(self) -> Tensor | None:
        """The bias of the first layer, [C, d]."""
        return self.typed_layers()[0].bias

    def aggregations(self) -> list[ChannelAggregation]:
        """How each layer combines its channels."""
        return [layer.aggregate for layer in self.typed_layers()]

    def non_local_modules(self, layer: int) -> list[nn.Module]:
        """The modules that compute the non-local edges of each hop of a layer."""
        return list(self.typed_layers()[layer].non_local)

    def typed_layers(self) -> list[FastGTNLayer]:
        """The layers with their type, which a ModuleList does not have."""
        return cast(list[FastGTNLayer], list(self.layers))

    def _forward_hops(self, features: Features, hops: Hops) -> Tensor:
        if self.sees_all_nodes and not hops.all_columns:
            raise InputError("non-local operations need all nodes: plan with model.plan(stack, rows).")
        z = self.encode(features)
        for number, layer in enumerate(self.layers):
            if number:
                z = self.linears[number - 1](drop(z, self.dropout, self.training))
            part = self._hops_of_layer(hops, number)
            own, scales = (None, None) if number else (self.own_part(features, part.num_targets), self.scales)
            z = layer(z, part, own, scales)
        return z

    def _forward_unrolled(self, features: Features, rows: UnrolledRows) -> Tensor:
        rows.require(features, self.relations, self.num_hops, means=False)
        layer = self.typed_layers()[0]
        z = self.input(features).unflatten(1, (self.num_channels, -1))  # [B, C, d]
        own = self.own_part(features, len(z))
        return layer.combine(z if own is None else own, rows.sums(z, self.input, layer.filters()), self.scales)


@describes(FastGTN, "FastGTN")
class FastGTNOptions(MetaPathOptions):
    """The keys of FastGTN, alone or with non-local operations."""

    settings: ClassVar[Values] = {
        "graph": {"normalize": "auto", "empty_rows": "auto"},
        "features": {"normalize": "auto"},
        "fit": {"epochs": "auto", "weight_decay": "auto", "consistency": "auto"},
    }
    normalizations: ClassVar[tuple[str, ...]] = ("row", "log", "joint")
    presets: ClassVar[Mapping[Preset, Values]] = {
        "paper": merged(PAPER, {"graph": {"normalize": "row", "empty_rows": "self"}, "model": {"gamma": 0.5}}),
        "authors-2022": merged(AUTHORS, {"graph": {"normalize": "row", "empty_rows": "self"}, "model": {"gamma": 0.0}}),
    }
    also_searched: ClassVar[Mapping[str, Range]] = {
        **MetaPathOptions.also_searched,
        "graph.normalize": Choice(("row", "symmetric", "joint", "log", "none")),
        "graph.empty_rows": Choice(("self", "zero")),
    }
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "fast_gtn": {"title": "FastGTN", "model": {"non_local": {"enabled": False}}},
        "fast_gtn_non_local": {"title": "FastGTN, non-local", "model": {"non_local": {"enabled": True}}},
    }

    name: Literal["fast_gtn"] = "fast_gtn"
    path_length: Annotated[Layers | Literal["auto"], Choice(("auto", 1, 2, 3, 4))] = "auto"
    num_layers: Annotated[Layers, Choice((1, 2))]
    gamma: Annotated[Amount | Literal["auto"], Numbers(0.0, 1.0, step=0.1)] = "auto"

    @property
    def label(self) -> str:
        return "fast_gtn_non_local" if self.non_local.enabled else self.name

    def ranges(self) -> dict[str, Range]:
        own = field_ranges(NonLocalKeys, "model.non_local.") if self.non_local.enabled else {}
        return super().ranges() | own

    def arguments(self) -> Values:
        chosen = NonLocalOptions(**self.non_local.model_dump(exclude={"enabled"}))
        return super().arguments() | {"non_local": chosen if self.non_local.enabled else None}


def insert_non_local(relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """The non-local relation joins the others; the identity stays last."""
    kept = tuple(r for r in relations if r != IDENTITY)
    return (*kept, NON_LOCAL, *((IDENTITY,) if IDENTITY in relations else ()))
