"""Pickles of arrays are read; pickles that would run something are refused and run nothing."""

import io
import os
import pickle
import subprocess
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fastgtn.data.importers.pickles import safe_pickle
from fastgtn.errors import InputError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Reduce:
    """Pickles as a call of `function(*arguments)`: the classic exploit."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


def same(a: Any, b: Any) -> bool:
    if sp.issparse(a):
        return a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_matrices_and_containers_come_back(protocol: int) -> None:
    matrix = sp.random(6, 4, 0.4, format="csr", random_state=0)
    shared = np.arange(6).reshape(2, 3)
    value = {
        "ints": shared,
        "again": [shared, (shared, 1)],
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">i4"),
        "bool": np.array([True, False]),
        "text": np.array(["a", "bcd"]),
        "empty": np.zeros((0, 5), np.float32),
        "scalar": np.float32(2.5),
        "csr": matrix,
        "plain": [1, 2.5, None, "x", b"y", True, 10**30, {1, 2}, frozenset({3}), 1 + 2j],
        3: OrderedDict(a=1),
    }
    assert same(value, safe_pickle.loads(pickle.dumps(value, protocol)))


@pytest.mark.parametrize("layout", ["csr_matrix", "csc_matrix", "coo_matrix", "csr_array", "csc_array", "coo_array"])
def test_sparse_layouts_become_csr(layout: str) -> None:
    dense = np.array([[0, 2, 0], [1, 0, 3]])
    loaded = safe_pickle.loads(pickle.dumps(getattr(sp, layout)(dense)))
    assert loaded.format == "csr"
    assert np.array_equal(loaded.toarray(), dense)


def test_planetoid_graph_dictionary() -> None:
    graph = defaultdict(list, {0: [1, 2], 1: [0]})
    assert safe_pickle.loads(pickle.dumps(graph, 2)) == graph


def test_tensors_become_arrays() -> None:
    labels = torch.arange(6).reshape(2, 3)
    assert same(labels.T.numpy(), safe_pickle.loads(pickle.dumps(labels.T)))


@pytest.mark.parametrize("names", [(b"numpy._core", b"numpy.core"), (b"numpy.core", b"numpy._core")])
def test_arrays_of_older_and_newer_numpy(names: tuple[bytes, bytes]) -> None:
    data = pickle.dumps([np.arange(3), np.float64(1)], 2).replace(*names)
    assert same([np.arange(3), np.float64(1)], safe_pickle.loads(data))


def test_matrix_of_older_scipy() -> None:
    data = pickle.dumps(sp.identity(3, format="csr"), 2).replace(b"scipy.sparse._csr", b"scipy.sparse.csr")
    assert safe_pickle.loads(data).nnz == 3


def test_python_2_array_written_as_text() -> None:
    # The bytes which Python 2 writes for np.array([1, 200], dtype='<i2') at protocol 2: raw data as a str
    data = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87R"
        b"(K\x01K\x02\x85cnumpy\ndtype\nU\x02i2K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x04\x01\x00\xc8\x00tb."
    )
    assert same(np.array([1, 200], "<i2"), safe_pickle.loads(data))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("trick", ["system", "popen", "eval", "exec", "nested", "in_array", "open", "in_dict_key"])
def test_exploits_are_refused_and_run_nothing(trick: str, protocol: int, tmp_path: Path) -> None:
    proof = tmp_path / "it-ran"
    code = f"open({str(proof)!r}, 'w').close()"
    bomb = Reduce(os.system, f"touch {proof}")
    payload: Any = {
        "system": bomb,
        "popen": Reduce(subprocess.Popen, ["touch", str(proof)]),
        "eval": Reduce(eval, code),
        "exec": Reduce(exec, code),
        "nested": [1, {"x": (np.arange(3), [Reduce(getattr, bomb, "real")])}],
        "in_array": np.array([1, bomb], dtype=object),
        "open": Reduce(open, str(proof), "w"),
        "in_dict_key": {(1, bomb): 2},
    }[trick]
    with pytest.raises(InputError, match=r"the pickle (refers to|contains an array of dtype)"):
        safe_pickle.loads(pickle.dumps(payload, protocol))
    assert not proof.exists()


def test_the_exploit_used_above_is_a_real_one(tmp_path: Path) -> None:
    proof = tmp_path / "it-ran"
    pickle.loads(pickle.dumps(Reduce(os.system, f"touch {proof}")))
    assert proof.exists()


HOSTILE_NAMES = [
    (b"builtins", b"getattr"),
    (b"builtins", b"eval"),
    (b"builtins", b"__import__"),
    (b"builtins", b"object.__subclasses__"),
    (b"numpy", b"ndarray.tofile"),
    (b"numpy", b"load"),
    (b"numpy", b"f2py.os.system"),
    (b"numpy.core.multiarray", b"_reconstruct.__globals__"),
    (b"scipy.sparse", b"csr_matrix.__init__"),
    (b"torch", b"load"),
    (b"torch.hub", b"load"),
    (b"collections", b"namedtuple"),
    (b"copyreg", b"__newobj_ex__"),
    (b"_codecs", b"lookup"),
    (b"posix", b"system"),
]


@pytest.mark.parametrize(("module", "name"), HOSTILE_NAMES)
def test_names_outside_the_list_are_refused_also_when_dotted(module: bytes, name: bytes) -> None:
    stack_global = b"\x80\x04\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name + b"\x93."
    for data in (b"\x80\x02c" + module + b"\n" + name + b"\n.", stack_global):
        with pytest.raises(InputError, match="the pickle refers to"):
            safe_pickle.loads(data)


HOSTILE_BYTES = {
    "a function's attributes are not written": (
        b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.",
        "change a function",
    ),
    "foreign encodings": (
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.",
        "encodes text",
    ),
    "a dictionary that calls a factory": (
        b"\x80\x02ccollections\ndefaultdict\ncbuiltins\nset\n\x85R.",
        "defaultdict",
    ),
    "foreign object through copyreg": (
        b"\x80\x02ccopyreg\n_reconstructor\ncbuiltins\nset\ncbuiltins\nobject\nN\x87R.",
        "not a sparse",
    ),
    "persistent ids": (b"\x80\x02Pfile\n.", "PERSID"),
    "memo numbers that take memory": (b"\x80\x02Nr\xff\xff\xff\x7f.", "LONG_BINPUT"),
    "sizes without bytes": (
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"x.",
        "not a readable pickle",
    ),
    "a bare function": (b"\x80\x02c_codecs\nencode\n.", "contains a Function; only numbers, text"),
    "a matrix without arrays": (b"\x80\x02cscipy.sparse\ncsr_matrix\n)\x81}b.", "without its arrays"),
    "an array without numbers": (b"\x80\x02cnumpy\nndarray\n)\x81.", "without numbers"),
    "not a pickle": (b"PK\x03\x04", "not a readable pickle"),
    "nothing": (b"", "not a readable pickle"),
}


@pytest.mark.parametrize("case", HOSTILE_BYTES)
def test_hostile_bytes_are_refused(case: str) -> None:
    data, message = HOSTILE_BYTES[case]
    with pytest.raises(InputError, match=message):
        safe_pickle.loads(data)


def test_structured_and_object_arrays_are_refused() -> None:
    for array in (np.zeros(2, dtype=[("a", int)]), np.array([{}], dtype=object), np.zeros(2, "M8[s]")):
        with pytest.raises(InputError, match="only numbers and text"):
            safe_pickle.loads(pickle.dumps(array, 2))


def test_a_matrix_whose_columns_point_outside_is_refused() -> None:
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices = np.array([0, 1, 1_000_000], dtype=np.int32)
    with pytest.raises(InputError, match='"indices" must be between 0 and 2; found 0 … 1000000'):
        safe_pickle.loads(pickle.dumps(matrix))


def test_a_tensor_larger_than_its_storage_is_refused() -> None:
    with pytest.raises(InputError, match="without its numbers"):
        safe_pickle.loads(pickle.dumps(torch.zeros(1).expand(10**6, 10**6)))


def test_a_tensor_storage_is_not_a_back_door(tmp_path: Path) -> None:
    proof, buffer = tmp_path / "it-ran", io.BytesIO()
    torch.save(Reduce(os.system, f"touch {proof}"), buffer, _use_new_zipfile_serialization=False)
    inner = Reduce(torch.storage._load_from_bytes, buffer.getvalue())
    with pytest.raises(InputError, match=r"the pickle refers to (posix|nt)\.system"):
        safe_pickle.loads(pickle.dumps(inner))
    assert not proof.exists()


def test_shared_lists_are_visited_once() -> None:
    nested: list[Any] = [0]
    for _ in range(60):  # 2^60 leaves, 60 lists
        nested = [nested, nested]
    loaded = safe_pickle.loads(pickle.dumps(nested))
    assert loaded[0] is loaded[1]


def test_every_cut_of_a_good_pickle_is_refused() -> None:
    data = pickle.dumps([np.arange(5), sp.identity(3, format="csr"), {"a": [1, 2]}])
    for end in range(len(data)):
        with pytest.raises(InputError):
            safe_pickle.loads(data[:end])


def test_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "edges.pkl").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"edges\.pkl: not a readable pickle"):
        safe_pickle.load(tmp_path / "edges.pkl")
    with pytest.raises(InputError, match=r"labels\.pkl: no such file"):
        safe_pickle.load(tmp_path / "labels.pkl")
