"""Statistics of a graph."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.archive.decode import Labels


@dataclass(frozen=True)
class NodeTypeInfo:
    """One node type. `features` is the width, 0 without features; `isolated` nodes have no edges."""

    nodes: int
    features: int
    density: float
    layout: str
    isolated: int


@dataclass(frozen=True)
class RelationInfo:
    """One relation. Edges point from source to target; the degree of a target counts its incoming edges."""

    source: str
    target: str
    edges: int
    weighted: bool
    mean_degree: float
    max_degree: int
    without_edges: int


@dataclass(frozen=True)
class GraphInfo:
    """A graph's statistics. Edges of a homogeneous graph are counted as undirected, as in the literature."""

    name: str
    nodes: int
    edges: int
    homogeneous: bool
    features: int | None
    density: float | None
    classes: int | None = None
    kind: str | None = None
    target: str | None = None
    train: int | None = None
    val: int | None = None
    test: int | None = None
    node_types: dict[str, NodeTypeInfo] = field(default_factory=dict)
    relations: dict[str, RelationInfo] = field(default_factory=dict)
    class_counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain containers for JSON."""
        return asdict(self)


def describe(graph: HeteroData, labels: Labels | None) -> GraphInfo:
    """Compute the statistics of a graph and its labels. Labels of the test split are not read.

    Raises:
        InputError: For labels that do not fit their kind or their classes.
    """
    types = {t: _node_type(graph, t) for t in graph.node_types}
    relations = {_relation_key(graph, edge_type): _relation(graph, edge_type) for edge_type in graph.edge_types}
    homogeneous = len(graph.node_types) == 1 and len(graph.edge_types) == 1
    widths = {info.features for info in types.values() if info.features}
    shared = bool(getattr(graph, "shared_features", False)) and len(widths) == 1
    nodes = sum(info.nodes for info in types.values())
    task: dict[str, Any] = {}
    if labels is not None:
        names = labels.classes()
        task = {
            "classes": len(names),
            "kind": labels.kind,
            "target": labels.target,
            "train": len(labels.train),
            "val": None if labels.val is None else len(labels.val),
            "test": len(labels.test),
            "class_counts": {} if labels.kind == "number" else _class_counts(labels, names),
        }
    return GraphInfo(
        name=str(getattr(graph, "name", "graph")),
        nodes=nodes,
        edges=_undirected_edges(graph) if homogeneous else sum(info.edges for info in relations.values()),
        homogeneous=homogeneous,
        features=widths.pop() if shared else None,
        density=sum(info.density * info.nodes for info in types.values()) / nodes if shared else None,
        node_types=types,
        relations=relations,
        **task,
    )


def incoming(graph: HeteroData, edge_type: tuple[str, str, str]) -> Tensor:
    """Number of incoming edges of each node of the relation's target type."""
    return torch.bincount(graph[edge_type].edge_index[1], minlength=graph[edge_type[2]].num_nodes)


def _node_type(graph: HeteroData, node_type: str) -> NodeTypeInfo:
    count = int(graph[node_type].num_nodes)
    touched = torch.zeros(count, dtype=torch.bool)
    for source, name, target in graph.edge_types:
        for end, ids in zip((source, target), graph[source, name, target].edge_index, strict=True):
            if end == node_type:
                touched[ids] = True
    isolated = int((~touched).sum())
    if "x" not in graph[node_type]:
        return NodeTypeInfo(count, 0, 0.0, "none", isolated)
    x = graph[node_type].x
    sparse = x.layout == torch.sparse_csr
    filled = int(x.values().count_nonzero() if sparse else x.count_nonzero())
    density = filled / max(x.size(0) * x.size(1), 1)
    return NodeTypeInfo(count, x.size(1), density, "sparse" if sparse else "dense", isolated)


def _relation(graph: HeteroData, edge_type: tuple[str, str, str]) -> RelationInfo:
    degree = incoming(graph, edge_type)
    edges = graph[edge_type].edge_index.size(1)
    return RelationInfo(
        source=edge_type[0],
        target=edge_type[2],
        edges=edges,
        weighted="edge_weight" in graph[edge_type],
        mean_degree=edges / max(len(degree), 1),
        max_degree=int(degree.max()) if len(degree) else 0,
        without_edges=int((degree == 0).sum()),
    )


def _relation_key(graph: HeteroData, edge_type: tuple[str, str, str]) -> str:
    """The name of the relation, with its node types if the name is not unique."""
    alike = sum(name == edge_type[1] for _, name, _ in graph.edge_types)
    return edge_type[1] if alike == 1 else " ".join(edge_type)


def _undirected_edges(graph: HeteroData) -> int:
    edge_type = graph.edge_types[0]
    ends = np.sort(graph[edge_type].edge_index.numpy(), axis=0).astype(np.int64)
    return len(np.unique(ends[0] * graph[edge_type[0]].num_nodes + ends[1]))


def _class_counts(labels: Labels, names: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """Nodes of each class in the training and the validation split."""
    counts: dict[str, dict[str, int]] = {name: {} for name in names}
    for split, nodes in (("train", labels.train), ("val", labels.val)):
        if nodes is None:
            continue
        y = labels.labels[nodes]
        each = y.sum(0) if labels.kind == "multi" else torch.bincount(y[y >= 0], minlength=len(names))
        for name, number in zip(names, each.tolist(), strict=True):
            counts[name][split] = int(number)
    return counts
