"""Shared by the importers: find the files, and build a graph and a task from matrices."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.feature_matrix import LARGEST, feature_tensor
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
NODE, EDGE = "node", ("node", "E", "node")  # the only types of a homogeneous graph


def prefix_of(path: Path, ending: str) -> str:
    """The common prefix of a dataset's files: `data/cora` for `data/cora_adj.pkl` or for its folder."""
    if Path(f"{path}{ending}").is_file():
        return str(path)
    if str(path).endswith(ending) and path.is_file():
        return str(path).removesuffix(ending)
    found = sorted(path.glob(f"*{ending}")) if path.is_dir() else []
    if len(found) == 1:
        return str(found[0]).removesuffix(ending)
    if found:
        names = ", ".join(file.name.removesuffix(ending) for file in found)
        raise InputError(f"{path} contains several datasets ({names}): give one, such as {path}/{found[0].name}.")
    raise InputError(f"no file *{ending} at {path}: give the folder, or the common prefix of the files.")


def as_csr(matrix: Any, what: str) -> sp.csr_matrix:
    """The content of a file as a scipy CSR matrix, or an error that names the file."""
    if not sp.issparse(matrix) and not (isinstance(matrix, np.ndarray) and matrix.ndim == 2):
        raise InputError(f"{what} must be a matrix; got {type(matrix).__name__}.")
    return sp.csr_matrix(matrix)


def homogeneous(adjacency: sp.csr_matrix, features: Any, *, name: str, directed: bool = False) -> HeteroData:
    """A graph with one node type and one relation. It is symmetric without self-loops unless it is directed."""
    if adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"the adjacency matrix must be square; it is {adjacency.shape[0]} × {adjacency.shape[1]}.")
    N = adjacency.shape[0]
    graph = HeteroData()
    graph.name, graph.shared_features = name, features is not None
    graph[NODE].num_nodes = N
    if features is not None:
        x = feature_tensor(features, what="the features")
        if len(x) != N:
            raise InputError(f"there are {len(x)} rows of features but {N} nodes.")
        graph[NODE].x = x
    if not directed:
        adjacency = adjacency.maximum(adjacency.T)
        adjacency = adjacency - sp.diags_array(adjacency.diagonal())
    set_edges(graph, EDGE, adjacency)
    return graph


def set_edges(graph: HeteroData, edge_type: tuple[str, str, str], matrix: Any) -> None:
    """Store a matrix (rows = from, columns = to) as edges; with weights if not all are one."""
    csr = sp.csr_matrix(matrix, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    coo = csr.tocoo()
    if not (np.abs(coo.data) <= LARGEST).all():
        name = edge_type[1]
        raise InputError(f'relation "{name}" has weights that are NaN, infinite or beyond 3.4e38: rescale them.')
    ends = np.stack([coo.row, coo.col]).astype(np.int64)
    graph[edge_type].edge_index = torch.from_numpy(ends)
    if not (coo.data == 1).all():
        graph[edge_type].edge_weight = torch.from_numpy(coo.data.astype(np.float32))


def class_numbers(labels: Array) -> tuple[Array, list[str]]:
    """Number the classes from zero in sorted order; negative labels mean unlabelled and become −1."""
    classes = np.unique(labels[labels >= 0])
    numbers = np.where(labels >= 0, np.searchsorted(classes, labels), -1)
    return numbers, [str(c) for c in classes]


def node_task(labels: Array, *, target: str = NODE, train: Tensor, val: Tensor | None, test: Tensor) -> NodeTask:
    """A task of one label (one column, any integers) or of several (a matrix of zeros and ones)."""
    if labels.ndim == 2 and labels.shape[1] > 1:
        if not np.isin(labels, (0, 1)).all():
            raise InputError("labels with several columns must be zeros and ones, a column per class.")
        y = torch.from_numpy(labels.astype(np.float32))
        return NodeTask.from_labels(target, "multi", y, train=train, val=val, test=test)
    if labels.dtype.kind not in "iuf" or not np.array_equal(labels, np.trunc(labels)):
        raise InputError("labels must be whole numbers, one per node.")
    numbers, names = class_numbers(labels.reshape(-1).astype(np.int64))
    y = torch.from_numpy(numbers)
    return NodeTask.from_labels(target, "single", y, train=train, val=val, test=test, class_names=names)
