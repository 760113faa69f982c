"""Read a pickle of numbers without running it.

Nothing that a pickle names is ever imported. The few names that numpy, scipy.sparse and torch write are
answered with stand-ins, which only collect bytes; the numbers are rebuilt from those bytes and checked.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fastgtn.data.importers.stand_ins import ALLOWED, ArrayState, SparseState
from fastgtn.errors import InputError


def load(path: Path, *, encoding: str = "latin1") -> Any:
    """Read plain containers, numpy arrays, scipy.sparse matrices and torch tensors; refuse everything else.

    Args:
        encoding: How text of Python 2 pickles is decoded; "latin1" keeps the raw bytes of its arrays intact.
    """
    try:
        return loads(path.read_bytes(), encoding=encoding)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: no such file ({error.strerror})") from None


def loads(data: bytes, *, encoding: str = "latin1") -> Any:
    """As :func:`load`, from bytes."""
    try:
        _check_opcodes(data)
        return _Rebuild().value(_Unpickler(io.BytesIO(data), encoding=encoding).load())
    except InputError:
        raise
    except RecursionError:
        raise InputError("the pickle is nested too deeply to be a table of numbers") from None
    except Exception as error:  # a broken or hostile pickle may fail in any way; it has run nothing of its own
        raise InputError(f"not a readable pickle of arrays ({type(error).__name__}: {error})") from None


def _check_opcodes(data: bytes) -> None:
    """Refuse what takes memory by a promise (sizes, memo numbers) before anything is loaded."""
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _FORBIDDEN_OPCODES:
            raise InputError(f"the pickle uses {opcode.name}, which no array file needs; it was not loaded")
        if opcode.name in _COUNTED_OPCODES and argument is not None and int(argument) > len(data):
            raise InputError(f"the pickle is truncated or hostile: {opcode.name} {argument} in {len(data)} bytes")


MAX_ROWS = 1 << 27  # an index of so many rows is one gigabyte
_FORBIDDEN_OPCODES = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "INST", "OBJ"}
_COUNTED_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT", "FRAME"}


class _Unpickler(pickle.Unpickler):
    """Answers the names of the list above and refuses all others; nothing is imported."""

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise InputError(
                f"the pickle asks for {module}.{name}; only numpy arrays, scipy.sparse matrices, tensors "
                "and plain containers are read, and nothing was run. Convert it where you trust it."
            ) from None


class _Rebuild:
    """Turn stand-ins into arrays, each shared object once (nested sharing would grow without bound)."""

    def __init__(self) -> None:
        self.done: dict[int, Any] = {}

    def value(self, item: Any) -> Any:
        if isinstance(item, int | float | complex | str | bytes | bytearray | np.ndarray | np.generic) or item is None:
            return item
        if id(item) not in self.done:
            self.done[id(item)] = self._rebuild(item)
        return self.done[id(item)]

    def _rebuild(self, item: Any) -> Any:
        if isinstance(item, ArrayState):
            if item.value is None:
                raise InputError("the pickle holds an array without numbers")
            return item.value
        if isinstance(item, SparseState):
            return self._sparse(item)
        if isinstance(item, dict):
            if any(not isinstance(key, int | float | str | bytes | tuple | np.generic) for key in item):
                raise InputError("the pickle holds a dictionary whose keys are not numbers or text")
            return {key: self.value(value) for key, value in item.items()}
        if isinstance(item, list | tuple | set | frozenset):
            return type(item)(self.value(value) for value in item)
        raise InputError(f"the pickle holds a {type(item).__name__}; only numbers, text and containers are read")

    def _sparse(self, item: SparseState) -> sp.csr_matrix:
        state = {key: self.value(value) for key, value in (item.state or {}).items()}
        shape = state.get("_shape", state.get("shape"))
        parts = ("data", "row", "col") if item.layout == "coo" else ("data", "indices", "indptr")
        if "coords" in state:  # newer scipy keeps a COO matrix as one tuple
            state["row"], state["col"] = state["coords"]
        arrays = [state.get(part) for part in parts]
        if not isinstance(shape, tuple) or any(not isinstance(a, np.ndarray) or a.ndim != 1 for a in arrays):
            raise InputError("the pickle holds a sparse matrix without its arrays")
        if item.layout != "csr" and shape[0] > MAX_ROWS:
            raise InputError(f"the pickle holds a sparse matrix of {shape[0]} rows without their bytes")
        data, first, second = arrays
        build = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "coo": sp.coo_matrix}[item.layout]
        matrix = build((data, (first, second)) if item.layout == "coo" else (data, first, second), shape=shape)
        if item.layout != "coo":
            matrix.check_format(full_check=True)
        return matrix.tocsr()
