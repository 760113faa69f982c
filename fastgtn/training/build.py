"""From a config to what is trained: relations, features and model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.models import Features, NodeClassifier
from fastgtn.models.backbone import PlannedGraph
from fastgtn.models.features import Matrix, SparseMatrix
from fastgtn.relations import Batch, Relation, RelationStack
from fastgtn.training.backbone_options import BackboneOptions
from fastgtn.training.config import Config, FeatureOptions, GraphOptions


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a model reads: the relations of all nodes and their features.

    Args:
        raw: The relations as the graph has them: batches are sampled from these, and normalised by themselves.
    """

    raw: RelationStack
    features: Features
    options: GraphOptions

    @staticmethod
    def of(graph: HeteroData, config: Config) -> "Inputs":
        """Prepare a graph as the config says."""
        read = graph if config.model.reads_features else without_features(graph)
        return Inputs(build_stack(graph, config.graph), build_features(read, config.features), config.graph)

    @cached_property
    def stack(self) -> RelationStack:
        """The relations as the model reads them."""
        return normalized(self.raw, self.options)

    def rows(self, node_type: str, nodes: Tensor) -> Tensor:
        """Numbers over all types of nodes that are numbered within their type."""
        return nodes + self.raw.nodes_of(node_type).start

    def plan(self, model: NodeClassifier, rows: Tensor) -> "Plan":
        """Only what these rows depend on, where the model can do with that."""
        graph = model.backbone.plan(self.stack, rows)
        return Plan(self.features.select(graph.inputs), graph, rows if graph.inputs is None else None)

    def plan_all(self, model: NodeClassifier, rows: Tensor) -> "Plan":
        """Every row of the graph, of which some are wanted: nothing is copied."""
        return Plan(self.features, model.backbone.plan(self.stack), rows)

    def plan_batch(self, model: NodeClassifier, batch: Batch, wanted: slice = slice(None)) -> "PlannedBatch":
        """What some targets of a sampled batch depend on, before features are gathered."""
        targets = batch.targets[wanted]
        graph = model.backbone.plan(normalized(batch.stack, self.options), targets)
        nodes = batch.nodes if graph.inputs is None else batch.nodes[graph.inputs]
        return PlannedBatch(graph, nodes, targets if graph.inputs is None else None)


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A sampled part of the graph as a model reads it, still without features."""

    graph: PlannedGraph
    nodes: Tensor  # whose features are read
    rows: Tensor | None  # which of the computed rows are wanted; None for all

    def gather(self, features: Features) -> "Plan":
        """Fetch the features of the nodes."""
        return Plan(features.select(self.nodes), self.graph, self.rows)


@dataclass(frozen=True, eq=False)
class Plan:
    """One pass: features in, logits of the wanted rows out."""

    features: Features
    graph: PlannedGraph
    rows: Tensor | None  # which of the computed rows are wanted; None for all

    def logits(self, model: Callable[[Features, PlannedGraph], Tensor]) -> Tensor:
        """What a classifier says of the wanted rows, in their order."""
        values = model(self.features, self.graph)
        return values if self.rows is None else values[self.rows]

    def representations(self, model: NodeClassifier) -> Tensor:
        """The wanted rows as the classifier's head sees them."""
        return self.logits(model.backbone)

    @property
    def cost(self) -> int:
        """Stored numbers that one pass reads: of the graph, and feature entries."""
        matrices = [block.matrix for block in self.features.blocks if block.matrix is not None]
        entries = sum(m.values.numel() if isinstance(m, SparseMatrix) else m.numel() for m in matrices)
        return self.graph.cost + entries


def build_stack(graph: HeteroData, options: GraphOptions) -> RelationStack:
    """The relations of a graph, weighed as it weighs them."""
    return RelationStack.from_hetero(
        graph, identity=options.identity, reverse=options.reverse, binarize=options.binarize
    )


def normalized(stack: RelationStack, options: GraphOptions) -> RelationStack:
    """The relations as models read them, of a graph or of a batch of it."""
    if options.normalize == "symmetric":
        return stack.symmetrically_normalized(options.empty_rows)
    return stack.row_normalized(options.empty_rows) if options.normalize == "row" else stack


def build_features(graph: HeteroData, options: FeatureOptions) -> Features:
    """The features of a graph; types without any are embedded."""
    features = Features.from_hetero(graph, shared=options.shared)
    if options.normalize == "none":
        return features
    return features.map({b.key: _row_normalized(b.matrix) for b in features.blocks if b.matrix is not None})


def without_features(graph: HeteroData) -> HeteroData:
    """The nodes alone: every type is then embedded."""
    bare = HeteroData()
    for node_type in graph.node_types:
        bare[node_type].num_nodes = graph[node_type].num_nodes
    return bare


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
