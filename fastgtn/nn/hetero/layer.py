"""What the layers for PyTorch Geometric share: a model of relation stacks behind PyG's dictionaries."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.hetero.graph import (
    EdgeType,
    HeteroGraph,
    Metadata,
    NodeType,
    Normalize,
    build_stack,
    check_inputs,
    checked_metadata,
)
from fastgtn.nn.hetero.last_seen import LastSeen
from fastgtn.nn.inputs.features import Features
from fastgtn.nn.meta_path.model import MetaPathModel
from fastgtn.relations import IDENTITY, Relation, RelationStack

XDict = Mapping[NodeType, Tensor]
EdgeDict = Mapping[EdgeType, Tensor]


class HeteroLayer(nn.Module):
    """A model of relation stacks behind PyG's dictionaries.

    Attributes:
        model: The class of the model; its signature has the names and defaults of all other options.
        default_normalize: How edges are divided unless `normalize` says otherwise.
        backbone: The model itself, which also takes ``(features, stack)``: see :meth:`stack`.
    """

    model: ClassVar[type[MetaPathModel]] = MetaPathModel
    default_normalize: ClassVar[Normalize] = "row"
    backbone: MetaPathModel

    def __init_subclass__(cls, **options: Any) -> None:
        """Show the options of the model in the signature, for help texts and editors."""
        super().__init_subclass__(**options)
        own = [p for p in inspect.signature(cls.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD][1:]
        others = [p for p in inspect.signature(cls.model).parameters.values() if p.kind is p.KEYWORD_ONLY]
        cls.__signature__ = inspect.Signature([*own, *others])  # type: ignore[attr-defined]

    def __init__(
        self,
        in_channels: int | Mapping[NodeType, int],
        out_channels: int,
        metadata: Metadata,
        *,
        target: NodeType | None = None,
        identity: bool = True,
        normalize: Normalize | None = None,
        empty_rows: Literal["self", "zero"] = "self",
        **options: Any,
    ) -> None:
        super().__init__()
        normalize = self.default_normalize if normalize is None else normalize
        if normalize not in ("row", "symmetric", "log", "none"):
            raise InputError(f'normalize must be "row", "symmetric", "log" or "none", but got {normalize!r}.')
        self.metadata = checked_metadata(metadata, target)
        self.out_channels, self.target = out_channels, target
        self.identity, self.normalize, self.empty_rows = identity, normalize, empty_rows
        self.backbone = self.model(self._widths(in_channels), out_channels, self._relations, **options)
        self._last_graph: LastSeen[HeteroGraph] = LastSeen()
        self._last_features: LastSeen[Features] = LastSeen()

    def forward(
        self, x_dict: XDict, edge_index_dict: EdgeDict, edge_weight_dict: EdgeDict | None = None
    ) -> dict[NodeType, Tensor]:
        """Representations of the nodes of the target type, or of every type without a target.

        Args:
            x_dict: Features [nodes, in_channels] of each node type, dense or sparse.
            edge_index_dict: Edges [2, E] = [from; to] of each edge type; a missing one is empty.
            edge_weight_dict: Weights [E] of the edges of some edge types; the others weigh 1.
        """
        return self.on(x_dict, self._graph(x_dict, edge_index_dict, edge_weight_dict))

    def reset_parameters(self) -> None:
        """Draw all learnable parameters again."""
        self.backbone.reset_parameters()

    def on_graph(self, x_dict: XDict, edge_index_dict: EdgeDict, edge_weight_dict: EdgeDict | None = None) -> OnGraph:
        """The same layer for this one graph: it takes `x_dict` alone, and can be exported with torch.export."""
        return OnGraph(self, self._graph(x_dict, edge_index_dict, edge_weight_dict))

    def stack(
        self, x_dict: XDict, edge_index_dict: EdgeDict, edge_weight_dict: EdgeDict | None = None
    ) -> RelationStack:
        """The relation stack that the layer runs on, for instance to rank its meta-paths."""
        weights = edge_weight_dict or {}
        check_inputs(self.metadata, x_dict, edge_index_dict, weights)
        return build_stack(
            {t: x_dict[t].size(0) for t in self.metadata[0]},
            self.metadata[1],
            edge_index_dict,
            weights,
            identity=self.identity,
            normalize=self.normalize,
            empty_rows=self.empty_rows,
            dtype=self._dtype,
        ).to(next(iter(x_dict.values())).device)

    def on(self, x_dict: XDict, graph: HeteroGraph) -> dict[NodeType, Tensor]:
        """The representations on a graph that was planned before."""
        z: Tensor = self.backbone(self._features(x_dict, graph), graph.hops)
        return graph.split(z)

    @property
    def _dtype(self) -> torch.dtype:
        """Half precision is for features: edges are weighed in float32 at least."""
        dtype = self.backbone.hop_filters()[0].logits.dtype
        return dtype if dtype in (torch.float32, torch.float64) else torch.float32

    @property
    def _relations(self) -> tuple[Relation, ...]:
        return (*(Relation(*t) for t in self.metadata[1]), *((IDENTITY,) if self.identity else ()))

    def _widths(self, in_channels: int | Mapping[NodeType, int]) -> Features:
        """One block per node type; −1 is found out when features are first seen."""
        widths = in_channels if isinstance(in_channels, Mapping) else dict.fromkeys(self.metadata[0], in_channels)
        if set(widths) != set(self.metadata[0]) or any(width < 1 and width != -1 for width in widths.values()):
            raise InputError(
                f"in_channels must be a width, or one for each node type ({', '.join(self.metadata[0])}), at least 1, "
                f"or −1 to find it out; but got {in_channels}."
            )
        return Features.like({t: widths[t] for t in self.metadata[0]}, {})

    @torch.compiler.disable
    def _graph(self, x_dict: XDict, edges: EdgeDict, weights: EdgeDict | None) -> HeteroGraph:
        weights = weights or {}
        check_inputs(self.metadata, x_dict, edges, weights)
        counts = tuple(x_dict[t].size(0) for t in self.metadata[0])
        device = x_dict[self.metadata[0][0]].device
        present = tuple((t in edges, weights.get(t) is not None) for t in self.metadata[1])
        tensors = [given[t] for given in (edges, weights) for t in self.metadata[1] if given.get(t) is not None]

        def compute() -> HeteroGraph:
            stack, model = self.stack(x_dict, edges, weights), self.backbone
            return HeteroGraph.of(stack, model.num_hops, self.target, all_columns=model.sees_all_nodes)

        return self._last_graph.get(tensors, (counts, present, device, self._dtype), compute)

    def _features(self, x_dict: XDict, graph: HeteroGraph) -> Features:
        own = [x_dict[t] for t in self.metadata[0]]
        if torch.compiler.is_compiling() or any(x.requires_grad for x in own):
            return graph.features(x_dict)
        return self._last_features.get(own, id(graph), lambda: graph.features(x_dict))

    def __repr__(self) -> str:
        model = self.backbone
        target = "" if self.target is None else f", target={self.target!r}"
        return (
            f"{type(self).__name__}({self.out_channels}, path_length={model.path_length}, "
            f"num_channels={model.num_channels}{target})"
        )


class OnGraph(nn.Module):
    """A layer or model bound to one graph. Made by ``layer.on_graph(…)``."""

    def __init__(self, layer: HeteroLayer, graph: HeteroGraph) -> None:
        super().__init__()
        self.layer, self.graph = layer, graph

    def forward(self, x_dict: dict[NodeType, Tensor]) -> dict[NodeType, Tensor]:
        """As the layer itself, with other features of the same nodes."""
        return self.layer.on(x_dict, self.graph)
