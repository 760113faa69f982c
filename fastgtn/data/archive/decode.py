"""Build a graph and its labels from the named arrays of an archive. Every array is checked before use."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array
from fastgtn.data.archive.edges import edge_list
from fastgtn.data.archive.encode import FORMAT_VERSION, TIMES
from fastgtn.data.archive.nodes import StoredNodes, whole_number
from fastgtn.data.index_arrays import check_range
from fastgtn.data.task import Kind, NodeTask
from fastgtn.data.task_inputs import class_names, label_tensor
from fastgtn.errors import InputError

DENSE_ABOVE = 0.5  # CSR features with a larger share of entries are converted to a dense matrix


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels and splits as stored, numbered within the target type and not yet validated together."""

    target: str
    kind: Kind
    labels: Tensor
    train: Tensor
    val: Tensor | None
    test: Tensor
    class_names: tuple[str, ...] | None

    @classmethod
    def of(cls, task: NodeTask) -> "Labels":
        """The labels of a task in the form in which an archive stores them."""
        train, val = task.train.nodes, task.val.nodes
        if task.val_is_drawn:
            train = torch.cat([train, val]).sort().values
        stored_val = None if task.val_is_drawn else val
        return cls(task.target, task.kind, task._labels, train, stored_val, task.test_nodes, task.class_names)

    def classes(self) -> tuple[str, ...]:
        """Names of the classes, declared or inferred. Labels that do not form a valid task are refused."""
        return class_names(label_tensor(self.labels, self.kind), self.class_names, None, kind=self.kind)

    def task(self, *, val_fraction: float, seed: int) -> NodeTask:
        """The task. If no validation split is stored, it is drawn from the training nodes with the seed."""
        return NodeTask.from_labels(
            self.target,
            self.kind,
            self.labels,
            train=self.train,
            val=self.val,
            test=self.test,
            class_names=self.class_names,
            val_fraction=val_fraction,
            seed=seed,
        )


def decode(arrays: Mapping[str, Array], *, half: bool = False) -> tuple[HeteroData, Labels | None]:
    """Build the graph and read its labels. Node numbers in the file may be grouped by type or interleaved."""
    _check_version(arrays)
    nodes = StoredNodes(arrays)
    meta = stored_json(arrays, "meta_json")
    graph = HeteroData()
    graph.name = str(meta.get("name", "graph"))
    graph.meta = meta
    if "encoding_json" in arrays:
        graph.encoding = stored_json(arrays, "encoding_json")
    if "planted_json" in arrays:
        graph.planted = stored_json(arrays, "planted_json")
    for node_type, members in nodes.members.items():
        store = graph[node_type]
        store.num_nodes = len(members)
        store.node_id = nodes.texts(f"node_ids_{node_type}", len(members), default=members)
        for key in TIMES:
            if f"node_{key}_{node_type}" in arrays:
                store[key] = nodes.times(f"node_{key}_{node_type}", len(members))
        if f"node_years_{node_type}" in arrays:
            years = nodes.get(f"node_years_{node_type}")
            check_range(years, f"node_years_{node_type}", (len(members),), 10_000)
            store.year = torch.from_numpy(years.astype(np.int64))
        if f"node_names_{node_type}" in arrays:
            store.node_name = nodes.texts(f"node_names_{node_type}", len(members))
    _add_edges(graph, nodes)
    _add_features(graph, nodes, half)
    return graph, _labels(nodes)


def _add_edges(graph: HeteroData, nodes: StoredNodes) -> None:
    names, sources, targets = (nodes.names(key) for key in ("edge_names", "edge_src_type", "edge_dst_type"))
    if not len(names) == len(sources) == len(targets):
        raise InputError("edge_names, edge_src_type and edge_dst_type must have the same length.")
    for k, edge_type in enumerate(zip(sources, names, targets, strict=True)):
        source, name, target = edge_type
        if {source, target} - nodes.members.keys() or edge_type in graph.edge_types:
            raise InputError(f'relation "{name}" from "{source}" to "{target}": unknown type, or stored twice.')
        edge_index, weight = edge_list(nodes, f"edge_{k}", edge_type)
        graph[edge_type].edge_index = torch.from_numpy(edge_index)
        if weight is not None:
            graph[edge_type].edge_weight = torch.from_numpy(weight)
        if f"edge_{k}_time" in nodes.arrays:
            graph[edge_type].time = nodes.times(f"edge_{k}_time", edge_index.shape[1])


def _add_features(graph: HeteroData, nodes: StoredNodes, half: bool) -> None:
    everyone = "feat_shape" in nodes.arrays or "feat_dense" in nodes.arrays
    graph.shared_features = everyone
    if everyone:
        x = _features(nodes, "feat", nodes.count)
        if nodes.is_blocked and isinstance(x, np.ndarray):
            # views of one tensor: mapped memory stays mapped, and the models can recover the whole matrix
            parts = _tensor(x, half).split([len(members) for members in nodes.members.values()])
            for node_type, part in zip(nodes.members, parts, strict=True):
                graph[node_type].x = part
            return
        for node_type, members in nodes.members.items():
            graph[node_type].x = _tensor(x[members], half)
        return
    for node_type, members in nodes.members.items():
        if f"feat_{node_type}_shape" in nodes.arrays or f"feat_{node_type}_dense" in nodes.arrays:
            graph[node_type].x = _tensor(_features(nodes, f"feat_{node_type}", len(members)), half)


def _features(nodes: StoredNodes, key: str, count: int) -> Array | sp.csr_matrix:
    if f"{key}_dense" in nodes.arrays:
        dense = nodes.arrays[f"{key}_dense"]
        if dense.dtype.kind != "f" or dense.ndim != 2 or len(dense) != count:
            raise InputError(f'"{key}_dense" must be {count} rows of floats, not {dense.dtype} {dense.shape}.')
        return dense
    shape = nodes.get(f"{key}_shape")
    check_range(shape, f"{key}_shape", (2,), 2**31)
    if shape[0] != count:
        raise InputError(f'"{key}_shape" says {shape[0]} rows but there are {count} nodes.')
    matrix = nodes.matrix(key, (count, int(shape[1])))
    matrix.sum_duplicates()  # torch requires sorted and distinct columns in each row
    mostly_filled = matrix.nnz > DENSE_ABOVE * count * int(shape[1]) > 0
    return matrix.toarray() if mostly_filled else matrix


def _tensor(x: Array | sp.csr_matrix, half: bool) -> Tensor:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x if half and x.dtype == np.float16 else x.astype(np.float32, copy=False))
    with warnings.catch_warnings():  # torch calls its CSR layout "beta" once per process
        warnings.simplefilter("ignore", UserWarning)
        indptr, indices = (torch.from_numpy(a.astype(np.int64)) for a in (x.indptr, x.indices))
        return torch.sparse_csr_tensor(indptr, indices, torch.from_numpy(x.data), x.shape)


def _labels(nodes: StoredNodes) -> Labels | None:
    if "train_idx" not in nodes.arrays:
        return None
    first = nodes.get("train_idx").reshape(-1)[:1]
    check_range(first, "train_idx", first.shape, nodes.count)
    if "target_type" in nodes.arrays:
        target = str(nodes.get("target_type"))
    elif len(first):
        target = nodes.type_names[int(nodes.type_of[first[0]])]
    else:
        raise InputError('"train_idx" is empty: at least one labelled training node is needed.')
    kind = str(nodes.arrays["task_kind"]) if "task_kind" in nodes.arrays else "single"
    kind = "multi" if "labels_packed" in nodes.arrays else "number" if "labels_number" in nodes.arrays else kind
    if target not in nodes.members or kind not in get_args(Kind):
        raise InputError(f'the archive\'s task is "{kind}" labels of "{target}": unknown kind or node type.')
    train, test = nodes.split("train_idx", target), nodes.split("test_idx", target)
    assert train is not None
    names = None
    if "class_names" in nodes.arrays:
        names = tuple(str(c) for c in nodes.texts("class_names", nodes.get("class_names").size))
    labels = torch.from_numpy(_label_rows(nodes, nodes.members[target]))
    no_test = torch.empty(0, dtype=torch.int64)
    return Labels(
        target,
        cast(Kind, kind),
        labels,
        train,
        nodes.split("val_idx", target),
        no_test if test is None else test,
        names,
    )


def _label_rows(nodes: StoredNodes, members: Array) -> Array:
    """Labels of the target type: int64 [N], zeros and ones [N, C] unpacked from bits, or numbers [N, C]."""
    if "labels_number" in nodes.arrays:
        numbers = nodes.get("labels_number")
        if numbers.dtype != np.float32 or numbers.ndim != 2 or len(numbers) != nodes.count:
            raise InputError(
                f'"labels_number" must be {nodes.count} rows of float32, not {numbers.dtype} {numbers.shape}.'
            )
        return numbers[members]
    if "labels_packed" not in nodes.arrays:
        labels = nodes.get("labels")
        if labels.dtype.kind != "i" or labels.shape != (nodes.count,):
            raise InputError(f'"labels" must be {nodes.count} whole numbers, not {labels.dtype} {labels.shape}.')
        return labels[members].astype(np.int64)
    packed, shape = nodes.get("labels_packed"), nodes.get("labels_shape")
    check_range(shape, "labels_shape", (2,), 2**31)
    num_classes = int(shape[1])
    if packed.dtype != np.uint8 or packed.shape != (nodes.count, (num_classes + 7) // 8):
        raise InputError(f'"labels_packed" {packed.dtype} {packed.shape} does not fit labels_shape {shape.tolist()}.')
    return np.unpackbits(packed[members], axis=1)[:, :num_classes].astype(np.float32)


def _check_version(arrays: Mapping[str, Array]) -> None:
    if "format_version" not in arrays:
        return
    version = whole_number(arrays["format_version"], "format_version")
    if version > FORMAT_VERSION:
        raise InputError(f"the archive has format {version}, but this fastgtn reads up to {FORMAT_VERSION}: update it.")


def stored_json(arrays: Mapping[str, Array], name: str) -> dict[str, Any]:
    """A stored JSON object, or an empty one."""
    if name not in arrays:
        return {}
    try:
        value = json.loads(str(arrays[name]))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(f'"{name}" must be one JSON object.')
    return value
