"""Score nodes that are not in the graph, as if they and their edges were added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.nn import Features, NodeClassifier
from fastgtn.nn.inputs.features import Matrix, SparseMatrix
from fastgtn.runs.on_graph import OnGraph, model_with
from fastgtn.runs.predictions import score_table
from fastgtn.runs.scoring.new.edges import EdgeReader, EdgeRows
from fastgtn.runs.scoring.new.extended import extended, nodes_around
from fastgtn.runs.scoring.new.features import encoded_features, no_features, plain_features
from fastgtn.runs.scoring.new.request import NewNode
from fastgtn.runs.scoring.node_names import NodeNames
from fastgtn.training.build import build_features
from fastgtn.training.predict import logit_blocks

if TYPE_CHECKING:
    from fastgtn.runs.result import Result


class Newcomers:
    """What is prepared once for all new nodes of a run."""

    def __init__(self, run: Result) -> None:
        self.run, self.there, self.schema = run, run.own, run.schema
        self.target = run.schema.target
        self.encoding = None if run.schema.encoding is None else run.schema.table_encoding()
        self.reader = EdgeReader(
            self.there.inputs.raw,
            self.there.graph,
            self.target,
            self.encoding,
            _NamesOfTypes(self.there),
            run.config.graph.binarize,
        )

    def prepare(self) -> None:
        """Read the names of all nodes that edges may lead to, and find reverse relations, before the first request."""
        _ = self.model, self.reader.mirrors
        for relation in self.reader.relations:
            _ = self.reader.names[relation.source], self.reader.names[relation.target]

    def table(self, nodes: Sequence[NewNode]) -> pa.Table:
        """The columns of a prediction."""
        return self.scored(nodes)[0]

    def scored(self, nodes: Sequence[NewNode]) -> tuple[pa.Table, Tensor]:
        """The table and the representations of nodes that are added to the graph together."""
        self._check_ids(nodes)
        z = self._representations(nodes)
        logits = torch.cat(list(logit_blocks(self.model, z)))
        ids = np.array([str(node.id) for node in nodes])
        return score_table(self.schema, logits, ids, np.zeros(len(nodes), np.int8)), z

    @cached_property
    def model(self) -> NodeClassifier:
        """The model with one more embedding, the mean of all, where the target type has embeddings."""
        there = self.there
        if self.target not in there.inputs.features.embedded:
            return there.model
        schema = self.schema
        name = f"backbone.input.weights.{(*schema.widths, *schema.embedded).index(self.target)}"
        weights, trained = there.model.state_dict(), self.run.model.state_dict()[name]
        weights[name] = torch.cat([weights[name], trained.mean(0, keepdim=True)])
        features = there.inputs.features
        blocks = tuple(replace(b, width=b.width + 1) if b.key == self.target else b for b in features.blocks)
        wider = replace(there.inputs, features=Features(blocks, features.num_rows))
        return model_with(weights, self.run.config, schema, wider)

    def _representations(self, nodes: Sequence[NewNode]) -> Tensor:
        there = self.there
        found = self.reader.read(nodes)
        edges, own = self.reader.in_stack(found), self._features(nodes, found)
        raw = there.inputs.raw
        is_local = there.on_demand.is_local and self.run.config.graph.normalize not in ("symmetric", "joint")
        around = nodes_around(raw, edges, self.model.backbone.num_hops) if is_local else torch.arange(raw.num_nodes)
        inputs, rows = extended(there.inputs, around, edges, self.target, len(nodes), own)
        with torch.no_grad():
            return inputs.plan(self.model, rows).representations(self.model).cpu()

    def _features(self, nodes: Sequence[NewNode], edges: Sequence[EdgeRows]) -> Matrix | None:
        """In the layout of the stored features, and normalised as they are."""
        stored = self.there.inputs.features
        if self.target in stored.embedded:
            no_features(nodes, self.target)
            return None
        if self.encoding is not None:
            x = encoded_features(nodes, edges, self.target, self.encoding)
        else:
            width = stored.widths[self.target if self.target in stored.widths else "shared"]
            x = plain_features(nodes, width, self.schema.feature_names.get(self.target, ()))
        (block,) = (b for b in stored.blocks if b.key in (self.target, "shared"))
        if isinstance(block.matrix, SparseMatrix) and x.layout == torch.strided:
            x = x.to_sparse_csr()
        graph = HeteroData()
        graph[self.target].x, graph[self.target].num_nodes = x, len(nodes)
        return build_features(graph, self.run.config.features).blocks[0].matrix

    def _check_ids(self, nodes: Sequence[NewNode]) -> None:
        for node in nodes:
            if self.there.names.has(str(node.id)):
                raise InputError(
                    f'the new node "{node.id}" has the id or name of a node of the graph: request that node by its id, '
                    "or give the new node another id."
                )


class _NamesOfTypes(dict[str, NodeNames]):
    """The names of each node type, read when they are first needed."""

    def __init__(self, there: OnGraph) -> None:
        super().__init__({there.target: there.names})
        self.graph = there.graph

    def __missing__(self, node_type: str) -> NodeNames:
        self[node_type] = found = NodeNames(self.graph, node_type)
        return found
