"""Read a pickle of numbers without executing it.

Nothing that a pickle names is imported. The few names that numpy, scipy.sparse and torch write are replaced by
stand-ins, which only collect bytes. The numbers are rebuilt from those bytes and checked.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fastgtn.data.archive.arrays import is_bomb
from fastgtn.data.importers.pickles.stand_ins import ALLOWED, ArrayState, GraphState, SparseState, SparseTensor
from fastgtn.data.index_arrays import Layout, checked_csr
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
        file = io.BytesIO(data)
        check_opcodes(file)
        file.seek(0)
        return plain(Unpickler(file, encoding=encoding).load(), packed=len(data))
    except InputError:
        raise
    except RecursionError:
        raise InputError("the pickle is nested too deeply to be a table of numbers") from None
    except Exception as error:  # a broken or hostile pickle may fail in any way; none of its code has run
        raise InputError(f"not a readable pickle of arrays ({type(error).__name__}: {error})") from None


def check_opcodes(file: io.BytesIO, *, allowed: frozenset[str] = frozenset()) -> None:
    """Refuse sizes and memo numbers that would allocate too much memory, before anything is loaded."""
    size = file.getbuffer().nbytes
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in _FORBIDDEN_OPCODES - allowed:
            raise InputError(f"the pickle uses {opcode.name}, which array files do not use; it was not loaded")
        if opcode.name in _COUNTED_OPCODES and argument is not None and int(argument) > size:
            raise InputError(f"the pickle is truncated or hostile: {opcode.name} {argument} in {size} bytes")


def plain(value: Any, *, packed: int) -> Any:
    """Turn stand-ins into arrays, matrices and dictionaries.

    Args:
        packed: Size of the file in bytes, which limits the size of the result.
    """
    return _Rebuild(packed).value(value)


_FORBIDDEN_OPCODES = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "INST", "OBJ"}
_COUNTED_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT", "FRAME"}


class Unpickler(pickle.Unpickler):
    """Replaces the names of its list by stand-ins and refuses all others. Nothing is imported."""

    names = ALLOWED

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return self.names[module, name]
        except KeyError:
            raise InputError(
                f"the pickle refers to {module}.{name}; only numpy arrays, scipy.sparse matrices, tensors "
                "and plain containers are read. Nothing was executed. If you trust the file, convert it first."
            ) from None


class _Rebuild:
    """Turn stand-ins into arrays, each shared object once (nested sharing would grow without bound)."""

    def __init__(self, packed: int) -> None:
        self.done: dict[int, Any] = {}
        self.packed, self.built = packed, 0

    def value(self, item: Any) -> Any:
        if isinstance(item, int | float | complex | str | bytes | bytearray | np.generic) or item is None:
            return item
        if id(item) not in self.done:
            self.done[id(item)] = self._rebuild(item)
        return self.done[id(item)]

    def _rebuild(self, item: Any) -> Any:
        if isinstance(item, ArrayState):
            if item.value is None:
                raise InputError("the pickle contains an array without numbers")
            return self.value(item.value)
        if isinstance(item, np.ndarray):
            self._count(item.nbytes)
            return item.copy(order="K")
        if isinstance(item, SparseState):
            return self._sparse(item)
        if isinstance(item, SparseTensor):
            return self._sparse_tensor(item)
        if isinstance(item, GraphState):
            return {part: self.value((item.state or {}).get(part, {})) for part in item.parts}
        if isinstance(item, dict):
            if any(not isinstance(key, int | float | str | bytes | tuple | np.generic) for key in item):
                raise InputError("the pickle contains a dictionary whose keys are not numbers or text")
            return {key: self.value(value) for key, value in item.items()}
        if isinstance(item, list | tuple | set | frozenset):
            return type(item)(self.value(value) for value in item)
        raise InputError(f"the pickle contains a {type(item).__name__}; only numbers, text and containers are read")

    def _count(self, size: int) -> None:
        """Limit the size of the result, because a file may use the same bytes many times."""
        self.built += size
        if is_bomb(self.packed, self.built):
            raise InputError(f"a pickle of {self.packed:,} bytes that becomes over {self.built:,} bytes is refused")

    def _sparse(self, item: SparseState) -> sp.csr_matrix:
        state = {key: self.value(value) for key, value in (item.state or {}).items()}
        shape = state.get("_shape", state.get("shape"))
        parts = ("data", "row", "col") if item.layout == "coo" else ("data", "indices", "indptr")
        if "coords" in state:  # newer scipy keeps a COO matrix as one tuple
            state["row"], state["col"] = state["coords"]
        return self._checked(item.layout, [state.get(part) for part in parts], shape)

    def _sparse_tensor(self, item: SparseTensor) -> sp.csr_matrix:
        parts = [self.value(part) for part in item.parts]
        if item.layout == "torch.sparse_coo":
            indices, values, shape = parts[:3]
            if not isinstance(indices, np.ndarray) or indices.ndim != 2 or len(indices) != 2:
                raise InputError("the pickle contains a sparse tensor that is not a matrix")
            return self._checked("coo", [values, indices[0], indices[1]], shape)
        pointers, indices, values, shape = parts
        layout: Layout = "csr" if item.layout == "torch.sparse_csr" else "csc"
        return self._checked(layout, [values, indices, pointers], shape)

    def _checked(self, layout: Layout, arrays: list[Any], shape: Any) -> sp.csr_matrix:
        if not isinstance(shape, tuple) or any(not isinstance(array, np.ndarray) for array in arrays):
            raise InputError("the pickle contains a sparse matrix without its arrays")
        matrix = checked_csr(layout, *arrays, shape=shape, what="the pickle")
        self._count(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
        return matrix
