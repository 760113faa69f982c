"""Convert a graph and its task to the named arrays of an archive."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError
from fastgtn.relations.checks import check_counts, check_edge_index
from fastgtn.relations.times import time_tensor

FORMAT_VERSION = 1
LONGEST_TEXT = 500  # numpy pads every text to the longest one
TIMES = ("time", "as_of")  # of nodes, as float64


def encode(
    graph: HeteroData, task: NodeTask | None, *, meta: dict[str, Any] | None, planted: dict[str, Any] | None
) -> dict[str, Array]:
    """All arrays of the archive. Nodes are numbered by type in the order of `graph.node_types`."""
    types = list(graph.node_types)
    if not types:
        raise InputError("the graph has no nodes: there is nothing to store.")
    for name in [*types, *(edge_type[1] for edge_type in graph.edge_types)]:
        check_name(name)
    check_counts({t: graph[t].num_nodes for t in types})
    counts = [int(graph[t].num_nodes) for t in types]
    starts = dict(zip(types, np.cumsum([0, *counts]).tolist(), strict=False))
    name = getattr(graph, "name", "graph")
    arrays = {
        "format_version": np.array(FORMAT_VERSION),
        "meta_json": np.array(json.dumps({"name": name} | (meta or {}), sort_keys=True)),
        "num_nodes": np.array(sum(counts)),
        "node_type_names": np.array(types),
        "node_type": np.repeat(np.arange(len(types), dtype=np.int8 if len(types) < 128 else np.int16), counts),
    }
    if "encoding" in graph:
        arrays["encoding_json"] = np.array(json.dumps(graph.encoding, sort_keys=True))
    if planted is not None:
        arrays["planted_json"] = np.array(json.dumps(planted, sort_keys=True))
    arrays |= _node_texts(graph, starts)
    arrays |= _edges(graph, starts, sum(counts))
    arrays |= _features(graph)
    return arrays | (_task(task, starts, sum(counts)) if task is not None else {})


def check_name(name: str) -> None:
    """Refuse names of node types and relations that are not safe as file names."""
    if not name or not name.isprintable() or name[0] == "." or any(c in name for c in '/\\:*?"<>|'):
        raise InputError(f"the name {name!r} cannot be stored: use letters, digits, spaces, '_' or '-'.")


def _node_texts(graph: HeteroData, starts: dict[str, int]) -> dict[str, Array]:
    arrays = {}
    for node_type, start in starts.items():
        store, count = graph[node_type], int(graph[node_type].num_nodes)
        # nodes without ids use their number in this archive
        ids = store.node_id if "node_id" in store else np.arange(start, start + count)
        arrays[f"node_ids_{node_type}"] = _ids_or_names(ids, count, f'ids of "{node_type}"')
        for key in TIMES:
            if key in store:
                times = time_tensor(store[key], count, f'node type "{node_type}"', name=key)
                arrays[f"node_{key}_{node_type}"] = times.numpy()
        if "year" in store:
            arrays[f"node_years_{node_type}"] = store.year.numpy().astype(np.int16)
        if "node_name" in store:
            names = _ids_or_names(store.node_name, count, f'names of "{node_type}"')
            arrays[f"node_names_{node_type}"] = names
    return arrays


def _ids_or_names(values: Any, count: int, what: str) -> Array:
    array = np.asarray(values)
    array = array.astype(np.int64) if array.dtype.kind in "iu" else array.astype(str)
    if array.shape != (count,):
        raise InputError(f"the {what} have shape {array.shape}, but there are {count} nodes: give one entry per node.")
    if array.dtype.kind == "U" and array.dtype.itemsize > 4 * LONGEST_TEXT:
        longest = array.dtype.itemsize // 4
        raise InputError(f"the {what} have up to {longest} characters; the limit is {LONGEST_TEXT}: shorten them.")
    return array


def _edges(graph: HeteroData, starts: dict[str, int], num_nodes: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        "edge_names": _texts([name for _, name, _ in graph.edge_types]),
        "edge_src_type": _texts([source for source, _, _ in graph.edge_types]),
        "edge_dst_type": _texts([target for _, _, target in graph.edge_types]),
    }
    for k, (source, name, target) in enumerate(graph.edge_types):
        store = graph[source, name, target]
        check_edge_index(store.edge_index, name, int(graph[source].num_nodes), int(graph[target].num_nodes))
        row, col = store.edge_index.cpu().long().numpy()
        weight = store.edge_weight.detach().cpu().float().numpy() if "edge_weight" in store else None
        if weight is not None and weight.shape != row.shape:
            raise InputError(
                f'relation "{name}" has {len(row)} edges, but edge_weight has shape {list(weight.shape)}: '
                "give one weight per edge."
            )
        row, col = row + starts[source], col + starts[target]
        if "time" in store:
            time = time_tensor(store.time, len(row), f'relation "{name}"').numpy()
            order = np.lexsort((time, np.zeros(len(row)) if weight is None else weight, row * num_nodes + col))
            row, col, arrays[f"edge_{k}_time"] = row[order], col[order], time[order]
            weight = None if weight is None else weight[order]
        else:
            row, col, weight = _sorted_edges(row, col, weight, num_nodes)
        if weight is not None:
            _check_weights(row, col, weight, name)
        arrays |= _csr(f"edge_{k}", np.bincount(row, minlength=num_nodes), col, weight, num_nodes)
    return arrays


def _sorted_edges(row: Array, col: Array, weight: Array | None, num_nodes: int) -> tuple[Array, Array, Array | None]:
    """Sort by row, column and weight, so that the order of the edges does not change the file."""
    key = row * num_nodes + col
    if weight is not None:
        order = np.lexsort((weight, key))
        return row[order], col[order], weight[order]
    if np.all(key[1:] >= key[:-1]):
        return row, col, None
    key = np.sort(key)
    return key // num_nodes, key % num_nodes, None


def _check_weights(row: Array, col: Array, weight: Array, name: str) -> None:
    """Refuse weights that no reader would take, also where the weights of a repeated edge are added."""
    is_first = np.append(True, (np.diff(row) != 0) | (np.diff(col) != 0))[: len(row)]
    sums = np.add.reduceat(weight.astype(np.float64), np.flatnonzero(is_first)) if len(weight) else weight
    wrong = int((~(np.abs(sums) <= np.finfo(np.float32).max)).sum())  # NaN is not smaller than anything
    if wrong:
        raise InputError(
            f'relation "{name}" has {wrong} weights that are NaN, infinite or (with repeated edges added) beyond '
            "3.4e38, the largest number that is stored: clean or rescale them."
        )


def _features(graph: HeteroData) -> dict[str, Array]:
    with_features = {t: _floats(graph[t].x) for t in graph.node_types if "x" in graph[t]}
    for node_type, x in with_features.items():
        if x.dim() != 2 or x.size(0) != graph[node_type].num_nodes or x.is_complex():
            raise InputError(
                f'features of "{node_type}" are {x.dtype} {list(x.shape)}; '
                f"expected numbers [{graph[node_type].num_nodes}, width]."
            )
        if not bool(torch.isfinite(x.values() if x.is_sparse_csr else x).all()):
            raise InputError(
                f'features of "{node_type}" hold NaN or infinite numbers, or numbers beyond 3.4e38: '
                "fill, rescale or drop them first."
            )
    if not getattr(graph, "shared_features", False):
        return {k: a for t, x in with_features.items() for k, a in _matrix(f"feat_{t}", x).items()}
    if len({x.size(1) for x in with_features.values()}) != 1 or len(with_features) != len(graph.node_types):
        raise InputError("shared_features needs features of one width on every node type; set it to False.")
    matrices = list(with_features.values())
    if any(x.is_sparse_csr for x in matrices):
        matrices = [x if x.is_sparse_csr else x.to_sparse_csr() for x in matrices]
    return _matrix("feat", *matrices)


def _floats(x: Tensor) -> Tensor:
    """Whole numbers and booleans become float32, as in training; double precision is not stored."""
    return x if x.dtype in (torch.float16, torch.float32) or x.is_complex() else x.float()


def _matrix(key: str, *blocks: Tensor) -> dict[str, Array]:
    """Concatenate blocks of rows: dense blocks stay dense, sparse blocks become CSR."""
    if not blocks[0].is_sparse_csr:
        dense = blocks[0] if len(blocks) == 1 else torch.cat(blocks)
        return {f"{key}_dense": dense.numpy()}
    width = blocks[0].size(1)
    row_counts = np.concatenate([np.diff(x.crow_indices().numpy()) for x in blocks])
    indices = np.concatenate([x.col_indices().numpy() for x in blocks])
    data = np.concatenate([x.values().float().numpy() for x in blocks])
    arrays = _csr(key, row_counts, indices, data, width)
    return arrays | {f"{key}_shape": np.array([len(row_counts), width])}


def _csr(key: str, row_counts: Array, indices: Array, data: Array | None, width: int) -> dict[str, Array]:
    indptr = np.concatenate([[0], np.cumsum(row_counts)])
    arrays = {
        f"{key}_indptr": indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64),
        f"{key}_indices": indices.astype(np.int32 if width <= 2**31 else np.int64),
    }
    if data is not None and not np.all(data == 1):
        arrays[f"{key}_data"] = data.astype(np.float32)
    return arrays


def _task(task: NodeTask, starts: dict[str, int], num_nodes: int) -> dict[str, Array]:
    if task.target not in starts:
        raise InputError(f'the target type of the task is "{task.target}" but the graph has {", ".join(starts)}.')
    start, labels = starts[task.target], task._labels.numpy()
    train, val = task.train.nodes.numpy(), task.val.nodes.numpy()
    arrays: dict[str, Array] = {
        "task_kind": np.array(task.kind),
        "target_type": np.array(task.target),
        "class_names": _texts(task.class_names),
        "test_idx": task.test_nodes.numpy() + start,
    }
    if task.val_is_drawn:  # the original archive had no validation split, so none is stored
        arrays["train_idx"] = np.sort(np.concatenate([train, val])) + start
    else:
        arrays |= {"train_idx": train + start, "val_idx": val + start}
    if task.kind == "multi":
        everyone = np.zeros((num_nodes, task.num_classes), np.uint8)
        everyone[start : start + len(labels)] = labels
        return arrays | {
            "labels_packed": np.packbits(everyone, axis=1),
            "labels_shape": np.array(everyone.shape),
        }
    if task.kind == "number":
        wanted = np.full((num_nodes, task.num_classes), np.nan, np.float32)
        wanted[start : start + len(labels)] = labels
        return arrays | {"labels_number": wanted}
    numbers: Array = np.full(num_nodes, -1, np.int16 if task.num_classes < 2**15 else np.int32)
    numbers[start : start + len(labels)] = labels
    return arrays | {"labels": numbers}


def _texts(values: Sequence[str]) -> Array:
    return np.array(list(values), dtype=str)
