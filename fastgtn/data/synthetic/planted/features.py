"""Features of a planted graph: the topic at the end of the path, noise everywhere else."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array
from fastgtn.data.synthetic.planted.links import Group

NOISY_TYPES = ("author", "paper")
ACCIDENTS_PER_NODE = 0.25  # at most this share of a type's degrees of freedom is used to remove chance differences
EdgeType = tuple[str, str, str]


def draw_features(
    graph: HeteroData,
    groups: list[Group],
    labels: Array,
    train: Array,
    relations: list[EdgeType],
    *,
    classes: int,
    width: int,
    noise: float,
    distraction: float,
    rng: Generator,
) -> dict[str, Array]:
    """Features [N, width] of each node type.

    The last group reveals its topic, with noise. Other authors and papers have small noise around the mean topic, of
    size `distraction`; with more, a model would memorise it before it finds the path. All nodes of other types have
    the same features, since they are few and have many neighbours, and any difference would identify them.
    """
    topics = np.linalg.qr(rng.normal(size=(width, width)))[0][:classes]  # at right angles
    last = groups[-1]
    accidents = _class_means(graph, groups[0].node_type, labels, train, relations)
    features = {}
    for node_type in graph.node_types:
        x = np.tile(topics.mean(0), (graph[node_type].num_nodes, 1))
        if node_type in NOISY_TYPES:
            x += distraction * rng.normal(size=x.shape)
        if node_type == last.node_type:
            x[last.nodes] = topics[last.classes] + noise * rng.normal(size=(len(last.nodes), width))
        if node_type in NOISY_TYPES:
            x = _without(x, accidents[node_type])
        features[node_type] = x.astype(np.float32)
    return features


def message_matrix(graph: HeteroData, edge_type: EdgeType) -> Any:
    """Row-normalised matrix of one relation: rows are the receiving nodes."""
    source, target = edge_type[0], edge_type[2]
    col, row = graph[edge_type].edge_index.numpy()
    shape = (graph[target].num_nodes, graph[source].num_nodes)
    return sp.csr_matrix((1 / np.bincount(row, minlength=shape[0])[row], (row, col)), shape=shape)


def _class_means(
    graph: HeteroData, target: str, labels: Array, train: Array, planted: list[EdgeType]
) -> dict[str, list[Array]]:
    """The weight of each node in each class mean over each path up to the planted length, except the planted one.

    On such a path, a class differs from the whole only by chance; these weights show at which nodes. Training nodes
    and other nodes are treated separately, so that chance differences do not cancel between them.
    """
    is_train = np.isin(np.arange(len(labels)), train)
    weights = np.concatenate([_deviations(np.where(part, labels, -1)) for part in (is_train, ~is_train)])
    matrices = {edge_type: message_matrix(graph, edge_type) for edge_type in graph.edge_types}
    found: dict[str, list[Array]] = {node_type: [] for node_type in graph.node_types}
    walks: list[tuple[list[EdgeType], str, Array]] = [([], target, weights)]
    for length in range(len(planted) + 1):
        for path, end, reached in walks:
            if path != planted:
                found[end].extend(reached)
        if length < len(planted):
            walks = [
                ([*path, edge_type], edge_type[0], (matrix.T @ reached.T).T)
                for path, end, reached in walks
                for edge_type, matrix in matrices.items()
                if edge_type[2] == end
            ]
    return found


def _deviations(labels: Array) -> Array:
    """Weights [classes, N] that turn values of nodes into each class's mean minus the mean of all labelled nodes."""
    members = np.stack([labels == c for c in range(int(labels.max()) + 1)]).astype(float)
    sizes = np.maximum(members.sum(1, keepdims=True), 1)
    return members / sizes - (labels >= 0) / (labels >= 0).sum()


def _without(x: Array, weights: list[Array]) -> Array:
    """Take the weighted means out of the features, so that on these paths all classes have the same mean."""
    if not weights:
        return x
    rows = np.stack(weights[: int(ACCIDENTS_PER_NODE * len(x))])  # [paths · classes, N], short paths first
    sizes = np.linalg.norm(rows, axis=1)
    rows = rows[sizes > 1e-9] / sizes[sizes > 1e-9, None]
    center = x.mean(0)
    _, strength, directions = np.linalg.svd(rows, full_matrices=False)
    directions = directions[strength > 1e-6]
    centered = x - center
    return center + centered - directions.T @ (directions @ centered)
