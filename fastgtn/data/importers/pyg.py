"""`Data` and `HeteroData` of PyTorch Geometric, as written by `torch.save`."""

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from fastgtn.data.feature_matrix import feature_tensor
from fastgtn.data.importers.assemble import EDGE, NODE
from fastgtn.data.task import Kind, NodeTask
from fastgtn.errors import InputError

PYG_CLASSES = [
    Data,
    HeteroData,
    BaseStorage,
    GlobalStorage,
    NodeStorage,
    EdgeStorage,
    DataEdgeAttr,
    DataTensorAttr,
]


def read(path: Path) -> tuple[HeteroData, NodeTask | None]:
    """Read one file; edges are kept as they are, masks become splits."""
    saved = _load(path)
    if isinstance(saved, Data):
        stores: dict[Any, Any] = {NODE: saved._store}
        edges: dict[Any, Any] = {EDGE: saved._store} if "edge_index" in saved._store else {}
    elif isinstance(saved, HeteroData):
        stores = {t: saved[t] for t in saved.node_types}
        edges = {e: saved[e] for e in saved.edge_types}
    else:
        raise InputError(f"{path} holds a {type(saved).__name__}; save one Data or HeteroData with torch.save.")
    graph = HeteroData()
    graph.name, graph.shared_features = path.stem.lower(), isinstance(saved, Data) and "x" in saved._store
    for node_type, store in stores.items():
        _add_nodes(graph, node_type, store)
    for edge_type, store in edges.items():
        _add_edges(graph, edge_type, store)
    return graph, _task(stores, path)


def _load(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals(PYG_CLASSES):
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except pickle.UnpicklingError as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"{path} holds more than tensors and PyG's data classes; it was not loaded ({reason})"
        ) from None
    except Exception as error:  # a damaged file may fail anywhere in the reader
        raise InputError(f"{path} is not a readable file of torch.save ({type(error).__name__})") from None


def _add_nodes(graph: HeteroData, node_type: str, store: Any) -> None:
    count = store.num_nodes
    if count is None:
        raise InputError(f'node type "{node_type}" has neither features nor num_nodes: set num_nodes and save again.')
    graph[node_type].num_nodes = int(count)
    if "x" in store:
        x = store.x
        if not isinstance(x, Tensor) or x.dim() != 2 or len(x) != count:
            raise InputError(f'x of "{node_type}" must be a matrix with a row for each of its {count} nodes.')
        dense = x.to_dense() if x.layout != torch.strided else x
        graph[node_type].x = feature_tensor(dense.float().numpy(), what=f"x of {node_type}")


def _add_edges(graph: HeteroData, edge_type: tuple[str, str, str], store: Any) -> None:
    index = store.get("edge_index")
    if not isinstance(index, Tensor) or index.dim() != 2 or index.size(0) != 2 or index.is_floating_point():
        raise InputError(f"edge_index of {edge_type} must be whole numbers of shape [2, E].")
    for side, end in enumerate((edge_type[0], edge_type[2])):
        if end not in graph.node_types:
            raise InputError(f'{edge_type} joins the node type "{end}", which has no nodes in the file.')
        if index.numel() and not 0 <= int(index[side].min()) <= int(index[side].max()) < graph[end].num_nodes:
            raise InputError(f'{edge_type} has edges to nodes that "{end}" does not have.')
    graph[edge_type].edge_index = index.long()
    weight = store.get("edge_weight", store.get("edge_attr"))
    if isinstance(weight, Tensor) and weight.numel() == index.size(1):  # wider edge_attr are features, not weights
        graph[edge_type].edge_weight = weight.reshape(-1).float()


def _task(stores: dict[str, Any], path: Path) -> NodeTask | None:
    targets = [t for t, store in stores.items() if "y" in store and "train_mask" in store]
    if not targets:
        return None
    if len(targets) > 1:
        raise InputError(f"{path} has labels and masks on {', '.join(targets)}; keep those of one node type.")
    target, store = targets[0], stores[targets[0]]
    y = store.y.squeeze(-1) if store.y.dim() == 2 and store.y.size(1) == 1 else store.y
    masks = {name: _mask(store, f"{name}_mask", len(y)) for name in ("train", "val", "test")}
    if masks["train"] is None or masks["test"] is None:
        raise InputError(f'"{target}" in {path} needs train_mask and test_mask.')
    kind: Kind = "multi" if y.dim() == 2 else "single"
    return NodeTask.from_labels(target, kind, y, train=masks["train"], val=masks["val"], test=masks["test"])


def _mask(store: Any, name: str, num_nodes: int) -> Tensor | None:
    mask: Tensor | None = store.get(name)
    if mask is None:
        return None
    if mask.dim() == 2:  # several splits side by side: the first is taken, as PyG's examples do
        mask = mask[:, 0]
    if mask.shape != (num_nodes,):
        raise InputError(f"{name} has shape {list(mask.shape)} but there are {num_nodes} labels.")
    return mask.bool().nonzero().squeeze(1)
