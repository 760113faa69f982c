"""Forged index arrays end in one clear error, whatever file they come from: compiled code never sees them."""

import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from fastgtn.data.importers import import_graph, mat, pyg
from fastgtn.data.importers.pickles import safe_pickle, torch_file
from fastgtn.data.index_arrays import checked_csr
from fastgtn.errors import InputError

ints = np.array
FORGED: dict[str, tuple[str, Any, Any, Any, tuple[Any, ...], str]] = {
    "column outside": ("csr", ints([1.0]), ints([3]), ints([0, 1]), (1, 3), "indices.* between 0 and 2"),
    "negative column": ("csr", ints([1.0]), ints([-1]), ints([0, 1]), (1, 3), "indices.* between 0 and 2"),
    "falling pointers": ("csc", ints([1.0, 1]), ints([0, 0]), ints([0, 2, 1, 2]), (3, 3), "must rise from 0 to the 2"),
    "pointers beyond the entries": ("csr", ints([1.0]), ints([0]), ints([0, 5]), (1, 1), "indptr.* between 0 and 1"),
    "pointers from one": ("csr", ints([1.0, 1]), ints([0, 0]), ints([1, 2]), (1, 1), "must rise from 0"),
    "too few pointers": ("csr", ints([1.0]), ints([0]), ints([0, 1]), (2, 1), r"shape \(3,\)"),
    "no pointers": ("csr", ints([]), ints([], int), ints([], int), (0, 1), r"shape \(1,\)"),
    "fractions as columns": ("csr", ints([1.0]), ints([0.0]), ints([0, 1]), (1, 1), "must be whole numbers"),
    "truths as columns": ("csr", ints([1.0]), ints([True]), ints([0, 1]), (1, 1), "must be whole numbers"),
    "row outside": ("coo", ints([1.0]), ints([2]), ints([0]), (2, 2), "row.* between 0 and 1"),
    "column outside of COO": ("coo", ints([1.0]), ints([0]), ints([2**62]), (2, 2), "col.* between 0 and 1"),
    "unsigned overflow": ("coo", ints([1.0]), ints([2**64 - 1], np.uint64), ints([0]), (2, 2), "row.* between"),
    "lengths differ": ("coo", ints([1.0, 2]), ints([0]), ints([0, 1]), (2, 2), r"shape \(2,\)"),
    "complex entries": ("coo", ints([1j]), ints([0]), ints([0]), (2, 2), "real numbers"),
    "a negative shape": ("coo", ints([1.0]), ints([0]), ints([0]), (-1, 2), "two whole numbers"),
    "three sides": ("coo", ints([1.0]), ints([0]), ints([0]), (1, 2, 3), "two whole numbers"),
    "a shape without bytes": ("coo", ints([1.0]), ints([0]), ints([0]), (10**9, 10**9), "far too small"),
    "rows without bytes": ("csc", ints([1.0]), ints([0]), ints([0, 1]), (10**12, 1), "far too small"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_matrices_are_refused(case: str) -> None:
    layout, data, first, second, shape, message = FORGED[case]
    with pytest.raises(InputError, match=f"it: the sparse matrix is damaged or forged: .*{message}"):
        checked_csr(layout, data, first, second, shape=shape, what="it")  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_the_arrays_hold_it_is_the_right_matrix_or_an_error(data: st.DataObject) -> None:
    numbers = st.lists(st.integers(-1, 4), max_size=5)
    layout = data.draw(st.sampled_from(["csr", "csc", "coo"]))
    first, second = data.draw(numbers), data.draw(numbers)
    values = np.arange(1.0, 1 + (len(first) if data.draw(st.booleans()) else len(second)))
    rows, columns = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    arrays = (values, np.array(first, np.int32), np.array(second, np.int64))
    try:
        matrix = checked_csr(layout, *arrays, shape=(rows, columns), what="it")
    except InputError:
        return
    dense = np.zeros((rows, columns))
    if layout == "coo":
        np.add.at(dense, (arrays[1], arrays[2]), values)
    else:
        major = np.repeat(np.arange(len(second) - 1), np.diff(second))
        ends = (major, first[: len(major)]) if layout == "csr" else (first[: len(major)], major)
        np.add.at(dense, ends, values[: len(major)])
    assert np.array_equal(matrix.toarray(), dense)


def test_pickled_matrices_are_checked() -> None:
    """scipy's own full check lets the second one pass."""
    matrix = sp.csc_matrix(np.eye(3))
    matrix.indices[0] = 7
    with pytest.raises(InputError, match="the pickle: the sparse matrix is damaged or forged"):
        safe_pickle.loads(pickle.dumps(matrix))
    matrix = sp.csc_matrix(np.eye(3))
    matrix.indptr[:] = [0, 3, 1, 3]
    with pytest.raises(InputError, match="must rise from 0 to the 3 entries"):
        safe_pickle.loads(pickle.dumps(matrix))
    huge = sp.coo_matrix(([1.0], ([0], [0])), shape=(2**31 - 1, 2**31 - 1))
    with pytest.raises(InputError, match="far too small"):
        safe_pickle.loads(pickle.dumps(huge))


def test_a_pickle_that_repeats_its_bytes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgtn.data.archive.arrays.BOMB_BYTES", 1 << 20)
    data = np.zeros(1 << 12)
    with pytest.raises(InputError, match=r"a pickle of 40,000 bytes that becomes over 8,.* bytes is refused"):
        safe_pickle.plain([data[:] for _ in range(300)], packed=40_000)
    shared = [data] * 300  # the same array, not the same bytes: it is built once
    assert len({id(array) for array in safe_pickle.plain(shared, packed=40_000)}) == 1


def sparse_mat(folder: Path, *, rows: Any, pointers: Any, shape: tuple[int, int] = (3, 3)) -> Path:
    """A MATLAB file whose sparse Network is exactly as wrong as asked; scipy would not write it."""
    good = sp.csc_matrix(np.eye(3))
    scipy.io.savemat(folder / "g.mat", {"Network": good, "Attributes": np.eye(3), "Label": [[1], [2], [1]]})
    data = (folder / "g.mat").read_bytes()
    for old, new in ((good.indices, rows), (good.indptr, pointers)):
        old_bytes, new_bytes = (np.asarray(a, "<i4").tobytes() for a in (old, new))
        assert data.count(old_bytes)
        data = data.replace(old_bytes, new_bytes, 1)
    data = data.replace(struct.pack("<IIii", 5, 8, 3, 3), struct.pack("<IIii", 5, 8, *shape), 1)
    (folder / "g.mat").write_bytes(data)
    return folder / "g.mat"


@pytest.mark.parametrize(
    ("rows", "pointers", "shape", "message"),
    [
        ([0, 1, 2**30], [0, 1, 2, 3], (3, 3), "Network: the sparse matrix is damaged or forged|not a readable MATLAB"),
        ([0, 1, -7], [0, 1, 2, 3], (3, 3), "Network: the sparse matrix is damaged or forged|not a readable MATLAB"),
        ([0, 1, 2], [0, 3, 1, 3], (3, 3), "Network: .*must rise"),
        ([0, 1, 2], [0, 1, 2, 3], (2**31 - 1, 3), "Network: .*far too small"),
    ],
)
def test_sparse_matlab_matrices_are_checked(
    tmp_path: Path, rows: list[int], pointers: list[int], shape: tuple[int, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        mat.read(sparse_mat(tmp_path, rows=rows, pointers=pointers, shape=shape))


def test_a_matlab_reader_that_crashes_or_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sparse_mat(tmp_path, rows=[0, 1, 2], pointers=[0, 1, 2, 3])
    assert (mat._variables(path)["Network"] != sp.identity(3)).nnz == 0
    script = tmp_path / "crash.py"
    monkeypatch.setattr(mat.mat_child, "__file__", str(script))
    script.write_text("import os\nos.abort()\n")
    with pytest.raises(InputError, match=r"g\.mat ended the process that reads it"):
        mat.read(path)
    script.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(mat, "_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"g\.mat took more than 0 seconds|took more than"):
        mat.read(path)


def saved(value: Any, *, old: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not old)
    return buffer.getvalue()


def forged_pt(path: Path, value: Any, member: str, content: bytes) -> Path:
    """A file of torch.save with the bytes of one storage replaced."""
    with zipfile.ZipFile(io.BytesIO(saved(value))) as good, zipfile.ZipFile(path, "w") as bad:
        for info in good.infolist():
            is_forged = info.filename.endswith(member)
            bad.writestr(info.filename, content if is_forged else good.read(info))
    return path


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_are_read_and_checked(tmp_path: Path, layout: str) -> None:
    x = getattr(torch.eye(3), layout)()
    path = tmp_path / "d.pt"
    path.write_bytes(saved(Data(x=x)))
    assert torch.equal(pyg.read(path)[0]["node"].x.to_dense(), torch.eye(3))
    member = "data/0" if layout == "to_sparse" else "data/1"
    with zipfile.ZipFile(path) as good:
        size = next(info.file_size for info in good.infolist() if info.filename.endswith(member))
    wrong = np.full(size // 8, 2**40).tobytes()
    with pytest.raises(InputError, match="the sparse matrix is damaged or forged"):
        pyg.read(forged_pt(path, Data(x=x), member, wrong))


def test_tensors_come_back_in_both_formats_of_torch(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    value = {
        "whole": base,
        "part": base[1:, ::2].T,
        "empty": torch.zeros(0, 3),
        "long": torch.arange(3),
        "bool": torch.tensor([True, False]),
        "half": base.half(),
        "parameter": torch.nn.Parameter(base),
        "number": torch.tensor(2.5),
        "size": torch.Size([2, 3]),
        "text": ["a", ("b", 1)],
    }
    for old in (False, True):
        path = tmp_path / f"{old}.pt"
        path.write_bytes(saved(value, old=old))
        loaded = torch_file.load(path)
        for key, expected in value.items():
            if isinstance(expected, torch.Tensor):
                assert np.array_equal(loaded[key], expected.detach().numpy()), key
            else:
                assert loaded[key] == expected
    path.write_bytes(saved(torch.tensor([1.5, -2]).bfloat16()))
    assert torch_file.load(path).tolist() == [1.5, -2]


def test_a_tensor_that_reaches_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.pt"
    with pytest.raises(InputError, match="a tensor of 4 numbers has 8 bytes"):
        pyg.read(forged_pt(path, Data(x=torch.zeros(2, 2)), "data/0", bytes(8)))
    path.write_bytes(saved(Data(x=torch.zeros(1).expand(10**5, 10**5))))
    with pytest.raises(InputError, match="without its numbers"):
        pyg.read(path)


def test_every_cut_of_a_torch_file_is_refused(tmp_path: Path) -> None:
    for old in (False, True):
        data = saved(Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]])), old=old)
        for end in range(0, len(data), 7):
            (tmp_path / "cut.pt").write_bytes(data[:end])
            with pytest.raises(InputError):
                import_graph("pyg", tmp_path / "cut.pt")
