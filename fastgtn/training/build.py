"""From a config to what is trained: relations, features and model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.models import GTN, FastGTN, Features, NodeClassifier, NonLocalOptions
from fastgtn.models.features import Matrix, SparseMatrix
from fastgtn.relations import Hops, Relation, RelationStack
from fastgtn.training.config import Config, FeatureOptions, GraphOptions, ModelOptions


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a model reads: the relations of all nodes and their features."""

    stack: RelationStack
    features: Features

    @staticmethod
    def of(graph: HeteroData, config: Config) -> "Inputs":
        """Prepare a graph as the config says."""
        return Inputs(build_stack(graph, config.graph), build_features(graph, config.features))

    def rows(self, node_type: str, nodes: Tensor) -> Tensor:
        """Numbers over all types of nodes that are numbered within their type."""
        return nodes + self.stack.nodes_of(node_type).start

    def plan(self, model: NodeClassifier, rows: Tensor) -> "Plan":
        """Only what these rows depend on, or everything where a model compares all nodes."""
        if model.backbone.needs_all_rows:
            return Plan(self.features, self.stack.hops(model.backbone.num_hops), rows)
        hops = self.stack.hops(model.backbone.num_hops, rows)
        return Plan(self.features.select(hops.inputs), hops, None)


@dataclass(frozen=True, eq=False)
class Plan:
    """One pass: features in, logits of the wanted rows out."""

    features: Features
    hops: Hops
    rows: Tensor | None  # which of the computed rows are wanted; None for all

    def logits(self, model: NodeClassifier) -> Tensor:
        """Logits of the wanted rows, in their order."""
        logits: Tensor = model(self.features, self.hops)
        return logits if self.rows is None else logits[self.rows]

    @property
    def cost(self) -> int:
        """Stored numbers that one pass reads: edges of every hop and feature entries."""
        edges = sum(e.segments.num_edges + hop.num_rows for hop in self.hops for e in hop.edges)
        matrices = [block.matrix for block in self.features.blocks if block.matrix is not None]
        return edges + sum(m.values.numel() if isinstance(m, SparseMatrix) else m.numel() for m in matrices)


def build_stack(graph: HeteroData, options: GraphOptions) -> RelationStack:
    """The relations of a graph."""
    stack = RelationStack.from_hetero(
        graph, identity=options.identity, reverse=options.reverse, binarize=options.binarize
    )
    return stack.row_normalized(options.empty_rows) if options.normalize == "row" else stack


def build_features(graph: HeteroData, options: FeatureOptions) -> Features:
    """The features of a graph; types without any are embedded."""
    features = Features.from_hetero(graph, shared=options.shared)
    if options.normalize == "none":
        return features
    return features.map({b.key: _row_normalized(b.matrix) for b in features.blocks if b.matrix is not None})


def build_model(
    options: ModelOptions, features: Features, relations: Sequence[Relation], num_classes: int
) -> NodeClassifier:
    """A new model, with weights drawn from torch's generator."""
    shared: dict[str, Any] = {
        "path_length": options.path_length, "num_channels": options.num_channels, "num_layers": options.num_layers,
        "gamma": options.gamma, "aggregate": options.aggregate, "activation": options.activation,
        "dropout": options.dropout, "bias": options.bias, "filter_init_std": options.filter_init_std,
    }  # fmt: skip
    backbone: GTN | FastGTN
    if options.name == "gtn":
        backbone = GTN(features, options.hidden, relations, **shared)
    else:
        chosen = options.non_local.model_dump(exclude={"enabled"})
        non_local = NonLocalOptions(**chosen) if options.non_local.enabled else None
        backbone = FastGTN(features, options.hidden, relations, **shared, non_local=non_local)
    return NodeClassifier(backbone, num_classes, dropout=options.head_dropout)


def _row_normalized(matrix: Matrix) -> Matrix:
    """Rows divided by the sum of their magnitudes; empty rows stay empty."""
    if isinstance(matrix, SparseMatrix):
        segments = matrix.operator.edges[0].segments
        rows = segments.edge_rows()
        total = torch.zeros(matrix.shape[0], dtype=torch.float64).index_add_(0, rows, matrix.values.double().abs())
        return matrix.with_values((matrix.values / total[rows].clamp(min=1e-12)).to(matrix.values.dtype))
    return matrix / matrix.abs().sum(1, keepdim=True).clamp(min=1e-12)
