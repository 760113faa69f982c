"""A trained model on one graph: the graph of the training, or another one with the same schema."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.config import Config
from fastgtn.data import NodeTask, Split
from fastgtn.data.archive import content_checksum
from fastgtn.errors import InputError
from fastgtn.nn import NodeClassifier
from fastgtn.runs.schema import Schema, moved_embeddings, node_ids, with_ids
from fastgtn.runs.scoring.node_names import NodeNames
from fastgtn.runs.scoring.on_demand import OnDemand
from fastgtn.runs.scoring.splits import split_codes
from fastgtn.training.build import Inputs, build_model, hops_seen
from fastgtn.training.loop import Weights
from fastgtn.training.predict import logit_blocks, representations
from fastgtn.training.prepare.screened import MOST_MOMENTS

if TYPE_CHECKING:
    import pyarrow as pa

Nodes = Tensor | Sequence[int] | Sequence[str]


@dataclass(frozen=True, eq=False)
class OnGraph:
    """The outputs of a model on a graph.

    Args:
        inputs: The relations and features that the model reads.
        model: The model for exactly these nodes: learned embeddings follow the ids of the nodes.
        known: The representations, if they were already computed.
        digest: The checksum of the archive that the graph was read from.
    """

    config: Config
    target: str
    graph: HeteroData
    task: NodeTask | None
    inputs: Inputs
    model: NodeClassifier
    known: Tensor | None = None
    digest: Callable[[], str] | None = None

    @cached_property
    def representations(self) -> Tensor:
        """The representations of all nodes of the target type before the classifier's head, [nodes, out_features]."""
        if self.known is not None:
            return self.known
        return representations(self.model, self.inputs, self.target, self.config.batch, seed=self.config.fit.seed)

    @cached_property
    def on_demand(self) -> OnDemand:
        """Computes representations of single nodes."""
        return OnDemand(self.inputs, self.model, self.target, self.config.batch, seed=self.config.fit.seed)

    @cached_property
    def names(self) -> NodeNames:
        """Finds nodes of the target type by their ids and names."""
        return NodeNames(self.graph, self.target)

    @cached_property
    def splits(self) -> np.ndarray:
        """The split of each node of the target type, as a number."""
        return split_codes(int(self.graph[self.target].num_nodes or 0), self.task)

    def representations_of(self, nodes: Tensor | None = None) -> Tensor:
        """The representations of some nodes, from all if these are known, otherwise from what the nodes depend on."""
        if nodes is None:
            return self.representations
        is_known = self.known is not None or "representations" in self.__dict__
        if is_known or self.on_demand.prefers_all:
            return self.representations[nodes]
        return self.on_demand.representations(nodes)

    @cached_property
    def seen(self) -> tuple[Inputs, Tensor]:
        """For summaries over nodes: the graph as the target nodes see it, and the number of each of them in it.

        These are the same nodes unless they have moments; if there are many moments, 16 are used.
        """
        rows = torch.tensor(self.inputs.raw.nodes_of(self.target), dtype=torch.int64)
        inputs, places = self.inputs.seen_by(rows, hops_seen(self.model), most_moments=MOST_MOMENTS)
        return inputs, places - inputs.raw.nodes_of(self.target).start

    def seen_task(self, task: NodeTask) -> NodeTask:
        """The training and validation nodes of a task by their numbers in the graph of `seen`."""
        _, places = self.seen
        return replace(
            task,
            train=Split(places[task.train.nodes], task.train.labels),
            val=Split(places[task.val.nodes], task.val.labels),
        )

    def logit_blocks(self, nodes: Tensor | None = None) -> Iterator[Tensor]:
        """Class scores in blocks, for all nodes of the target type or for the given ones in their order."""
        return logit_blocks(self.model, self.representations_of(nodes))

    @cached_property
    def checksum(self) -> str:
        """The sha256 of the content of the graph and its task, as in an archive."""
        return content_checksum(*self.storable()) if self.digest is None else self.digest()

    def storable(self) -> tuple[HeteroData, NodeTask | None]:
        """The graph with ids and the task with its drawn validation nodes: an archive of them reads back the same."""
        task = self.task
        return with_ids(self.graph), None if task is None else replace(task, val_is_drawn=False)

    @property
    def logits(self) -> Tensor:
        """Class scores of all nodes of the target type; use :meth:`logit_blocks` when there are many classes."""
        return torch.cat(list(self.logit_blocks()))


def on_graph(
    graph: HeteroData, task: NodeTask | None, *, config: Config, schema: Schema, model: NodeClassifier
) -> OnGraph:
    """Prepare a graph for the trained model. Another schema is refused with the difference."""
    inputs = Inputs.of(schema.aligned(graph), config)
    schema.require_inputs(inputs)
    weights = model.state_dict()
    keys = (*schema.widths, *schema.embedded)
    for node_type, known in schema.embedded.items():
        name = f"backbone.input.weights.{keys.index(node_type)}"
        wanted = [str(i) for i in node_ids(graph, node_type)]
        weights[name], new = moved_embeddings(weights[name], known, wanted)
        if new:
            warnings.warn(
                f'{new:,} of {len(wanted):,} nodes of type "{node_type}" were not seen in training and have no '
                "features: each gets the mean embedding of its type.",
                stacklevel=3,
            )
    return OnGraph(config, schema.target, graph, task, inputs, model_with(weights, config, schema, inputs))


def table_on(there: OnGraph, schema: Schema, nodes: Tensor | None = None) -> pa.Table:
    """Predictions on a prepared graph, of all nodes of the target type or of those with the given numbers."""
    from fastgtn.runs.predictions import prediction_table

    logits = there.logit_blocks(nodes)
    return prediction_table(schema, there.graph, logits, there.task, nodes=nodes, splits=there.splits)


def model_with(weights: Weights, config: Config, schema: Schema, inputs: Inputs | None = None) -> NodeClassifier:
    """The model of a config with given weights, in evaluation mode; without inputs, for the graph of the training."""
    features = schema.empty_features() if inputs is None else inputs.features
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.model, features, schema.relations, len(schema.class_names))
    model.load_state_dict(weights)
    return model.eval()


def find_node(graph: HeteroData, target: str, wanted: str) -> int:
    """The number of a node by its id, or by its name if only one has it."""
    return NodeNames(graph, target).number(wanted)


def node_numbers(there: OnGraph, nodes: Nodes) -> Tensor:
    """Numbers within the target type, from numbers, a mask, or ids and names as text."""
    graph, target = there.graph, there.target
    if not isinstance(nodes, Tensor):
        nodes = list(nodes)  # type: ignore[assignment]
        if nodes and all(isinstance(node, str) for node in nodes):
            return there.names.numbers([str(node) for node in nodes])
    array, count = np.asarray(nodes), int(graph[target].num_nodes or 0)
    if array.dtype == bool and array.shape == (count,):
        array = np.flatnonzero(array)
    is_numbers = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
    if not is_numbers or (array.size and not 0 <= array.min() <= array.max() < count):
        raise InputError(
            f"nodes must be numbers of {target} nodes between 0 and {count - 1}, a mask over them, or their ids as "
            f"text, but got {array.dtype} {list(array.shape)}."
        )
    return torch.from_numpy(array.astype(np.int64))
