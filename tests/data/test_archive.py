"""The archive gives back what was stored, byte for byte the same each time, and refuses what is damaged."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive
from fastgtn.data.arrays import ArrayFile, write_arrays
from fastgtn.errors import InputError

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
    monkeypatch.setattr(archive, "VERIFIED_BYTES", 10)
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
        "num_nodes": np.array(4), "node_type": np.array([1, 0, 1, 0]), "node_type_names": np.array(["a", "b"]),
        "edge_names": np.array(["ab"]), "edge_src_type": np.array(["a"]), "edge_dst_type": np.array(["b"]),
        "edge_0_indptr": np.array([0, 0, 0, 0, 1]), "edge_0_indices": np.array([0]),
        "feat_dense": np.arange(4, dtype=np.float32)[:, None],
        "labels": np.array([-1, 0, -1, 1]), "train_idx": np.array([3, 1]), "test_idx": np.array([], np.int64),
    }  # fmt: skip
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
    with pytest.raises(InputError, match=r"exists already.*--force"):
        archive.write(tmp_path / "g.npz", *shop)
    archive.write(tmp_path / "g.npz", *shop, overwrite=True)
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        archive.write(tmp_path / "no" / "g.npz", *shop)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="not a graph archive and is not overwritten"):
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
        (_nan, "NaN or infinite"), (_too_large, "NaN or infinite"), (_complex, "are torch.complex64"),
        (_far_edge, "edges to nodes outside 0 … 2"), (_bad_name, "cannot be stored"),
        (_short_ids, "need exactly that many"), (_long_ids, "up to 1000 characters"),
        (_wide_shared, "one width on every node type"), (_flat_features, r"expected numbers \[3, width\]"),
    ],
)  # fmt: skip
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
    with pytest.raises(InputError, match='task is about "user" but the graph has gene'):
        archive.write(tmp_path / "g.npz", other, shop[1])


@pytest.fixture
def stored(shop: Shop, tmp_path: Path) -> dict[str, np.ndarray]:
    """The arrays of a good archive, without checksums, to be spoiled."""
    archive.write(tmp_path / "good.npz", *shop)
    arrays = dict(ArrayFile(tmp_path / "good.npz"))
    del arrays["checksums_json"]
    return arrays


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_nodes", np.array(10**12), "node_type.*must be whole numbers of shape"),
        ("num_nodes", np.array(-5), "must be one whole number, at least 0, not -5"),
        ("num_nodes", np.array(3.5), r"must be one whole number, not 3.5 \(float64\)"),
        ("num_nodes", np.array([7]), r"must be one whole number, not an array of shape \(1,\)"),
        ("node_type", np.array([0, 0, 0, 0, 1, 1, 5], np.int8), "between 0 and 1; found 0 … 5"),
        ("node_type_names", np.array(["user", "user"]), "names a type twice"),
        ("node_type_names", np.array(["user", "../x"]), "cannot be stored"),
        ("node_type_names", np.array([1, 2]), "must be a list of names"),
        ("edge_src_type", np.array(["user"]), "must have the same length"),
        ("edge_src_type", np.array(["user", "shap"]), "unknown type, or stored twice"),
        ("edge_src_type", np.array(["shop", "shop"]), 'edges at nodes that are not of type "shop"'),
        ("edge_0_indptr", np.array([0, 9, 2, 3, 4, 5, 5, 5], np.int32), "between 0 and 5"),
        ("edge_0_indptr", np.array([0, 3, 2, 3, 4, 5, 5, 5], np.int32), "must rise from 0"),
        ("edge_0_indptr", np.array([0, 5], np.int32), "must be whole numbers of shape"),
        ("edge_0_indices", np.array([4, 5, 6, 6, 99], np.int32), "between 0 and 6; found 4 … 99"),
        ("edge_0_indices", np.array([4.0, 5, 6, 6, 6]), "must be whole numbers"),
        ("edge_0_indices", np.array([[4], [5]]), "must be lists"),
        ("edge_0_data", np.array([1, 2, 3, 4, np.nan], np.float32), "5 finite numbers"),
        ("feat_user_shape", np.array([5, 2]), "says 5 rows but there are 4 nodes"),
        ("feat_shop_dense", np.zeros((2, 2), np.float32), "must be 3 rows of floats"),
        ("labels", np.zeros(7), "must be 7 whole numbers"),
        ("labels", np.array([0, -1, 0, 1, -1, -1, -1]), "1 nodes of the train split have no label"),
        ("labels", np.array([0, 10**9, 0, 1, -1, -1, -1]), "classes but 2 are declared"),
        ("train_idx", np.array([0, 5]), 'not of the target type "user"'),
        ("train_idx", np.array([0, 3]), "shares one with another split"),
        ("train_idx", np.array([0, 70]), "between 0 and 6"),
        ("target_type", np.array("planet"), "unknown kind or node type"),
        ("task_kind", np.array("guess"), "unknown kind or node type"),
        ("node_ids_user", np.array([0.5, 1, 2, 3]), "4 texts or whole numbers"),
        ("node_ids_user", np.full(4, 0x110000, np.uint32).view("<U1"), "not text"),
        ("format_version", np.array(99), "has format 99, this fastgtn reads up to 1"),
        ("meta_json", np.array("[1]"), "must be one JSON object"),
        ("checksums_json", np.array('{"labels": "0"}'), '"labels" differs from its checksum'),
        ("checksums_json", np.array("nonsense"), "checksums cannot be read"),
    ],
)  # fmt: skip
def test_hostile_arrays_are_refused(
    stored: dict[str, np.ndarray], tmp_path: Path, name: str, value: np.ndarray, message: str
) -> None:
    write_arrays(tmp_path / "bad.npz", stored | {name: value})
    with pytest.raises(InputError, match=rf"(?s)bad\.npz: .*{message}"):
        archive.read(tmp_path / "bad.npz")


@pytest.mark.parametrize("name", ["num_nodes", "edge_names", "edge_1_indptr", "labels"])
def test_a_missing_array_is_named(stored: dict[str, np.ndarray], tmp_path: Path, name: str) -> None:
    del stored[name]
    write_arrays(tmp_path / "bad.npz", stored)
    with pytest.raises(InputError, match=f'array "{name}" is missing'):
        archive.read(tmp_path / "bad.npz")


def test_an_unbounded_number_of_classes_is_refused(stored: dict[str, np.ndarray], tmp_path: Path) -> None:
    del stored["class_names"]
    write_arrays(tmp_path / "bad.npz", stored | {"labels": np.array([0, 10**15, 0, 1, -1, -1, -1])})
    with pytest.raises(InputError, match="classes are too many"):
        archive.read(tmp_path / "bad.npz")


def _npy(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(2, "little") + text + data


def _zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.npy": _npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}")}, "truncated or forged"),
        ({"a.npy": _npy("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}")}, "truncated or forged"),
        ({"a.npy": _npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}", b"x" * 8)}, "objects are refused"),
        ({"a.npy": _npy("__import__('os').system('true')")}, "cannot be read"),
        ({"a.npy": _npy("{}", version=(2, 0))}, "version 1.0"),
        ({"a.npy": b"hello"}, "cannot be read"),
        ({"a.txt": b"hello"}, "is unexpected"),
        ({}, "holds no arrays"),
    ],
)  # fmt: skip
def test_forged_containers_are_refused_before_memory_is_taken(
    tmp_path: Path, members: dict[str, bytes], message: str
) -> None:
    _zip(tmp_path / "bad.npz", members)
    with pytest.raises(InputError, match=message):
        archive.read(tmp_path / "bad.npz")


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest sizes, but a thousand times smaller when packed: a graph is never so empty."""
    monkeypatch.setattr("fastgtn.data.arrays.BOMB_BYTES", 1 << 20)
    write_arrays(tmp_path / "bomb.npz", {"node_type": np.zeros(1 << 24, np.int8)})
    with pytest.raises(InputError, match="unpacks to 16,777,216 bytes is refused"):
        archive.read(tmp_path / "bomb.npz")


def test_more_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(tmp_path / "big.npz", {"node_type": np.arange(4096)})
    monkeypatch.setattr("os.sysconf", lambda _: 64)
    with pytest.raises(InputError, match="store a graph of this size as a folder"):
        archive.read(tmp_path / "big.npz")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no graph archive at"):
        archive.read(tmp_path / "g.npz")


def test_checksums_catch_a_changed_number(shop: Shop, tmp_path: Path) -> None:
    archive.write(tmp_path / "folder", *shop)
    labels = np.load(tmp_path / "folder" / "labels.npy")
    labels[0] = 1 - labels[0]
    np.save(tmp_path / "folder" / "labels.npy", labels)
    with pytest.raises(InputError, match='"labels" differs from its checksum'):
        archive.read(tmp_path / "folder")


def test_an_array_that_was_not_copied_is_missing(shop: Shop, tmp_path: Path) -> None:
    archive.write(tmp_path / "folder", *shop)
    (tmp_path / "folder" / "edge_0_indptr.npy").unlink()
    with pytest.raises(InputError, match='"edge_0_indptr" is missing: the archive was damaged, or copied only in part'):
        archive.read(tmp_path / "folder")


def test_a_damaged_array_names_the_file_once(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    noise = np.random.default_rng(0).bytes(50_000).hex()  # so long that reading its header does not find the damage
    archive.write(path, *shop, meta={"noise": noise})
    with zipfile.ZipFile(path) as file:
        entry = file.getinfo("meta_json.npy")
    data = bytearray(path.read_bytes())
    end_of_member = entry.header_offset + 30 + len(entry.filename) + entry.compress_size
    data[end_of_member - 3] ^= 0xFF
    path.write_bytes(data)
    for read in (archive.read, archive.checksum):
        with pytest.raises(InputError, match='array "meta_json" cannot be read') as error:
            read(path)
        assert str(error.value).startswith(f"{path}: ")
        assert str(error.value).count(str(path)) == 1


def test_every_array_has_a_checksum(shop: Shop, tmp_path: Path) -> None:
    archive.write(tmp_path / "g.npz", *shop)
    file = ArrayFile(tmp_path / "g.npz")
    assert set(json.loads(str(file["checksums_json"]))) == set(file) - {"checksums_json"}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_gets_through_as_another_exception(shop: Shop, tmp_path: Path, data: st.DataObject) -> None:
    """Cut the file anywhere, or change any byte: it is refused, or reads as the same graph."""
    path = tmp_path / "g.npz"
    archive.write(path, *shop, overwrite=True)
    whole, content = path.read_bytes(), archive.checksum(path)
    position = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        damaged = whole[:position]
    else:
        damaged = whole[:position] + bytes([whole[position] ^ data.draw(st.integers(1, 255))]) + whole[position + 1 :]
    path.write_bytes(damaged)
    try:
        archive.read(path)
    except InputError:
        return
    assert archive.checksum(path) == content
