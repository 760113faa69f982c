"""What a graph must look like for a trained model, and the embeddings that move along to another graph."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.data.task import Kind
from fastgtn.errors import InputError
from fastgtn.models import Features
from fastgtn.models.features import FeatureBlock
from fastgtn.relations import Relation
from fastgtn.training.build import Inputs


@dataclass(frozen=True)
class Schema:
    """Types, relations, feature widths and classes of the graph that a model was trained on.

    Args:
        relations: Those of the stack, with added reverses and the identity.
        embedded: The ids of nodes that own a learned embedding, by node type.
    """

    node_types: tuple[str, ...]
    edge_types: tuple[tuple[str, str, str], ...]
    relations: tuple[Relation, ...]
    widths: dict[str, int]
    embedded: dict[str, list[str]]
    target: str
    kind: Kind
    class_names: tuple[str, ...]
    threshold: float

    @staticmethod
    def of(graph: HeteroData, inputs: Inputs, task: NodeTask) -> "Schema":
        return Schema(
            tuple(graph.node_types), tuple(graph.edge_types), inputs.stack.relations, inputs.features.widths,
            {t: [str(i) for i in node_ids(graph, t)] for t in inputs.features.embedded},
            task.target, task.kind, task.class_names, task.threshold,
        )  # fmt: skip

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Schema":
        return Schema(
            tuple(values["node_types"]),
            tuple(cast(tuple[str, str, str], tuple(e)) for e in values["edge_types"]),
            tuple(Relation(*r) for r in values["relations"]),
            dict(values["widths"]),
            dict(values["embedded"]),
            values["target"],
            values["kind"],
            tuple(values["class_names"]),
            values["threshold"],
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def empty_features(self) -> Features:
        """Features of no nodes, of the right widths: enough to build the model."""
        widths = {key: torch.empty(0, width) for key, width in self.widths.items()}
        blocks = [FeatureBlock(key, None, None, matrix, matrix.size(1)) for key, matrix in widths.items()]
        blocks += [FeatureBlock(key, None, None, None, len(ids)) for key, ids in self.embedded.items()]
        return Features(tuple(blocks), 0)

    def aligned(self, graph: HeteroData) -> HeteroData:
        """The same graph with its types in the order of this schema; refused where the types differ."""
        differences = _set_difference("node type", self.node_types, graph.node_types)
        relations, here = ({"-".join(e): e for e in edges} for edges in (self.edge_types, graph.edge_types))
        differences += _set_difference("relation", relations, here)
        _refuse(differences)
        ordered = HeteroData()
        for name in ("name", "shared_features"):
            if name in graph:
                ordered[name] = graph[name]
        for kind in (*self.node_types, *self.edge_types):
            for key, value in graph[kind].items():
                ordered[kind][key] = value
        for node_type in self.node_types:
            ordered[node_type].num_nodes = graph[node_type].num_nodes
        return ordered

    def require_inputs(self, inputs: Inputs) -> None:
        """Refuse features of other widths, and relations that the options turned into others."""
        widths, embedded = inputs.features.widths, inputs.features.embedded
        mine = {k: f"{n} features" for k, n in self.widths.items()} | dict.fromkeys(self.embedded, "no features")
        theirs = {k: f"{n} features" for k, n in widths.items()} | dict.fromkeys(embedded, "no features")
        keys = [key for key in mine if mine[key] != theirs.get(key)]
        differences = [f'"{key}" has {theirs.get(key, "none")} instead of {mine[key]}' for key in keys]
        names = [[str(relation) for relation in stack] for stack in (self.relations, inputs.stack.relations)]
        _refuse(differences + _set_difference("relation", *names))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax, or sigmoid where a node may have several labels."""
        return logits.sigmoid() if self.kind == "multi" else logits.softmax(-1)


def node_ids(graph: HeteroData, node_type: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The user's ids, or numbers where there are none."""
    store = graph[node_type]
    return np.asarray(store.node_id) if "node_id" in store else np.arange(int(store.num_nodes))


def moved_embeddings(table: Tensor, known: list[str], wanted: list[str]) -> tuple[Tensor, int]:
    """Rows for the wanted ids: their own, or the mean of all for ids not seen in training; and how many are new."""
    place = {name: row for row, name in enumerate(known)}
    rows = torch.tensor([place.get(name, -1) for name in wanted], dtype=torch.int64)
    mean = table.mean(0) if len(table) else table.new_zeros(table.size(1))
    moved = torch.where((rows >= 0)[:, None], table[rows] if len(table) else mean, mean)
    return moved, int((rows < 0).sum())


def _set_difference(kind: str, expected: Any, found: Any) -> list[str]:
    words = [(f"{kind} missing", [n for n in expected if n not in found])]
    words.append((f"{kind} not expected", [n for n in found if n not in expected]))
    return [f"{word}: {', '.join(names)}" for word, names in words if names]


def _refuse(differences: list[str]) -> None:
    if differences:
        raise InputError(f"the graph has another schema than the one of the run: {'; '.join(differences)}.")
