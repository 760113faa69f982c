"""Build relations, features and model from a config."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.config import Config, FeatureOptions, GraphOptions
from fastgtn.data import NodeTask
from fastgtn.data.moments import all_moments, moments_of, snapshot
from fastgtn.errors import InputError, nearest
from fastgtn.nn import Backbone, Features, MetaPathModel, NodeClassifier
from fastgtn.nn.backbone import PlannedGraph
from fastgtn.nn.backbone_options import BackboneOptions
from fastgtn.nn.inputs.features import SparseMatrix
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.nn.moving import moved
from fastgtn.relations import Batch, Relation, RelationStack
from fastgtn.relations.sampling.moments import rounded_down, seen_from
from fastgtn.screening import Screening
from fastgtn.training.prepare.decisions import NOTHING_DECIDED, Decisions
from fastgtn.training.prepare.scaling import scaled

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a model: the relations of all nodes and their features.

    Args:
        raw: The relations without normalisation. Batches are sampled from these and normalised separately.
        device: Where plans are computed. Graph and features stay in the memory of the processor.
        is_timed: Whether the graph has moments, after which nothing may be seen.
        moments: The moment of each node, float64 [N]; its messages are older. None if all have the same one or none.
    """

    raw: RelationStack
    features: Features
    options: GraphOptions
    device: torch.device = CPU
    decisions: Decisions = NOTHING_DECIDED  # what the filters start from
    is_timed: bool = False
    moments: Tensor | None = None

    @staticmethod
    def of(graph: HeteroData, config: Config) -> "Inputs":
        """Prepare a graph according to the config. If all nodes have the same moment, the graph ends there."""
        read = graph if config.model.reads_features else without_features(graph)
        moments, end = all_moments(graph), snapshot(graph)
        is_timed = moments is not None
        stack, features = build_stack(graph, config.graph, times=is_timed), build_features(read, config.features)
        if end is not None:
            stack, moments = stack.before(end), None
        return Inputs(stack, features, config.graph, is_timed=is_timed, moments=moments)

    @property
    def screening(self) -> Screening | None:
        """The screened paths; None where filters start uniform."""
        return self.decisions.screening

    @cached_property
    def stack(self) -> RelationStack:
        """The prepared relations."""
        return normalized(self.raw, self.options)

    def on(self, device: torch.device) -> "Inputs":
        """The same inputs, whose plans are handed over on a device."""
        return self if device == self.device else replace(self, device=device)

    def rows(self, node_type: str, nodes: Tensor) -> Tensor:
        """Convert node numbers within a type to node numbers over all types."""
        return nodes + self.raw.nodes_of(node_type).start

    def seen_by_one(self, row: int) -> "Inputs":
        """The graph as one node sees it at its moment, with all nodes and their numbers."""
        if self.moments is None or not 0 <= row < len(self.moments):
            return self
        return replace(self, raw=self.raw.before(float(self.moments[row])), moments=None)

    def seen_by(self, rows: Tensor, hops: int | None, *, most_moments: int | None = None) -> "tuple[Inputs, Tensor]":
        """The graph as each of these rows sees it at its moment, side by side, and the places of the rows in it.

        Args:
            hops: How far the rows see; None for everything.
            most_moments: Round moments down to at most this many different ones.
        """
        if self.moments is None:
            return self, rows
        moments = self.moments[rows]
        if most_moments is not None:
            moments = rounded_down(moments, most_moments)
        prepare = partial(normalized, options=self.options)
        seen = seen_from(self.raw, rows, moments, hops=hops, prepare=prepare)
        prepared = self.options.model_copy(update={"normalize": "none"})
        features = self.features.select(seen.nodes)
        return replace(self, raw=seen.stack, features=features, options=prepared, moments=None), seen.targets

    def plan(self, model: NodeClassifier, rows: Tensor) -> "Plan":
        """Only what these rows depend on, if the model supports it; each row at its moment."""
        if self.moments is not None:
            seen, places = self.seen_by(rows, hops_seen(model))
            return seen.plan(model, places)
        return self.plan_for(model.backbone, rows)

    def plan_for(self, backbone: Backbone, rows: Tensor) -> "Plan":
        """The same for a model without a head, on the graph of the present."""
        graph = backbone.plan(self.stack, rows)
        plan = Plan(self.features.select(graph.inputs), graph, rows if graph.inputs is None else None)
        return plan.to(self.device)

    def plan_all(self, model: NodeClassifier, rows: Tensor) -> "Plan":
        """A pass over every row of the graph, without copying; only some rows are requested."""
        if self.moments is not None:
            return self.plan(model, rows)
        return Plan(self.features, model.backbone.plan(self.stack), rows).to(self.device)

    def plan_batch(self, backbone: Backbone, batch: Batch, wanted: slice = slice(None)) -> "PlannedBatch":
        """What some targets of a sampled batch depend on, before features are gathered."""
        targets = batch.targets[wanted]
        graph = backbone.plan(normalized(batch.stack, self.options), targets)
        nodes = batch.nodes if graph.inputs is None else batch.nodes[graph.inputs]
        return PlannedBatch(graph, nodes, targets if graph.inputs is None else None)


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A sampled part of the graph, prepared for a model but without features."""

    graph: PlannedGraph
    nodes: Tensor  # whose features are read
    rows: Tensor | None  # the requested rows among the computed ones; None for all

    def gather(self, features: Features) -> "Plan":
        """Fetch the features of the nodes."""
        return Plan(features.select(self.nodes), self.graph, self.rows)


@dataclass(frozen=True, eq=False)
class Plan:
    """One forward pass, from features to the logits of the requested rows."""

    features: Features
    graph: PlannedGraph
    rows: Tensor | None  # the requested rows among the computed ones; None for all

    def to(self, device: torch.device, *, pin: bool = False) -> "Plan":
        """The same pass on a device.

        Args:
            pin: Copy through page-locked memory, for batches that a GPU fetches while the next one is made.
        """
        return self if device == CPU else moved(self, device, pin=pin and device.type == "cuda")

    def logits(self, model: Callable[[Features, PlannedGraph], Tensor]) -> Tensor:
        """The logits of the requested rows, in their order."""
        values = model(self.features, self.graph)
        return values if self.rows is None else values[self.rows]

    def representations(self, model: NodeClassifier) -> Tensor:
        """The representations of the requested rows before the classifier's head."""
        return self.logits(model.backbone)

    @property
    def entries(self) -> int:
        """The number of stored feature values that one pass reads."""
        matrices = [block.matrix for block in self.features.blocks if block.matrix is not None]
        return sum(m.values.numel() if isinstance(m, SparseMatrix) else m.numel() for m in matrices)

    @property
    def cost(self) -> int:
        """The number of values that one pass reads: edges and feature entries."""
        return self.graph.cost + self.entries


def check_task(graph: HeteroData, task: NodeTask) -> None:
    """Refuse an object that is not a task, or a task whose nodes are not in the graph."""
    if not isinstance(task, NodeTask):
        raise InputError(
            "training needs a task, made by NodeTask.from_labels or NodeTask.from_hetero, or a graph with y and masks, "
            f"but got {type(task).__name__}."
        )
    if task.target not in graph.node_types:
        raise InputError(f'the target of the task is "{task.target}"; {nearest(task.target, graph.node_types)}')
    _check_moments(graph, task)
    count = int(graph[task.target].num_nodes or 0)
    highest = max((int(n.max()) for n in (task.train.nodes, task.val.nodes, task.test_nodes) if len(n)), default=-1)
    if highest >= count:
        raise InputError(
            f"the task has a label for {task.target} {highest}, but the graph has only {count}, numbered from 0."
        )


def unreached(inputs: Inputs, task: NodeTask, config: Config) -> str | None:
    """A warning if no relation leads to the nodes that are predicted, as in a graph without reverse relations."""
    if not isinstance(config.model, MetaPathOptions) or any(r.target == task.target for r in inputs.raw.relations):
        return None
    return (
        f'no relation leads to nodes of type "{task.target}", so there is no meta-path and the model sees only their '
        "own features: add the reverse relations with graph.reverse = true."
    )


def hops_seen(model: NodeClassifier) -> int | None:
    """How far a row sees; None for models that count the edges of nodes beyond that."""
    backbone = model.backbone
    return backbone.num_hops if isinstance(backbone, MetaPathModel) or not backbone.num_hops else None


def _check_moments(graph: HeteroData, task: NodeTask) -> None:
    """Refuse labelled nodes without a moment where others have one: they would see the future."""
    moments = moments_of(graph, task.target)
    if moments is None:
        return
    for name, nodes in (("training", task.train.nodes), ("validation", task.val.nodes), ("test", task.test_nodes)):
        missing = int(moments[nodes[nodes < len(moments)]].isnan().sum())
        if missing:
            raise InputError(
                f"{missing} {name} nodes have no as_of, so they would see everything: give each labelled node its "
                "moment, or take it out of the split."
            )


def build_stack(graph: HeteroData, options: GraphOptions, *, times: bool = False) -> RelationStack:
    """The relations of a graph with its edge weights."""
    by_column = options.normalize in ("symmetric", "joint")
    if times and by_column and any("time" in graph[t] for t in graph.node_types):
        raise InputError(
            f'graph.normalize = "{options.normalize}" divides by the number of nodes that receive a message, which '
            'also counts nodes that are later than as_of: use "row".'
        )
    return RelationStack.from_hetero(
        graph, identity=options.identity, reverse=options.reverse, binarize=options.binarize, times=times
    )


def normalized(stack: RelationStack, options: GraphOptions) -> RelationStack:
    """The prepared relations of a graph or of a batch."""
    # until "auto" is decided, rows are normalised, and only walks that exist count
    empty_rows = "zero" if options.empty_rows == "auto" else options.empty_rows
    if options.normalize == "log":
        return stack.log_normalized(empty_rows)
    if options.normalize == "symmetric":
        return stack.symmetrically_normalized(empty_rows)
    if options.normalize == "joint":
        return stack.jointly_normalized(empty_rows)
    return stack if options.normalize == "none" else stack.row_normalized(empty_rows)


def build_features(graph: HeteroData, options: FeatureOptions) -> Features:
    """The features of a graph; types without features get learned embeddings."""
    features = Features.from_hetero(graph, shared=options.shared).dropped_from(options.drop_from)
    return scaled(features, options.normalize)


def without_features(graph: HeteroData) -> HeteroData:
    """Features without any values: every type gets learned embeddings."""
    bare = HeteroData()
    for node_type in graph.node_types:
        bare[node_type].num_nodes = graph[node_type].num_nodes
    return bare


def build_model(
    options: BackboneOptions, features: Features, relations: Sequence[Relation], num_classes: int
) -> NodeClassifier:
    """A new model, with weights drawn from torch's generator."""
    return options.classifier(features, relations, num_classes)
