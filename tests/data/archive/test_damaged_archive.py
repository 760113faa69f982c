"""Damaged, forged and hostile archives are refused in one line, before they take memory."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive
from fastgtn.data.archive.arrays import ArrayFile, write_arrays
from fastgtn.errors import InputError

Shop = tuple[HeteroData, NodeTask]


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
        ("format_version", np.array(99), "has format 99, but this fastgtn reads up to 1"),
        ("meta_json", np.array("[1]"), "must be one JSON object"),
        ("checksums_json", np.array('{"labels": "0"}'), '"labels" differs from its checksum'),
        ("checksums_json", np.array("nonsense"), "checksums cannot be read"),
    ],
)
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
        ({}, "contains no arrays"),
    ],
)
def test_forged_containers_are_refused_before_memory_is_taken(
    tmp_path: Path, members: dict[str, bytes], message: str
) -> None:
    _zip(tmp_path / "bad.npz", members)
    with pytest.raises(InputError, match=message):
        archive.read(tmp_path / "bad.npz")


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest sizes, but a thousand times smaller when packed: a graph is never so empty."""
    monkeypatch.setattr("fastgtn.data.archive.arrays.BOMB_BYTES", 1 << 20)
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
    with pytest.raises(InputError, match='"edge_0_indptr" is missing: the archive is damaged or was'):
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


def test_a_folder_archive_holds_no_links(shop: Shop, tmp_path: Path) -> None:
    archive.write(tmp_path / "g", *shop)
    archive.write(tmp_path / "other", *shop)
    name = next((tmp_path / "g").glob("*.npy")).name
    (tmp_path / "g" / name).unlink()
    (tmp_path / "g" / name).symlink_to(tmp_path / "other" / name)
    with pytest.raises(InputError, match=f"{name} is a symbolic link"):
        archive.read(tmp_path / "g")


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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
