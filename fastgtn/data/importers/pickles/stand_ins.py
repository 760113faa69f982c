"""Stand-ins for the names in a pickle: classes that keep bytes and functions that check them."""

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from fastgtn.data.index_arrays import Layout
from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


class DTypeState:
    """Stand-in of numpy.dtype: a kind and a width, no fields, no objects."""

    def __init__(self, code: str, *_flags: object) -> None:
        if not isinstance(code, str) or code[:1] not in "biufcSU" or not code[1:].isdigit():
            raise InputError(
                f"the pickle contains an array of dtype {code!r}; only numbers and text are read. "
                "Save it as plain numeric arrays (arr.astype(float))."
            )
        self.value = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order, subarray, names, fields = state[1:5]
        if order not in ("<", ">", "|", "=") or (subarray, names, fields) != (None, None, None):
            raise InputError("the pickle contains a structured array; only arrays of numbers or text are read")
        self.value = self.value.newbyteorder(order)


class ArrayState:
    """Stand-in of numpy.ndarray: filled by its state, turned into an array when that is complete."""

    value: Array | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, is_fortran, raw = state[-4:]
        self.value = _array(raw, dtype, shape, "F" if is_fortran else "C")


class SparseState:
    """Stand-in of the scipy.sparse classes: keeps the state, whose entries are checked on rebuilding."""

    layout: Layout = "csr"
    state: dict[str, Any] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict):
            raise InputError("the pickle contains a sparse matrix without arrays")
        self.state = state


class CSCState(SparseState):
    layout = "csc"


class COOState(SparseState):
    layout = "coo"


class SparseTensor:
    """Stand-in of a sparse tensor: its layout and its parts, which are checked on rebuilding."""

    def __init__(self, layout: object, parts: object) -> None:
        known = {"torch.sparse_coo": 4, "torch.sparse_csr": 4, "torch.sparse_csc": 4}
        if layout not in known or not isinstance(parts, tuple) or len(parts) not in (3, 4):
            raise InputError(f"the pickle contains a tensor of the layout {layout!r}, which is not read")
        self.layout, self.parts = str(layout), parts


class GraphState:
    """Stand-in of PyG's data classes and of their stores: keeps the state."""

    parts: tuple[str, ...] = ()
    state: dict[str, Any] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict):
            raise InputError("the pickle contains a graph without its parts")
        self.state = state


class StoreState(GraphState):
    parts = ("_mapping",)


class DataState(GraphState):
    parts = ("_store",)


class HeteroDataState(GraphState):
    parts = ("_global_store", "_node_store_dict", "_edge_store_dict")


class StorageType:
    """Stand-in of a class such as torch.FloatStorage: the type of its numbers."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str) -> None:
        self.name, self.dtype = name, np.dtype(STORAGE_DTYPES[name])

    def __setstate__(self, state: object) -> NoReturn:
        raise InputError("the pickle tries to change a type")


STORAGE_DTYPES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",  # numpy has no bfloat16: the bits are widened after reading
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


def _array(raw: object, dtype: object, shape: object, order: object) -> Array:
    """Numbers from bytes; the size must match shape and dtype."""
    if isinstance(raw, str):
        raw = raw.encode("latin1")  # Python 2 wrote bytes as text
    if not isinstance(raw, bytes | bytearray) or not isinstance(dtype, DTypeState) or not isinstance(shape, tuple):
        raise InputError("the pickle contains an array of Python objects; only numbers and text are read")
    # a view: copies are counted when the values are rebuilt, because a pickle may share few bytes among many arrays
    return np.frombuffer(raw, dtype.value).reshape(shape, order="F" if order == "F" else "C")


def _scalar(dtype: object, raw: object) -> Any:
    return _array(raw, dtype, (1,), "C")[0]


def _reconstruct(*_arguments: object) -> ArrayState:
    return ArrayState()


def _new_object(cls: object, *_arguments: object) -> SparseState:
    if not (isinstance(cls, type) and issubclass(cls, SparseState)):
        raise InputError("the pickle builds an object that is not a sparse matrix")
    return cls()


def _encode(text: object, encoding: object = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise InputError("the pickle encodes text in a way that array files do not use")
    return text.encode("latin1")


def _empty_bytes() -> bytes:
    return b""  # bytes(10**12) would take memory; older protocols write only the empty one this way


def _default_dict(factory: object = None, *rest: object) -> "defaultdict[Any, Any]":
    if factory is not list or rest:
        raise InputError("the pickle contains a defaultdict that is not a defaultdict(list)")
    return defaultdict(list)


def _tensor_bytes(raw: object) -> Array:
    """The storage of a pickled tensor is a whole file of torch.save."""
    from fastgtn.data.importers.pickles.torch_file import read_legacy

    if not isinstance(raw, bytes | bytearray):
        raise InputError("the pickle contains a tensor without bytes")
    storage = read_legacy(bytes(raw))
    if not isinstance(storage, np.ndarray):
        raise InputError("the pickle contains a tensor without numbers")
    return storage


def _tensor(storage: object, offset: object, size: object, stride: object, *_rest: object) -> Array:
    """A view of a storage, after its bounds were checked: numpy trusts strides."""
    if not isinstance(storage, np.ndarray) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise InputError("the pickle contains a tensor without its numbers")
    numbers = [offset, *size, *stride]
    if len(size) != len(stride) or any(not isinstance(n, int) or n < 0 for n in numbers) or storage.ndim != 1:
        raise InputError(f"the pickle contains a tensor of an impossible shape: {size!r}, strides {stride!r}")
    assert isinstance(offset, int)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) > len(storage) or (math.prod(size) and last >= len(storage)):
        raise InputError("the pickle contains a tensor without its numbers")  # repeated by stride 0 it could be huge
    if not math.prod(size):
        return np.zeros(size, storage.dtype)
    width = storage.dtype.itemsize
    return np.lib.stride_tricks.as_strided(storage[offset:], size, tuple(n * width for n in stride), writeable=False)


def _parameter(values: object, *_rest: object) -> object:
    return values


def _sparse_tensor(layout: object, parts: object, *_rest: object) -> SparseTensor:
    return SparseTensor(layout, parts)


def _layout(name: object) -> object:
    return name


def _size(numbers: object = ()) -> tuple[Any, ...]:
    if not isinstance(numbers, tuple | list):
        raise InputError("the pickle contains a size that is not a list of numbers")
    return tuple(numbers)


class Function:
    """A function that a pickle may call but whose attributes it cannot change."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __setstate__(self, state: object) -> NoReturn:
        raise InputError("the pickle tries to change a function")


ALLOWED: dict[tuple[str, str], Any] = {
    ("copyreg", "_reconstructor"): Function(_new_object),
    ("copy_reg", "_reconstructor"): Function(_new_object),
    ("_codecs", "encode"): Function(_encode),
    ("collections", "defaultdict"): Function(_default_dict),
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): DTypeState,
    ("numpy", "ndarray"): ArrayState,
    ("torch._utils", "_rebuild_tensor_v2"): Function(_tensor),
    ("torch.storage", "_load_from_bytes"): Function(_tensor_bytes),
}
for _core in ("numpy.core", "numpy._core"):  # the names before and after numpy 2
    ALLOWED[_core + ".multiarray", "_reconstruct"] = Function(_reconstruct)
    ALLOWED[_core + ".multiarray", "scalar"] = Function(_scalar)
    ALLOWED[_core + ".numeric", "_frombuffer"] = Function(_array)
for _builtins in ("builtins", "__builtin__"):
    for _cls in (list, object, set, frozenset, complex):  # list for defaultdict(list), object for _reconstructor
        ALLOWED[_builtins, _cls.__name__] = _cls
    ALLOWED[_builtins, "bytes"] = Function(_empty_bytes)
for _stand_in in (SparseState, CSCState, COOState):
    _format = _stand_in.layout
    for _module in ("scipy.sparse", f"scipy.sparse.{_format}", f"scipy.sparse._{_format}"):
        ALLOWED[_module, f"{_format}_matrix"] = ALLOWED[_module, f"{_format}_array"] = _stand_in

TORCH_NAMES: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_sparse_tensor"): Function(_sparse_tensor),
    ("torch._utils", "_rebuild_parameter"): Function(_parameter),
    ("torch.serialization", "_get_layout"): Function(_layout),
    ("torch", "Size"): Function(_size),
    ("torch_geometric.data.data", "Data"): DataState,
    ("torch_geometric.data.hetero_data", "HeteroData"): HeteroDataState,
    **{("torch", name): StorageType(name) for name in STORAGE_DTYPES},
    **{("torch_geometric.data.storage", f"{name}Storage"): StoreState for name in ("Base", "Global", "Node", "Edge")},
    **{("torch_geometric.data.data", name): GraphState for name in ("DataEdgeAttr", "DataTensorAttr")},
    ("torch_geometric.data.graph_store", "EdgeAttr"): GraphState,
    ("torch_geometric.data.feature_store", "TensorAttr"): GraphState,
}
