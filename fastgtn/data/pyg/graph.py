"""Graphs of PyTorch Geometric in memory: one type for both kinds of them, and their labels and masks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from fastgtn.data.metrics import Kind
from fastgtn.errors import InputError, nearest

NODE, EDGE = "node", ("node", "edge", "node")  # the only types of a homogeneous graph
SPLITS = ("train", "val", "test")
MASKS = "train_mask, val_mask and test_mask"


def as_hetero(graph: HeteroData | Data) -> HeteroData:
    """The graph itself, or a homogeneous one as a graph of one node type, "node", and one relation, "edge"."""
    if isinstance(graph, HeteroData):
        return graph
    if not isinstance(graph, Data):
        raise InputError(f"a graph must be a HeteroData or Data of PyG, but got {type(graph).__name__}.")
    if graph.edge_index is None or graph.num_nodes is None:
        raise InputError("the graph needs edge_index [2, E] and features or num_nodes.")
    hetero = HeteroData()
    hetero.shared_features = "x" in graph
    for name, value in graph.to_dict().items():
        if graph.is_node_attr(name):
            hetero[NODE][name] = value
    hetero[NODE].num_nodes = graph.num_nodes
    hetero[EDGE].edge_index = graph.edge_index
    weight = graph.get("edge_weight", graph.get("edge_attr"))
    if isinstance(weight, Tensor) and weight.numel() == graph.edge_index.size(1):
        hetero[EDGE].edge_weight = weight.reshape(-1)
    elif "edge_attr" in graph:  # wider ones are features, which models do not read: see with_edge_features
        hetero[EDGE].edge_attr = graph.edge_attr
    for name in ("edge_time", "time"):
        if name in graph and graph.is_edge_attr(name):
            hetero[EDGE].time = graph[name]
    return hetero


@dataclass(frozen=True, eq=False)
class StoredLabels:
    """The labels of one node type and the nodes of each split, as a graph holds them."""

    target: str
    kind: Kind
    labels: Tensor
    splits: dict[str, Tensor | None]


def stored_labels(graph: HeteroData, target: str | None = None, kind: Kind | None = None) -> StoredLabels:
    """Read `y`, `train_mask`, `val_mask` and `test_mask`, as the datasets of PyG have them.

    Args:
        target: The node type; by default the only one that has labels and a training mask.
        kind: By default "single" for whole numbers [N], "multi" for zeros and ones [N, classes], and "number" for
            other numbers.
    """
    target = _labelled_type(graph) if target is None else target
    if target not in graph.node_types:
        raise InputError(f'no node type "{target}"; {nearest(target, graph.node_types)}')
    store = graph[target]
    if store.get("y") is None:
        raise InputError(f'nodes of type "{target}" have no labels: set data["{target}"].y.')
    labels = _labels(store.y, target, int(store.num_nodes or 0))
    splits = {name: _mask(store, f"{name}_mask", len(labels), target) for name in SPLITS}
    for name in ("train", "test"):
        if splits[name] is None:
            raise InputError(
                f'nodes of type "{target}" have labels but no {name}_mask: set {MASKS}, or give the splits to '
                "NodeTask.from_labels. Only val_mask may be missing; validation nodes are then drawn from the training "
                "nodes."
            )
    return StoredLabels(target, kind or _kind(labels, target), labels, splits)


def _labelled_type(graph: HeteroData) -> str:
    labelled = [t for t in graph.node_types if graph[t].get("y") is not None]
    with_masks = [t for t in labelled if graph[t].get("train_mask") is not None]
    if len(with_masks) == 1:
        return with_masks[0]
    if with_masks:
        raise InputError(
            f"several node types have labels and masks ({', '.join(with_masks)}): choose one with "
            f'NodeTask.from_hetero(data, "{with_masks[0]}").'
        )
    if labelled:
        raise InputError(
            f"nodes of type {', '.join(labelled)} have labels (y) but no train_mask: set {MASKS}, or give the splits "
            "to NodeTask.from_labels."
        )
    raise InputError(
        f"no node type of the graph has labels: set y, {MASKS} of one of {', '.join(graph.node_types)}, or make a "
        "task with NodeTask.from_labels."
    )


def _labels(y: Any, target: str, num_nodes: int) -> Tensor:
    labels = torch.as_tensor(y) if isinstance(y, Tensor | np.ndarray) else None
    if labels is None or labels.dim() not in (1, 2) or len(labels) != num_nodes:
        found = type(y).__name__ if labels is None else f"shape {list(labels.shape)}"
        raise InputError(
            f'labels (y) of "{target}" must be a tensor [{num_nodes}] of classes or numbers, or '
            f"[{num_nodes}, classes] of zeros and ones, but got {found}."
        )
    return labels.squeeze(1) if labels.dim() == 2 and labels.size(1) == 1 else labels


def _kind(labels: Tensor, target: str) -> Kind:
    """What the labels are, where that is certain: classes, sets of classes, or numbers."""
    if not labels.is_floating_point():
        return "multi" if labels.dim() == 2 else "single"
    known = labels[~labels.isnan()]
    if labels.dim() == 2:
        return "multi" if bool(((labels == 0) | (labels == 1)).all()) else "number"
    if len(known) and bool((known == known.trunc()).all()):
        raise InputError(
            f'labels (y) of "{target}" are whole numbers of type {labels.dtype}: use y.long() if they are classes, or '
            f'NodeTask.from_hetero(data, "{target}", kind="number") if they are quantities.'
        )
    return "number"


def _mask(store: Any, name: str, num_nodes: int, target: str) -> Tensor | None:
    """The nodes of a split. Of several splits side by side the first is taken, as PyG's examples do."""
    mask = store.get(name)
    if mask is None:
        return None
    values = torch.as_tensor(mask) if isinstance(mask, Tensor | np.ndarray) else torch.empty(0)
    values = values[:, 0] if values.dim() == 2 and values.size(1) else values
    if values.shape != (num_nodes,) or bool(((values != 0) & (values != 1)).any()):
        raise InputError(
            f'{name} of "{target}" must be true or false for each of its {num_nodes} nodes, but has shape '
            f"{list(values.shape)} and {values.dtype}."
        )
    return values.bool().nonzero().squeeze(1)
