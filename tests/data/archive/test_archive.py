"""The archive gives back what was stored, byte for byte the same each time, and keeps what is there."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive
from fastgtn.data.archive.arrays import ArrayFile, write_arrays
from fastgtn.errors import InputError
from fastgtn.leftovers import OLD_SECONDS, temporary_name

Shop = tuple[HeteroData, NodeTask]


def edges(graph: HeteroData, name: str) -> set[tuple[int, ...]]:
    store = next(graph[edge_type] for edge_type in graph.edge_types if edge_type[1] == name)
    columns = [*store.edge_index.tolist(), *([store.edge_weight.tolist()] if "edge_weight" in store else [])]
    return set(zip(*columns, strict=True))


@pytest.mark.parametrize("name", ["g.npz", "folder"])
def test_what_is_read_is_what_was_written(shop: Shop, tmp_path: Path, name: str) -> None:
    graph, task = shop
    archive.write(tmp_path / name, graph, task, meta={"note": "ü"}, planted={"path": "US"})
    copy, copied_task = archive.read(tmp_path / name)
    assert copy.name == "shop"
    assert copy.meta["note"] == "ü"
    assert copy.planted == {"path": "US"}
    assert not copy.shared_features
    assert copy.edge_types == graph.edge_types
    for relation in ("visits", "visited_by"):
        assert edges(copy, relation) == edges(graph, relation)
    assert torch.equal(copy["user"].x.to_dense(), graph["user"].x.to_dense())
    assert copy["user"].x.layout == torch.sparse_csr
    assert torch.equal(copy["shop"].x, graph["shop"].x)
    assert copy["user"].node_id.tolist() == ["ann", "bob", "çelik", "dan"]
    assert copy["shop"].node_id.tolist() == [70, 80, 90]
    assert copy["shop"].node_name.tolist() == ["baker", "butcher", "bank"]
    assert copied_task is not None
    assert copied_task.class_names == ("old", "young")
    assert copied_task.train.nodes.tolist() == [1, 0]
    assert copied_task.train.labels.tolist() == [1, 0]
    assert copied_task.score_test(torch.tensor([[0.0, 1.0]]))["accuracy"] == 1


def test_same_graph_same_bytes_whatever_the_order_of_its_edges(shop: Shop, tmp_path: Path) -> None:
    graph, task = shop
    archive.write(tmp_path / "a.npz", graph, task)
    for store in graph.edge_stores:
        order = torch.randperm(store.edge_index.size(1))
        store.edge_index = store.edge_index[:, order]
        if "edge_weight" in store:
            store.edge_weight = store.edge_weight[order]
    archive.write(tmp_path / "b.npz", graph, task)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_checksum_is_of_the_content_not_of_the_container(shop: Shop, tmp_path: Path) -> None:
    graph, task = shop
    archive.write(tmp_path / "a.npz", graph, task)
    archive.write(tmp_path / "folder", graph, task)
    assert archive.checksum(tmp_path / "a.npz") == archive.checksum(tmp_path / "folder")
    assert archive.checksum(tmp_path / "a.npz") == archive.content_checksum(graph, task)
    graph["shop"].x[0, 0] += 1
    assert archive.content_checksum(graph, task) != archive.checksum(tmp_path / "a.npz")


def test_folder_features_are_mapped_not_copied(shop: Shop, tmp_path: Path) -> None:
    graph, task = shop
    graph["shop"].x = graph["shop"].x.half()
    archive.write(tmp_path / "folder", graph, task)
    assert isinstance(ArrayFile(tmp_path / "folder")["feat_shop_dense"], np.memmap)
    assert archive.read(tmp_path / "folder")[0]["shop"].x.dtype == torch.float32
    assert archive.read(tmp_path / "folder", half=True)[0]["shop"].x.dtype == torch.float16


def test_large_archives_stay_mapped_and_in_half_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = HeteroData()
    graph.name, graph.shared_features = "g", True
    for node_type, count in {"a": 3, "b": 5}.items():
        graph[node_type].num_nodes, graph[node_type].x = count, torch.randn(count, 4).half()
    archive.write(tmp_path / "folder", graph, None)
    assert archive.read(tmp_path / "folder")[0]["a"].x.dtype == torch.float32
    monkeypatch.setattr("fastgtn.data.archive.file.VERIFIED_BYTES", 10)
    copy, _ = archive.read(tmp_path / "folder")
    for node_type in ("a", "b"):
        assert copy[node_type].x.dtype == torch.float16
        assert copy[node_type].x.equal(graph[node_type].x)
    assert copy["b"].x.data_ptr() - copy["a"].x.data_ptr() == 3 * 4 * 2  # two parts of one matrix


def test_years_of_nodes_are_kept(shop: Shop, tmp_path: Path) -> None:
    graph, task = shop
    graph["shop"].year = torch.arange(1990, 1990 + graph["shop"].num_nodes)
    archive.write(tmp_path / "a.npz", graph, task)
    assert archive.read(tmp_path / "a.npz")[0]["shop"].year.equal(graph["shop"].year)
    arrays = dict(ArrayFile(tmp_path / "a.npz")) | {"node_years_shop": np.array([1, 2, 3, 4, 5, 6, 7])}
    write_arrays(tmp_path / "b.npz", {k: a for k, a in arrays.items() if k != "checksums_json"})
    with pytest.raises(InputError, match='"node_years_shop" must be whole numbers of shape'):
        archive.read(tmp_path / "b.npz")


def test_shared_features_stay_one_matrix(tmp_path: Path) -> None:
    graph = HeteroData()
    graph.name, graph.shared_features = "g", True
    for node_type, rows in {"a": [[1.0, 0.0]], "b": [[0.0, 0.0], [0.0, 3.0]]}.items():
        graph[node_type].num_nodes, graph[node_type].x = len(rows), torch.tensor(rows).to_sparse_csr()
    graph["a", "ab", "b"].edge_index = torch.tensor([[0], [1]])
    archive.write(tmp_path / "g.npz", graph, None)
    assert ArrayFile(tmp_path / "g.npz")["feat_shape"].tolist() == [3, 2]
    copy, task = archive.read(tmp_path / "g.npz")
    assert task is None
    assert copy.shared_features
    assert copy["b"].x.to_dense().tolist() == [[0, 0], [0, 3]]


def test_node_numbers_need_not_be_blocked_by_type(tmp_path: Path) -> None:
    """Nodes b a b a; the edge from node 3 (the second a) to node 0 (the first b); labels on the a nodes."""
    arrays = {
        "num_nodes": np.array(4),
        "node_type": np.array([1, 0, 1, 0]),
        "node_type_names": np.array(["a", "b"]),
        "edge_names": np.array(["ab"]),
        "edge_src_type": np.array(["a"]),
        "edge_dst_type": np.array(["b"]),
        "edge_0_indptr": np.array([0, 0, 0, 0, 1]),
        "edge_0_indices": np.array([0]),
        "feat_dense": np.arange(4, dtype=np.float32)[:, None],
        "labels": np.array([-1, 0, -1, 1]),
        "train_idx": np.array([3, 1]),
        "test_idx": np.array([], np.int64),
    }
    write_arrays(tmp_path / "g.npz", arrays)
    graph, task = archive.read(tmp_path / "g.npz", val_fraction=0)
    assert graph["a", "ab", "b"].edge_index.tolist() == [[1], [0]]
    assert graph["a"].x.tolist() == [[1], [3]]
    assert graph["a"].node_id.tolist() == [1, 3]
    assert task is not None
    assert task.target == "a"
    assert task.train.labels[task.train.nodes == 1].tolist() == [1]


def test_a_drawn_validation_split_is_not_stored(shop: Shop, tmp_path: Path) -> None:
    graph, _ = shop
    nodes = torch.arange(4)
    drawn = NodeTask.from_labels(
        "user", "single", torch.tensor([0, 1, 0, 1]), train=nodes, test=nodes[:0], val_fraction=0.5
    )
    archive.write(tmp_path / "g.npz", graph, drawn)
    assert "val_idx" not in ArrayFile(tmp_path / "g.npz")
    _, task = archive.read(tmp_path / "g.npz", val_fraction=0.5, seed=3)
    assert task is not None
    assert sorted([*task.train.nodes.tolist(), *task.val.nodes.tolist()]) == [0, 1, 2, 3]


def test_several_labels_survive(shop: Shop, tmp_path: Path) -> None:
    graph, _ = shop
    labels = torch.randint(2, (4, 11), generator=torch.Generator().manual_seed(0)).float()
    task = NodeTask.from_labels(
        "user", "multi", labels, train=torch.tensor([0, 1]), val=torch.tensor([2]), test=torch.tensor([3])
    )
    archive.write(tmp_path / "g.npz", graph, task)
    _, copy = archive.read(tmp_path / "g.npz")
    assert copy is not None
    assert copy.kind == "multi"
    assert torch.equal(copy.train.labels, labels[:2])


def test_existing_files_are_kept_unless_told(shop: Shop, tmp_path: Path) -> None:
    archive.write(tmp_path / "g.npz", *shop)
    with pytest.raises(InputError, match=r"already exists.*--force"):
        archive.write(tmp_path / "g.npz", *shop)
    archive.write(tmp_path / "g.npz", *shop, overwrite=True)
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        archive.write(tmp_path / "no" / "g.npz", *shop)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="not a graph archive, so it is not overwritten"):
        archive.write(tmp_path / "mine", *shop, overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    archive.write(tmp_path / "folder", *shop)
    archive.write(tmp_path / "folder", *shop, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "g.npz", "mine"]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float64, torch.bfloat16])
def test_features_of_any_type_are_stored_as_float32(shop: Shop, tmp_path: Path, dtype: torch.dtype) -> None:
    graph, task = shop
    expected = {t: graph[t].x.to_dense().to(dtype).float() for t in graph.node_types}
    graph["shop"].x, graph["user"].x = graph["shop"].x.to(dtype), graph["user"].x.to(dtype)
    archive.write(tmp_path / "g.npz", graph, task)
    copy, _ = archive.read(tmp_path / "g.npz")
    for node_type, x in expected.items():
        assert copy[node_type].x.dtype == torch.float32
        assert torch.equal(copy[node_type].x.to_dense(), x)


def _nan(graph: HeteroData) -> None:
    graph["shop"].x[0, 0] = float("nan")


def _too_large(graph: HeteroData) -> None:
    graph["shop"].x = torch.full((3, 1), 1e300, dtype=torch.float64)  # infinite as float32


def _complex(graph: HeteroData) -> None:
    graph["shop"].x = torch.ones(3, 1, dtype=torch.complex64)


def _far_edge(graph: HeteroData) -> None:
    graph["user", "visits", "shop"].edge_index[1, 0] = 7


def _bad_name(graph: HeteroData) -> None:
    graph["user", "../../evil", "shop"].edge_index = torch.zeros(2, 0, dtype=torch.int64)


def _short_ids(graph: HeteroData) -> None:
    graph["user"].node_id = np.array(["ann"])


def _long_ids(graph: HeteroData) -> None:
    graph["user"].node_id = np.array(["a" * 1000, "b", "c", "d"])


def _wide_shared(graph: HeteroData) -> None:
    graph.shared_features = True


def _flat_features(graph: HeteroData) -> None:
    graph["shop"].x = torch.ones(3)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_nan, "NaN or infinite"),
        (_too_large, "NaN or infinite"),
        (_complex, "are torch.complex64"),
        (_far_edge, "nodes must lie in 0 … 2"),
        (_bad_name, "cannot be stored"),
        (_short_ids, "give one entry per node"),
        (_long_ids, "up to 1000 characters"),
        (_wide_shared, "one width on every node type"),
        (_flat_features, r"expected numbers \[3, width\]"),
    ],
)
def test_a_graph_that_cannot_be_stored_leaves_no_file(
    shop: Shop, tmp_path: Path, spoil: Callable[[HeteroData], None], message: str
) -> None:
    graph, task = shop
    spoil(graph)
    with pytest.raises(InputError, match=message):
        archive.write(tmp_path / "g.npz", graph, task)
    assert not list(tmp_path.iterdir())


def test_an_empty_graph_and_a_task_about_another_graph_are_refused(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no nodes"):
        archive.write(tmp_path / "g.npz", HeteroData(), None)
    other = HeteroData()
    other["gene"].num_nodes = 2
    with pytest.raises(InputError, match='target type of the task is "user" but the graph has gene'):
        archive.write(tmp_path / "g.npz", other, shop[1])


def age(path: Path) -> None:
    """As if the file had not changed for more than an hour."""
    os.utime(path, (path.stat().st_mtime - OLD_SECONDS - 1,) * 2)


def test_what_killed_writers_left_is_deleted_by_the_next_one(tmp_path: Path, shop: Shop) -> None:
    """Found by the soak: a killed `data build` left its half-written archive forever."""
    old, young = temporary_name(tmp_path / "g.npz"), temporary_name(tmp_path / "g.npz")
    old_folder, grows = temporary_name(tmp_path / "g"), temporary_name(tmp_path / "g")
    for folder in (old_folder, grows):
        folder.mkdir()
    for path in (old, young, old_folder / "x.npy", grows / "x.npy"):
        path.write_text("half")
    for path in (old, old_folder / "x.npy", old_folder, grows):
        age(path)
    archive.write(tmp_path / "g.npz", *shop)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([young.name, grows.name, "g.npz"])
