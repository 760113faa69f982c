"""What GTN and FastGTN have in common: hops along softly chosen relations, planned, or unrolled before."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fastgtn.nn.aggregate import ChannelAggregation
from fastgtn.nn.backbone import Backbone, reset_children
from fastgtn.nn.inputs.checks import Graph, Input, as_sizes, plan_hops
from fastgtn.nn.inputs.encoders import Encoder, InputLinear, Own, OwnLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.nn.path_tables.rows import UnrolledRows
from fastgtn.nn.row_linear import RowLinear
from fastgtn.relations import Hops, Relation, RelationStack

LARGEST_SCALE = 100.0  # of the messages of a channel


class MetaPathModel(Backbone):
    """A model that learns which meta-paths matter.

    Attributes:
        relations: What it chooses among.
        input: The linear map of the features.
        second: The map after it, where a ReLU comes between.
        path_length: Hops of each layer.
        num_channels: Learned graphs side by side.
        num_layers: Layers, one after the other.
        divides_by_degrees: Whether rows of the learned graph are normalised, so that no weight may be negative.
    """

    may_skip_weights = False
    head_dropout = 0.5
    divides_by_degrees: bool = False

    relations: tuple[Relation, ...]
    input: InputLinear
    second: nn.Linear | None
    path_length: int
    num_channels: int
    num_layers: int

    @property
    def num_hops(self) -> int:
        """Hops between a target and the farthest node it can see: what ``stack.hops`` must plan for."""
        return self.path_length * self.num_layers

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> Hops:
        """The hops that the rows depend on; with non-local operations each reads all nodes."""
        return stack.hops(self.num_hops, rows, all_columns=self.sees_all_nodes)

    def forward(self, x: Input, graph: Graph | UnrolledRows) -> Tensor:
        """Representations [N, out], or of the planned targets only.

        Args:
            x: Features of all nodes, dense or sparse; with a plan, of ``hops.inputs``.
            graph: A stack, or ``stack.hops(model.num_hops, rows)`` to compute only the rows that matter, or rows
                that were unrolled.
        """
        if isinstance(graph, UnrolledRows):
            return self._forward_unrolled(Features.of(x), graph)
        return self._forward_hops(*plan_hops(x, graph, self.relations, self.num_hops))

    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        reset_children(self)

    def encode(self, features: Features) -> Tensor:
        """What travels along the edges: the features, transformed node by node."""
        z: Tensor = self.input(features)
        return z if self.second is None else self.second(z)

    @property
    def encoded_width(self) -> int:
        """Numbers per node that :meth:`encode` computes."""
        return self.input.out_features if self.second is None else self.second.out_features

    @property
    def travelling_width(self) -> int:
        """Numbers per node that travel along edges, in all channels."""
        raise NotImplementedError

    def channel_inputs(self, features: Features) -> Tensor:
        """What travels in each channel of the first layer, [N, C, d]."""
        raise NotImplementedError

    def mixing(self, mass: Tensor) -> tuple[Tensor, Tensor]:
        """How the first layer weighs a node's own features, and the sum of its messages, which have this mass [n, C].

        The mass is the sum over the paths that reach a node: what the messages would be if all features were 1.
        """
        raise NotImplementedError

    def own_weight(self, mass: Tensor) -> Tensor:
        """The first of the two weights of :meth:`mixing`, also for the mass of a single channel."""
        raise NotImplementedError

    def layer_bias(self) -> Tensor | None:
        """What the first layer adds after mixing, [C, d]; None where it adds nothing, or adds it before the hops."""
        return None

    def aggregations(self) -> list[ChannelAggregation]:
        """How each layer combines its channels."""
        raise NotImplementedError

    def non_local_modules(self, layer: int) -> list[nn.Module]:  # noqa: ARG002
        """What makes the non-local edges of each hop of a layer; none in a model without non-local operations."""
        return []

    def learned_graphs(
        self, stack: RelationStack, *, layer: int = 0, top: int | None = None, max_memory: float = 2e9
    ) -> RelationStack:
        """The learned meta-path graphs of one layer, one relation per channel.

        Args:
            top: Keep only this many largest entries per row (their values stay as they are).
            max_memory: Bytes that the result may take; a larger one is refused.
        """
        raise NotImplementedError

    def _build_encoder(
        self,
        in_features: int | Features,
        width: int,
        travelling: int,
        encoder: Encoder,
        own: Own,
        *,
        between: int | None,
        rescale: bool,
    ) -> None:
        """The maps before the hops.

        Args:
            width: Of the representation, d.
            travelling: Numbers per node that travel along edges.
            between: Width between the two maps of an encoder that has two; by default d.
        """
        between = travelling if encoder == "linear" else between or width
        widths, embedded = as_sizes(in_features)
        self.input = InputLinear(widths, embedded, between, dropout=self.dropout, encoder=encoder)
        self.second = None if encoder == "linear" else RowLinear(between, travelling, bias=False)
        self.own_input = OwnLinear(widths, width, dropout=self.dropout) if own == "separate" else None
        self.scales: Tensor | None
        self.register_buffer("scales", torch.ones(self.num_channels) if rescale else None)

    @torch.no_grad()
    def rescale(self, features: Features, hops: Hops) -> None:
        r"""Let the messages of each channel be as large as the features that they are made of.

        A mean over many nodes is small where its parts cancel, so a layer would need large weights to read it, which
        weight decay and the node's own features keep it from. The factor of a channel is
        :math:`\sqrt{\overline{F(z^2) / F(1)} / \overline{(Fz)^2}}` at the wanted rows, and is not trained. It is near
        1 where all messages share a large constant, as those of counts do: a larger constant would switch activations
        off for all nodes.
        """
        if self.scales is None:
            return
        was_training = self.training
        self.eval()
        z = self.channel_inputs(features)
        first = self._hops_of_layer(hops, 0)
        filters = self.hop_filters()[0]()
        columns = torch.cat([z, z.square(), torch.ones_like(z[:, :, :1])], 2)
        for k in reversed(range(len(first))):
            columns = first.operators[k].apply(columns, filters[k])
        self.train(was_training)
        d, mass = z.size(2), columns[:, :, -1:]
        reached = mass > 0
        mass = torch.where(reached, mass, 1.0)
        messages = columns[:, :, :d] / mass if self.divides_by_degrees else columns[:, :, :d]
        size = (columns[:, :, d : 2 * d] / mass).mean((0, 2))
        received = messages.square().mean((0, 2))
        factor = (size / received.clamp(min=1e-30)).sqrt()
        self.scales.copy_(torch.where(received > 1e-12 * size, factor, 1.0).clamp(max=LARGEST_SCALE))

    def own_part(self, features: Features, count: int) -> Tensor | None:
        """The map of the own features of the first nodes, [count, 1, d]; None where they share that of the messages."""
        if self.own_input is None:
            return None
        if (
            torch.compiler.is_compiling() or features.requires_grad
        ):  # what is kept could not be traced, or trained twice
            return self.own_input(features)[:count, None]
        return self.own_input(features.head(count))[:, None]

    def own_inputs(self, features: Features) -> Tensor:
        """What the first layer reads of a node itself, in each channel, [N, C, d]."""
        own = self.own_part(features, features.num_rows)
        return self.channel_inputs(features) if own is None else own.expand(-1, self.num_channels, -1)

    def _hops_of_layer(self, hops: Hops, number: int) -> Hops:
        """The first layer reads the inputs: the last hops."""
        stop = self.num_hops - number * self.path_length
        return hops[stop - self.path_length : stop]

    def _forward_hops(self, features: Features, hops: Hops) -> Tensor:
        raise NotImplementedError

    def _forward_unrolled(self, features: Features, rows: UnrolledRows) -> Tensor:
        raise NotImplementedError
