"""From a config to what is trained: relations, features and model."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.models import Features, NodeClassifier
from fastgtn.models.backbone import PlannedGraph
from fastgtn.models.features import Matrix, SparseMatrix
from fastgtn.relations import Relation, RelationStack
from fastgtn.training.config import Config, FeatureOptions, GraphOptions
from fastgtn.training.model_options import BackboneOptions


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
        """Only what these rows depend on, where the model can do with that."""
        graph = model.backbone.plan(self.stack, rows)
        everything = graph.inputs is None
        return Plan(
            self.features if everything else self.features.select(graph.inputs), graph, rows if everything else None
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """One pass: features in, logits of the wanted rows out."""

    features: Features
    graph: PlannedGraph
    rows: Tensor | None  # which of the computed rows are wanted; None for all

    def logits(self, model: NodeClassifier) -> Tensor:
        """Logits of the wanted rows, in their order."""
        logits: Tensor = model(self.features, self.graph)
        return logits if self.rows is None else logits[self.rows]

    @property
    def cost(self) -> int:
        """Stored numbers that one pass reads: of the graph, and feature entries."""
        matrices = [block.matrix for block in self.features.blocks if block.matrix is not None]
        entries = sum(m.values.numel() if isinstance(m, SparseMatrix) else m.numel() for m in matrices)
        return self.graph.cost + entries


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
    options: BackboneOptions, features: Features, relations: Sequence[Relation], num_classes: int
) -> NodeClassifier:
    """A new model, with weights drawn from torch's generator."""
    return NodeClassifier(options.build(features, relations), num_classes, dropout=options.head_dropout)


def _row_normalized(matrix: Matrix) -> Matrix:
    """Rows divided by the sum of their magnitudes; empty rows stay empty."""
    if isinstance(matrix, SparseMatrix):
        segments = matrix.operator.edges[0].segments
        rows = segments.edge_rows()
        total = torch.zeros(matrix.shape[0], dtype=torch.float64).index_add_(0, rows, matrix.values.double().abs())
        return matrix.with_values((matrix.values / total[rows].clamp(min=1e-12)).to(matrix.values.dtype))
    return matrix / matrix.abs().sum(1, keepdim=True).clamp(min=1e-12)
