"""What GTN and FastGTN have in common: hops along softly chosen relations, planned, or unrolled before."""

from __future__ import annotations

from torch import Tensor, nn

from fastgtn.models.backbone import Backbone
from fastgtn.models.encoders import Encoder, InputLinear
from fastgtn.models.features import Features
from fastgtn.models.inputs import Graph, Input, as_sizes, plan_hops
from fastgtn.models.unrolled import UnrolledRows
from fastgtn.relations import Hops, Relation, RelationStack


class MetaPathModel(Backbone):
    """A model that learns which meta-paths matter.

    Attributes:
        relations: What it chooses among.
        input: The linear map of the features.
        second: The map after it, where a ReLU comes between.
        path_length: Hops of each layer.
        num_channels: Learned graphs side by side.
        num_layers: Layers, one after the other.
    """

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

    def encode(self, features: Features) -> Tensor:
        """What travels along the edges: the features, transformed node by node."""
        z: Tensor = self.input(features)
        return z if self.second is None else self.second(z)

    def _build_encoder(self, in_features: int | Features, hidden: int, out_features: int, encoder: Encoder) -> None:
        width = out_features if encoder == "linear" else hidden
        self.input = InputLinear(*as_sizes(in_features), width, dropout=self.dropout, encoder=encoder)
        self.second = None if encoder == "linear" else nn.Linear(hidden, out_features, bias=False)

    def _hops_of_layer(self, hops: Hops, number: int) -> Hops:
        """The first layer reads the inputs: the last hops."""
        stop = self.num_hops - number * self.path_length
        return hops[stop - self.path_length : stop]

    def _forward_hops(self, features: Features, hops: Hops) -> Tensor:
        raise NotImplementedError

    def _forward_unrolled(self, features: Features, rows: UnrolledRows) -> Tensor:
        raise NotImplementedError
