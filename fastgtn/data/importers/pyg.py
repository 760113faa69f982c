"""`Data` and `HeteroData` of PyTorch Geometric, as written by `torch.save`."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.archive.encode import TIMES
from fastgtn.data.feature_matrix import feature_tensor
from fastgtn.data.importers.assemble import EDGE, NODE
from fastgtn.data.importers.pickles import torch_file
from fastgtn.data.pyg.edge_attributes import with_edge_features
from fastgtn.data.task import Kind, NodeTask
from fastgtn.errors import InputError

Values = dict[str, Any]
COUNTED = ("x", "pos", "batch", "n_id", "y", "train_mask")  # values with a row per node, where num_nodes is not stored


def read(path: Path) -> tuple[HeteroData, NodeTask | None]:
    """Read one file. Edges are unchanged, and masks become splits."""
    stores, edges = _stores(path)
    graph = HeteroData()
    graph.name, graph.shared_features = path.stem.lower(), NODE in stores and "x" in stores[NODE]
    for node_type, store in stores.items():
        _add_nodes(graph, node_type, store)
    for edge_type, store in edges.items():
        _add_edges(graph, edge_type, store)
    task = _task(stores, path)
    if any("edge_attr" in graph[edge_type] for edge_type in graph.edge_types):
        warnings.warn(
            "edge_attr is summarised to the nodes at both ends (count, sum, mean, smallest, largest) as features.",
            stacklevel=2,
        )
        graph = with_edge_features(graph)
    return graph, task


def _stores(path: Path) -> tuple[dict[str, Values], dict[tuple[str, str, str], Values]]:
    """The stored values of each node type and each relation."""
    saved = _load(path)
    if isinstance(saved, dict) and saved.keys() == {"_store"}:  # a Data
        values = _mapping(saved["_store"], path)
        return {NODE: values}, {EDGE: values} if "edge_index" in values else {}
    if isinstance(saved, dict) and {"_node_store_dict", "_edge_store_dict"} <= saved.keys():
        nodes, edges = (_mapping_of(saved[f"_{kind}_store_dict"], path) for kind in ("node", "edge"))
        for name in nodes:
            if not isinstance(name, str):
                raise InputError(f"{path}: the node type {name!r} is not a text.")
        for name in edges:
            if not isinstance(name, tuple) or len(name) != 3 or any(not isinstance(part, str) for part in name):
                raise InputError(f"{path}: the edge type {name!r} must be (source, relation, target).")
        return nodes, edges
    found = "Tensor" if isinstance(saved, np.ndarray) or sp.issparse(saved) else type(saved).__name__
    raise InputError(f"{path} contains a {found}; save one Data or HeteroData with torch.save.")


def _mapping_of(stores: Any, path: Path) -> dict[Any, Values]:
    if not isinstance(stores, dict):
        raise InputError(f"{path} contains a graph without its stores: it is damaged.")
    return {name: _mapping(store, path) for name, store in stores.items()}


def _mapping(store: Any, path: Path) -> Values:
    """Arrays of a store as tensors; sparse matrices stay as they are."""
    values = store.get("_mapping") if isinstance(store, dict) else None
    if not isinstance(values, dict) or any(not isinstance(key, str) for key in values):
        raise InputError(f"{path} contains a graph without its values: it is damaged.")
    return {key: _as_tensor(value) for key, value in values.items()}


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("=")))


def _load(path: Path) -> Any:
    try:
        return torch_file.load(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError as error:
        raise InputError(
            f"{path} contains more than tensors and PyG's data classes, so it was not loaded ({error})"
        ) from None
    except Exception as error:  # a damaged file may fail anywhere in the reader
        raise InputError(f"{path} is not a readable file of torch.save ({type(error).__name__})") from None


def _add_nodes(graph: HeteroData, node_type: str, store: Values) -> None:
    x = store.get("x")
    count = _num_nodes(store)
    if count is None:
        raise InputError(f'node type "{node_type}" has neither features nor num_nodes: set num_nodes and save again.')
    if not isinstance(count, int) or count < 0:
        raise InputError(f'num_nodes of "{node_type}" is {count!r}; a whole number that is not negative is needed.')
    graph[node_type].num_nodes = count
    for key in TIMES:
        if isinstance(store.get(key), Tensor) and store[key].shape in ((), (count,)):
            graph[node_type][key] = store[key]
    if x is not None:
        if (not (isinstance(x, Tensor) and x.dim() == 2) and not sp.issparse(x)) or x.shape[0] != count:
            raise InputError(f'x of "{node_type}" must be a matrix with a row for each of its {count} nodes.')
        graph[node_type].x = feature_tensor(x if sp.issparse(x) else x.numpy(), what=f"x of {node_type}")


def _num_nodes(store: Values) -> Any:
    """The stored number of nodes, else the rows of the first value that has one per node."""
    if store.get("num_nodes") is not None:
        return store["num_nodes"]
    found = (store[key].shape for key in COUNTED if isinstance(store.get(key), Tensor) or sp.issparse(store.get(key)))
    return next((int(shape[0]) for shape in found if shape), None)


def _add_edges(graph: HeteroData, edge_type: tuple[str, str, str], store: Values) -> None:
    index = store.get("edge_index")
    if not isinstance(index, Tensor) or index.dim() != 2 or index.size(0) != 2 or index.is_floating_point():
        raise InputError(f"edge_index of {edge_type} must be whole numbers of shape [2, E].")
    for side, end in enumerate((edge_type[0], edge_type[2])):
        if end not in graph.node_types:
            raise InputError(f'{edge_type} connects the node type "{end}", which has no nodes in the file.')
        if index.numel() and not 0 <= int(index[side].min()) <= int(index[side].max()) < graph[end].num_nodes:
            raise InputError(f'{edge_type} has edges to nodes that "{end}" does not have.')
    graph[edge_type].edge_index = index.long()
    time = store.get("edge_time", store.get("time"))
    if isinstance(time, Tensor) and time.shape == (index.size(1),):
        graph[edge_type].time = time
    weight = store.get("edge_weight", store.get("edge_attr"))
    if isinstance(weight, Tensor) and weight.numel() == index.size(1):
        graph[edge_type].edge_weight = weight.reshape(-1).float()
    elif isinstance(store.get("edge_attr"), Tensor):  # wider ones are features
        graph[edge_type].edge_attr = store["edge_attr"]


def _task(stores: dict[str, Values], path: Path) -> NodeTask | None:
    targets = [t for t, store in stores.items() if isinstance(store.get("y"), Tensor) and "train_mask" in store]
    if not targets:
        return None
    if len(targets) > 1:
        raise InputError(f"{path} has labels and masks on {', '.join(targets)}; keep only those of one node type.")
    target, store = targets[0], stores[targets[0]]
    y = store["y"]
    y = y.squeeze(-1) if y.dim() == 2 and y.size(1) == 1 else y
    masks = {name: _mask(store, f"{name}_mask", len(y)) for name in ("train", "val", "test")}
    if masks["train"] is None or masks["test"] is None:
        raise InputError(f'"{target}" in {path} needs train_mask and test_mask.')
    kind: Kind = "multi" if y.dim() == 2 else "single"
    return NodeTask.from_labels(target, kind, y, train=masks["train"], val=masks["val"], test=masks["test"])


def _mask(store: Values, name: str, num_nodes: int) -> Tensor | None:
    mask: Tensor | None = store.get(name)
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or not mask.dim():
        raise InputError(f"{name} must be a tensor with a value for each of the {num_nodes} labels.")
    if mask.dim() == 2:  # of several splits the first is used, as in PyG's examples
        mask = mask[:, 0]
    if mask.shape != (num_nodes,):
        raise InputError(f"{name} has shape {list(mask.shape)} but there are {num_nodes} labels.")
    return mask.bool().nonzero().squeeze(1)
