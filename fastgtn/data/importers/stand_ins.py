"""What a pickle gets for the names it asks for: classes that keep bytes, functions that check them."""

import io
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


class DTypeState:
    """Stand-in of numpy.dtype: a kind and a width, no fields, no objects."""

    def __init__(self, code: str, *_flags: object) -> None:
        if not isinstance(code, str) or code[:1] not in "biufcSU" or not code[1:].isdigit():
            raise InputError(
                f"the pickle holds an array of dtype {code!r}; only numbers and text are read. "
                "Save it as plain numeric arrays (arr.astype(float))."
            )
        self.value = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order, subarray, names, fields = state[1:5]
        if order not in ("<", ">", "|", "=") or (subarray, names, fields) != (None, None, None):
            raise InputError("the pickle holds a structured array; only arrays of numbers or text are read")
        self.value = self.value.newbyteorder(order)


class ArrayState:
    """Stand-in of numpy.ndarray: filled by its state, turned into an array when that is complete."""

    value: Array | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, is_fortran, raw = state[-4:]
        self.value = _array(raw, dtype, shape, "F" if is_fortran else "C")


class SparseState:
    """Stand-in of the scipy.sparse classes: keeps the state, whose entries are checked on rebuilding."""

    layout = "csr"
    state: dict[str, Any] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict):
            raise InputError("the pickle holds a sparse matrix without arrays")
        self.state = state


class CSCState(SparseState):
    layout = "csc"


class COOState(SparseState):
    layout = "coo"


def _array(raw: object, dtype: object, shape: object, order: object) -> Array:
    """Numbers from bytes: the size must be what shape and dtype promise."""
    if isinstance(raw, str):
        raw = raw.encode("latin1")  # Python 2 wrote bytes as text
    if not isinstance(raw, bytes | bytearray) or not isinstance(dtype, DTypeState) or not isinstance(shape, tuple):
        raise InputError("the pickle holds an array of Python objects; only numbers and text are read")
    values = np.frombuffer(bytes(raw), dtype.value)
    return values.reshape(shape, order="F" if order == "F" else "C").copy(order="K")


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
        raise InputError("the pickle encodes text in a way that no array file needs")
    return text.encode("latin1")


def _empty_bytes() -> bytes:
    return b""  # bytes(10**12) would take memory; older protocols write only the empty one this way


def _default_dict(factory: object = None, *rest: object) -> "defaultdict[Any, Any]":
    if factory is not list or rest:
        raise InputError("the pickle holds a defaultdict that is not a defaultdict(list)")
    return defaultdict(list)


def _tensor_bytes(raw: object) -> torch.Tensor:
    """The storage of a tensor is a torch.save file inside the pickle; torch reads it with weights_only."""
    if not isinstance(raw, bytes | bytearray):
        raise InputError("the pickle holds a tensor without bytes")
    storage = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    return torch.tensor([], dtype=storage.dtype).set_(storage)


def _tensor(storage: object, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_rest: object) -> Any:
    if not isinstance(storage, torch.Tensor) or math.prod(size) > storage.numel():
        raise InputError("the pickle holds a tensor without its numbers")  # repeated by stride 0 it could be huge
    return torch.as_strided(storage, size, stride, offset).numpy().copy()  # as_strided checks the bounds


class _Call:
    """A function that a pickle may call, and may not write to as it may to a bare function's attributes."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __setstate__(self, state: object) -> NoReturn:
        raise InputError("the pickle tries to change a function")


ALLOWED: dict[tuple[str, str], Any] = {
    ("copyreg", "_reconstructor"): _Call(_new_object),
    ("copy_reg", "_reconstructor"): _Call(_new_object),
    ("_codecs", "encode"): _Call(_encode),
    ("collections", "defaultdict"): _Call(_default_dict),
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): DTypeState,
    ("numpy", "ndarray"): ArrayState,
    ("torch._utils", "_rebuild_tensor_v2"): _Call(_tensor),
    ("torch.storage", "_load_from_bytes"): _Call(_tensor_bytes),
}
for _core in ("numpy.core", "numpy._core"):  # before and since numpy 2
    ALLOWED[_core + ".multiarray", "_reconstruct"] = _Call(_reconstruct)
    ALLOWED[_core + ".multiarray", "scalar"] = _Call(_scalar)
    ALLOWED[_core + ".numeric", "_frombuffer"] = _Call(_array)
for _builtins in ("builtins", "__builtin__"):
    for _cls in (
        list,
        object,
        set,
        frozenset,
        complex,
    ):  # list for defaultdict(list), object for _reconstructor
        ALLOWED[_builtins, _cls.__name__] = _cls
    ALLOWED[_builtins, "bytes"] = _Call(_empty_bytes)
for _stand_in in (SparseState, CSCState, COOState):
    _format = _stand_in.layout
    for _module in ("scipy.sparse", f"scipy.sparse.{_format}", f"scipy.sparse._{_format}"):
        ALLOWED[_module, f"{_format}_matrix"] = ALLOWED[_module, f"{_format}_array"] = _stand_in
