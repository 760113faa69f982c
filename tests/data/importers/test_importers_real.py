"""The real graphs, written in the public formats, come back through the importers as they are in the archives."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import archive
from fastgtn.data.importers import gaug, gtn, mat, pyg
from fastgtn.data.task import NodeTask

pytestmark = pytest.mark.slow


Graph = tuple[HeteroData, NodeTask]


@pytest.fixture
def real(real_graphs: Path) -> Callable[[str], Graph]:
    """Read one of the real graphs."""

    def read(name: str) -> Graph:
        graph, task = archive.read(real_graphs / f"{name}.npz")
        assert task is not None
        return graph, task

    return read


def matrix(graph: HeteroData, edge_type: tuple[str, str, str]) -> sp.csr_matrix:
    """All nodes in one row, blocked by type, as the authors' files have them."""
    starts = dict(zip(graph.node_types, np.cumsum([0] + [graph[t].num_nodes for t in graph.node_types]), strict=False))
    row, column = graph[edge_type].edge_index.numpy()
    N = sum(graph[t].num_nodes for t in graph.node_types)
    ends = (row + starts[edge_type[0]], column + starts[edge_type[2]])
    return sp.csr_matrix((np.ones(len(row)), ends), shape=(N, N))


def rows(x: torch.Tensor) -> sp.csr_matrix:
    if x.layout == torch.strided:
        return sp.csr_matrix(x.numpy())
    return sp.csr_matrix((x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), shape=x.shape)


def assert_same(read: tuple[HeteroData, NodeTask | None], expected: tuple[HeteroData, NodeTask]) -> None:
    (graph, task), (wanted, wanted_task) = read, expected
    assert sorted(graph.node_types) == sorted(wanted.node_types)
    assert graph.edge_types == wanted.edge_types
    for t in wanted.node_types:
        assert (rows(graph[t].x) != rows(wanted[t].x)).nnz == 0
    for e in wanted.edge_types:
        pairs, wanted_pairs = graph[e].edge_index.numpy(), wanted[e].edge_index.numpy()
        assert set(zip(*pairs, strict=True)) == set(zip(*wanted_pairs, strict=True))
    assert task is not None
    assert task.target == wanted_task.target
    for split in ("train", "val"):
        one, other = getattr(task, split), getattr(wanted_task, split)
        assert torch.equal(one.labels[one.nodes.argsort()], other.labels[other.nodes.argsort()])
    assert torch.equal(task.test_nodes.sort().values, wanted_task.test_nodes.sort().values)


@pytest.mark.parametrize("name", ["dblp", "acm", "imdb"])
def test_the_authors_files(name: str, tmp_path: Path, real: Callable[[str], Graph]) -> None:
    graph, task = real(name)
    folder = tmp_path / name.upper()
    folder.mkdir()
    start = sum(graph[t].num_nodes for t in graph.node_types[: graph.node_types.index(task.target)])
    labels = [
        np.stack([nodes.numpy() + start, task._labels[nodes].numpy()], 1).tolist()
        for nodes in (task.train.nodes, task.val.nodes, task.test_nodes)
    ]
    contents = {
        "edges": [matrix(graph, e) for e in graph.edge_types],
        "node_features": sp.vstack([rows(graph[t].x) for t in graph.node_types]).toarray(),
        "labels": labels,
    }
    for file, value in contents.items():
        (folder / f"{file}.pkl").write_bytes(pickle.dumps(value))
    assert_same(gtn.read(folder), (graph, task))


@pytest.mark.parametrize("name", ["airport", "cora", "citeseer"])
def test_gaug_files(name: str, tmp_path: Path, real: Callable[[str], Graph]) -> None:
    graph, task = real(name)
    contents = {
        "adj": matrix(graph, graph.edge_types[0]) + sp.identity(graph["node"].num_nodes),
        "features": rows(graph["node"].x),
        "labels": torch.as_tensor(task._labels),
        "tvt_nids": [split.numpy() for split in (task.train.nodes, task.val.nodes, task.test_nodes)],
    }
    for part, value in contents.items():
        (tmp_path / f"{name}_{part}.pkl").write_bytes(pickle.dumps(value))
    assert_same(gaug.read(tmp_path), (graph, task))


@pytest.mark.parametrize(("name", "sizes"), [("blogcatalog", (519, 1039, 3638)), ("flickr", (757, 1515, 5303))])
def test_matlab_files_have_the_paper_s_split_sizes(
    name: str, sizes: tuple[int, int, int], tmp_path: Path, real: Callable[[str], Graph]
) -> None:
    graph, task = real(name)
    variables = {
        "Network": matrix(graph, graph.edge_types[0]),
        "Attributes": rows(graph["node"].x),
        "Label": task._labels.numpy()[:, None] + 1,
    }
    scipy.io.savemat(tmp_path / f"{name}.mat", variables, do_compression=True)
    read, read_task = mat.read(tmp_path / f"{name}.mat")
    assert (rows(read["node"].x) != rows(graph["node"].x)).nnz == 0
    assert read.num_edges == graph.num_edges
    assert torch.equal(read_task._labels, task._labels)
    assert (len(read_task.train), len(read_task.val), len(read_task.test_nodes)) == sizes


def test_a_saved_pyg_graph(tmp_path: Path, real: Callable[[str], Graph]) -> None:
    graph, task = real("dblp")
    saved = HeteroData()
    for t in graph.node_types:
        saved[t].x = graph[t].x.to_dense()
    for e in graph.edge_types:
        saved[e].edge_index = graph[e].edge_index
    target = saved[task.target]
    target.y = task._labels
    for name, nodes in (("train", task.train.nodes), ("val", task.val.nodes), ("test", task.test_nodes)):
        target[f"{name}_mask"] = torch.zeros(len(task._labels), dtype=torch.bool).index_fill(0, nodes, True)
    torch.save(saved, tmp_path / "dblp.pt")
    assert_same(pyg.read(tmp_path / "dblp.pt"), (graph, task))
