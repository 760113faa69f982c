"""The files of the GTN authors: edges.pkl, node_features.pkl and labels.pkl in one folder (DBLP, ACM, IMDB).

The files number all nodes together and do not contain node types. The types are inferred: nodes that appear on the
same side of the same matrix have one type, and sides that share a node have the same type.
"""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.feature_matrix import feature_tensor
from fastgtn.data.importers.assemble import Array, as_csr, class_numbers, set_edges
from fastgtn.data.importers.gtn_schema import Schema, find_schema
from fastgtn.data.importers.pickles.safe_pickle import load
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError


def read(path: Path, *, types: Path | None = None) -> tuple[HeteroData, NodeTask]:
    """Read the three files of a folder.

    Args:
        types: A TOML or JSON file with the names: `relations = ["PA", "AP"]` in the order of edges.pkl, and
            `types = {paper = 3025, author = 5912}`, the number of nodes of each type, in the order of the node numbers.
    """
    matrices, keys = _matrices(load(path / "edges.pkl"))
    features = load(path / "node_features.pkl")
    splits = _label_splits(load(path / "labels.pkl"), path / "labels.pkl", matrices[0].shape[0])
    schema = find_schema(path, matrices, keys, labelled=np.concatenate(splits)[:, 0], names_file=types)
    return _graph(path, matrices, features, schema), _task(splits, schema)


def _matrices(edges: Any) -> tuple[list[sp.csr_matrix], list[str] | None]:
    keys = [str(key) for key in edges] if isinstance(edges, dict) else None
    found = list(edges.values()) if isinstance(edges, dict) else edges
    if not isinstance(found, list | tuple) or not found:
        raise InputError(f"edges.pkl must contain a list of matrices, one per relation; got {type(edges).__name__}.")
    matrices = [as_csr(matrix, f"edges.pkl, matrix {k}") for k, matrix in enumerate(found)]
    N = matrices[0].shape[0]
    for k, matrix in enumerate(matrices):
        if matrix.shape != (N, N):
            raise InputError(f"edges.pkl, matrix {k} is {matrix.shape[0]} × {matrix.shape[1]}; all must be {N} × {N}.")
        matrix.eliminate_zeros()
    return matrices, keys


def _label_splits(labels: Any, file: Path, num_nodes: int) -> list[Array]:
    """Train, validation and test as arrays of (node, label)."""
    if not isinstance(labels, list | tuple) or len(labels) != 3:
        raise InputError(f"{file} must contain three lists of (node, label): train, validation and test.")
    splits = [np.asarray(split, dtype=np.float64).reshape(-1, 2) for split in labels]
    for split in splits:
        if split.size and (split[:, 0].min() < 0 or split[:, 0].max() >= num_nodes):
            raise InputError(f"{file} labels nodes outside 0 … {num_nodes - 1}.")
    return [split.astype(np.int64) for split in splits]


def _graph(path: Path, matrices: list[sp.csr_matrix], features: Any, schema: Schema) -> HeteroData:
    graph = HeteroData()
    graph.name, graph.shared_features = path.resolve().name.lower(), True
    features = as_csr(features, f"{path}/node_features.pkl")
    if features.shape[0] != len(schema.node_type):
        raise InputError(
            f"node_features.pkl has {features.shape[0]} rows but edges.pkl has {len(schema.node_type)} nodes."
        )
    nodes = [np.flatnonzero(schema.node_type == t) for t in range(len(schema.type_names))]
    for name, members in zip(schema.type_names, nodes, strict=True):
        graph[name].num_nodes = len(members)
        graph[name].node_id = members
        graph[name].x = feature_tensor(features[members], what=f"features of {name}")
    for matrix, name, (s, t) in zip(matrices, schema.relation_names, schema.ends, strict=True):
        edge_type = (schema.type_names[s], name, schema.type_names[t])
        set_edges(graph, edge_type, matrix[nodes[s]][:, nodes[t]])
    return graph


def _task(splits: list[Array], schema: Schema) -> NodeTask:
    labelled = np.concatenate(splits)
    target = np.unique(schema.node_type[labelled[:, 0]])
    if len(target) != 1:
        names = ", ".join(schema.type_names[t] for t in target)
        raise InputError(f"labels.pkl labels nodes of more than one type ({names}); a task has one target type.")
    members = np.flatnonzero(schema.node_type == target[0])
    labels = np.full(len(schema.node_type), -1)
    labels[labelled[:, 0]] = labelled[:, 1]
    numbers, class_names = class_numbers(labels[members])
    train, val, test = (torch.from_numpy(np.searchsorted(members, split[:, 0])) for split in splits)
    return NodeTask.from_labels(
        schema.type_names[target[0]],
        "single",
        torch.from_numpy(numbers),
        train=train,
        val=val,
        test=test,
        class_names=class_names,
    )
