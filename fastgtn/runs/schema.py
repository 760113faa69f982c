"""The schema that a trained model expects of a graph, and the transfer of embeddings to another graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.data.decision import decided
from fastgtn.data.number_unit import in_unit
from fastgtn.data.task import Kind
from fastgtn.errors import InputError
from fastgtn.nn import Features
from fastgtn.nn.inputs.features import FeatureBlock
from fastgtn.relations import Relation
from fastgtn.training.build import Inputs

if TYPE_CHECKING:
    from fastgtn.data.tables.encoding import Encoding


@dataclass(frozen=True)
class Schema:
    """Types, relations, feature widths and classes of the graph that a model was trained on.

    Args:
        relations: Those of the stack, with added reverses and the identity.
        embedded: The ids of nodes with a learned embedding, by node type.
        feature_names: The names of the feature columns by node type, if the graph has names.
        encoding: The encoding of the tables; None if the graph was not built from tables.
        decision: The threshold of the rarer of two classes, chosen for an aim; None predicts the more probable class.
        largest: Where the model predicts logarithms of numbers, the largest number of each output; else None.
        as_of: Whether the nodes were seen at their moments, so that nodes of another graph need moments too.
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
    feature_names: dict[str, list[str]] = field(default_factory=dict)
    encoding: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None
    as_of: bool = False
    largest: list[float] | None = None

    @staticmethod
    def of(graph: HeteroData, inputs: Inputs, task: NodeTask) -> Schema:
        return Schema(
            tuple(graph.node_types),
            tuple(graph.edge_types),
            inputs.stack.relations,
            inputs.features.widths,
            {t: [str(i) for i in node_ids(graph, t)] for t in inputs.features.embedded},
            task.target,
            task.kind,
            task.class_names,
            task.threshold,
            _feature_names(graph),
            graph.encoding if "encoding" in graph else None,
            as_of=inputs.is_timed,
        )

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Schema:
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
            dict(values.get("feature_names", {})),
            values.get("encoding"),
            values.get("decision"),
            bool(values.get("as_of", False)),
            values.get("largest"),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def empty_features(self) -> Features:
        """Features without nodes but with the right widths, which are enough to build the model."""
        widths = {key: torch.empty(0, width) for key, width in self.widths.items()}
        blocks = [FeatureBlock(key, None, None, matrix, matrix.size(1)) for key, matrix in widths.items()]
        blocks += [FeatureBlock(key, None, None, None, len(ids)) for key, ids in self.embedded.items()]
        return Features(tuple(blocks), 0)

    def aligned(self, graph: HeteroData) -> HeteroData:
        """The same graph with its types in the order of this schema. Other types are refused."""
        differences = _set_difference("node type", self.node_types, graph.node_types)
        relations, here = ({"-".join(e): e for e in edges} for edges in (self.edge_types, graph.edge_types))
        differences += _set_difference("relation", relations, here)
        _refuse(differences)
        self._require_encoding(graph)
        if self.as_of and "as_of" not in graph[self.target]:
            raise InputError(
                f"the run was trained with as_of, but the {self.target} nodes of the graph have no moments: set "
                f'data["{self.target}"].as_of (in graph.toml, as_of in [task]); NaN, or an empty cell, is a node that '
                "sees everything."
            )
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

    def table_encoding(self) -> Encoding:
        """The encoding of the tables that the run was trained on."""
        if self.encoding is None:
            raise InputError(
                "the run was not trained on a graph from tables (fastgtn data build), so no encoding is stored with it."
            )
        from fastgtn.data.tables.encoding import Encoding

        return Encoding.from_json(self.encoding, where="the run")

    def _require_encoding(self, graph: HeteroData) -> None:
        """Refuse features with a different encoding, because their numbers have another meaning."""
        differences: list[str] = []
        if self.encoding is not None and "encoding" in graph:
            from fastgtn.data.tables.encoding import Encoding  # its packages are needed for graphs from tables alone

            differences = self.table_encoding().differences(Encoding.from_json(graph.encoding, where="the graph"))
        elif self.feature_names:
            here = _feature_names(graph)
            for node_type, names in self.feature_names.items():
                if node_type in here and here[node_type] != names:
                    differences += _name_difference(node_type, names, here[node_type])
        if differences:
            raise InputError(
                f"the features of the graph are encoded differently from those that the run was trained on: "
                f"{'; '.join(differences)}. Build the graph with fastgtn data build graph.toml --like RUN, or give the "
                "tables to fastgtn predict RUN --tables graph.toml."
            )

    def require_inputs(self, inputs: Inputs) -> None:
        """Refuse other feature widths and relations."""
        widths, embedded = inputs.features.widths, inputs.features.embedded
        mine = {k: f"{n} features" for k, n in self.widths.items()} | dict.fromkeys(self.embedded, "no features")
        theirs = {k: f"{n} features" for k, n in widths.items()} | dict.fromkeys(embedded, "no features")
        keys = [key for key in mine if mine[key] != theirs.get(key)]
        differences = [f'"{key}" has {theirs.get(key, "none")} instead of {mine[key]}' for key in keys]
        names = [[str(relation) for relation in stack] for stack in (self.relations, inputs.stack.relations)]
        _refuse(differences + _set_difference("relation", *names))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax, or sigmoid where a node may have several labels; numbers in the unit of the user."""
        if self.kind == "number":
            return in_unit(logits, self.largest)
        return logits.sigmoid() if self.kind == "multi" else logits.softmax(-1)

    def chosen(self, probabilities: Tensor) -> Tensor:
        """The most probable class, or the rarer of two from the threshold on that was chosen for an aim."""
        if self.decision is None:
            return probabilities.argmax(1)
        asked = self.class_names.index(self.decision["class_name"])
        return decided(probabilities, asked, self.decision["threshold"])


def _feature_names(graph: HeteroData) -> dict[str, list[str]]:
    meta = graph.meta if "meta" in graph else {}
    names = meta.get("features", {})
    return {str(t): [str(n) for n in each] for t, each in names.items()} if isinstance(names, dict) else {}


def _name_difference(node_type: str, expected: list[str], found: list[str]) -> list[str]:
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    words = [f'"{node_type}" lacks the feature {name}' for name in missing[:3]]
    words += [f'"{node_type}" has the unexpected feature {name}' for name in extra[:3]]
    return words or [f'"{node_type}" has its features in another order']


def node_ids(graph: HeteroData, node_type: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The user's ids, or node numbers if there are none."""
    store = graph[node_type]
    return np.asarray(store.node_id) if "node_id" in store else np.arange(int(store.num_nodes))


def with_ids(graph: HeteroData) -> HeteroData:
    """The same graph, in which nodes without ids use their numbers as ids, so that an archive keeps them."""
    named = copy.copy(graph)
    for node_type in graph.node_types:
        named[node_type].node_id = node_ids(graph, node_type)
    return named


def moved_embeddings(table: Tensor, known: list[str], wanted: list[str]) -> tuple[Tensor, int]:
    """Embeddings of the given ids, with the mean of all for unknown ids, and the number of unknown ids."""
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
        raise InputError(f"the schema of the graph differs from that of the run: {'; '.join(differences)}.")
