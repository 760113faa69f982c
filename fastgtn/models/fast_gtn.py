"""FastGTN: meta-path graphs are learned by transforming features, hop by hop, and never built."""

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
from fastgtn.models.gtn import GTN
from fastgtn.models.inputs import check_hyper_parameters
from fastgtn.models.learned import learned_graphs
from fastgtn.models.meta_path_model import MetaPathModel
from fastgtn.models.non_local import NON_LOCAL, NonLocal, NonLocalOptions
from fastgtn.models.unrolled import UnrolledRows
from fastgtn.relations import IDENTITY, Hops, Relation, RelationStack


class FastGTNLayer(nn.Module):
    r"""K hops along softly chosen relations (paper eq. 16 and 17).

    .. math::
        Z' = f_{agg} \Big( \big\Vert_c \, σ(γ Z W_c + (1-γ) F_{1c} F_{2c} ⋯ F_{Kc} Z W_c) \Big), \quad
        F_{kc} = \sum_t α_{kct} A_t
    """

    def __init__(
        self, features: int, relations: Sequence[Relation], *, path_length: int, num_channels: int, gamma: float,
        aggregate: Aggregation, activation: Activation, bias: bool, filter_init_std: float,
        non_local: NonLocalOptions | None,
    ) -> None:  # fmt: skip
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
            with torch.no_grad():
                self.filters.logits[:, :, with_non_local.index(NON_LOCAL)] = non_local.init_logit

    def forward(self, z: Tensor, hops: Hops) -> Tensor:
        """From ``Z [W_1 | … | W_C]`` of the inputs [M, C·d] to the representations of the targets."""
        z = z.unflatten(1, (self.num_channels, -1))  # [M, C, d]
        h = self.propagate(z, hops)
        return self.combine(z[: h.size(0)], h)

    def combine(self, own: Tensor, h: Tensor) -> Tensor:
        """From the targets' own part and what the hops bring, [B, C, d], to their representations."""
        out = self.gamma * own + (1 - self.gamma) * h
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
    r"""Fast Graph Transformer Network of any number of layers.

    The stack should be row-normalised, ``stack.row_normalized()``, as the paper assumes; raw weights work too,
    and keep the degrees.

    Args:
        in_features: Width of the one feature matrix of all nodes, or a :class:`Features` object to build for.
        out_features: Width d of the representation.
        relations: ``stack.relations``.
        path_length: Hops K per layer: the longest meta-path that one layer can express.
        gamma: Share of the node's own features, γ.
        aggregate: How channels become one representation, see :class:`ChannelAggregation`.
        encoder: Put a ReLU and one more map between the features and the first hop.
        dropout: Dropout of the features before each layer.
        non_local: Append a non-local relation at each hop, made with these options.
    """

    def __init__(
        self, in_features: int | Features, out_features: int, relations: Sequence[Relation], *, path_length: int = 2,
        num_channels: int = 2, num_layers: int = 1, gamma: float = 0.5, aggregate: Aggregation = "concat",
        activation: Activation = "relu", encoder: Encoder = "linear", dropout: float = 0.0, bias: bool = False,
        filter_init_std: float = 0.1, non_local: NonLocalOptions | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_hyper_parameters(num_layers=num_layers, dropout=dropout)
        if not 0 <= gamma <= 1:
            raise InputError(f"FastGTN's gamma is a share between 0 and 1, but got {gamma}.")
        self.relations = tuple(Relation(*r) for r in relations)
        self.path_length, self.num_layers, self.num_channels = path_length, num_layers, num_channels
        self.dropout = dropout
        layers = [
            FastGTNLayer(
                out_features, self.relations, path_length=path_length, num_channels=num_channels, gamma=gamma,
                aggregate=aggregate, activation=activation, bias=bias, filter_init_std=filter_init_std,
                non_local=non_local,
            )
            for _ in range(num_layers)
        ]  # fmt: skip
        self.layers = nn.ModuleList(layers)
        self._build_encoder(in_features, out_features, num_channels * out_features, encoder)
        widths = [layer.aggregate.out_features for layer in layers]
        self.linears = nn.ModuleList(nn.Linear(w, num_channels * out_features, bias=False) for w in widths[:-1])
        self.out_features = widths[-1]
        self.sees_all_nodes = non_local is not None

    @classmethod
    def from_gtn(cls, gtn: GTN) -> FastGTN:
        r"""The same function as a GTN, given a row-normalised stack; own share :math:`γ_F = γ / (1 + γ)`."""
        aggregations = gtn.aggregations()
        model = cls(
            Features.like(gtn.input.widths, gtn.input.embedded), gtn.input.out_features, gtn.relations,
            path_length=gtn.path_length, num_channels=gtn.num_channels, num_layers=gtn.num_layers,
            gamma=gtn.gamma / (1 + gtn.gamma), aggregate=aggregations[0].mode, activation=aggregations[0].activation,
            encoder=gtn.input.encoder, dropout=gtn.dropout, bias=gtn.biases is not None,
        ).to(gtn.filters.logits.dtype)  # fmt: skip
        C = gtn.num_channels
        with torch.no_grad():
            for mine, shared in zip(model.input.weights, gtn.input.weights, strict=True):
                mine.copy_(shared.repeat(1, mine.size(1) // shared.size(1)))  # W is shared over GTN's channels
            if model.second is not None and gtn.second is not None:
                model.second.weight.copy_(gtn.second.weight.repeat(C, 1))
            for mine, shared in zip(model.linears.parameters(), gtn.linears.parameters(), strict=True):
                mine.copy_(shared.repeat(C, 1))
            for number, layer in enumerate(model.typed_layers()):
                layer.filters.load_state_dict(gtn.filters.state_dict())
                layer.aggregate.load_state_dict(aggregations[number].state_dict())
                if layer.bias is not None and gtn.biases is not None:
                    layer.bias.copy_(gtn.biases[number].expand(C, -1))
        return model

    def hop_filters(self) -> list[HopFilters]:
        """The learned choices of each layer."""
        return [layer.filters for layer in self.typed_layers()]

    def learned_graphs(
        self, stack: RelationStack, *, layer: int = 0, top: int | None = None, max_memory: float = 2e9
    ) -> RelationStack:
        r"""The meta-path graphs :math:`F_{1c} ⋯ F_{Kc}` of one layer, one relation per channel.

        Args:
            top: Keep only this many largest entries per row (their values stay as they are).
            max_memory: Bytes that the result may take; a larger one is refused.
        """
        if self.sees_all_nodes:
            raise InputError("with non-local operations the learned graph depends on the features of each hop.")
        stack.hops(1).require_relations(self.relations)
        filters = self.hop_filters()[layer]()
        return learned_graphs(stack, filters, normalize=False, top=top, max_memory=max_memory)

    def typed_layers(self) -> list[FastGTNLayer]:
        """The layers; a ModuleList does not know what it holds."""
        return cast(list[FastGTNLayer], list(self.layers))

    def _forward_hops(self, features: Features, hops: Hops) -> Tensor:
        if self.sees_all_nodes and not hops.all_columns:
            raise InputError("non-local operations need all nodes: plan with model.plan(stack, rows).")
        z = self.encode(features)
        for number, layer in enumerate(self.layers):
            if number:
                z = self.linears[number - 1](drop(z, self.dropout, self.training))
            z = layer(z, self._hops_of_layer(hops, number))
        return z

    def _forward_unrolled(self, features: Features, rows: UnrolledRows) -> Tensor:
        rows.require(features, self.relations, self.num_hops, means=False)
        layer = self.typed_layers()[0]
        own = self.input(features).unflatten(1, (self.num_channels, -1))  # [B, C, d]
        return layer.combine(own, rows.sums(own, self.input, layer.filters()))


def insert_non_local(relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """The non-local relation joins the others; the identity stays last."""
    kept = tuple(r for r in relations if r != IDENTITY)
    return (*kept, NON_LOCAL, *((IDENTITY,) if IDENTITY in relations else ()))
