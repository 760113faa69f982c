"""Stored arrays of an archive, handed out only after their type, shape and range were checked."""

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fastgtn.data.arrays import Array
from fastgtn.data.encode import check_name
from fastgtn.errors import InputError


class StoredNodes:
    """The arrays together with the map from the file's node numbers to (type, number within the type)."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.count = whole_number(self.get("num_nodes"), "num_nodes")
        self.type_names = self.names("node_type_names")
        self.type_of = self.get("node_type")
        integers(self.type_of, "node_type", (self.count,), len(self.type_names))
        self.is_blocked = bool(np.all(self.type_of[1:] >= self.type_of[:-1]))  # numbered type after type
        self.local = np.empty(self.count, np.int64)
        self.members: dict[str, Array] = {}
        for k, name in enumerate(self.type_names):
            members = np.flatnonzero(self.type_of == k)
            self.local[members] = np.arange(len(members))
            self.members[name] = members

    def get(self, name: str) -> Array:
        """The array of that name, or a clear complaint."""
        if name not in self.arrays:
            raise InputError(f'the array "{name}" is missing: this is not a graph archive, or only a part of one.')
        return self.arrays[name]

    def names(self, name: str) -> list[str]:
        """Names of types or relations: a list of printable texts, no two alike among node types."""
        values = self.get(name)
        if values.ndim != 1 or (values.dtype.kind != "U" and len(values)):
            raise InputError(f'"{name}" must be a list of names, not {values.dtype} {values.shape}.')
        names = [str(value) for value in self.texts(name, len(values))]
        for each in names:
            check_name(each)
        if name == "node_type_names" and len(set(names)) != len(names):
            raise InputError(f'"{name}" names a type twice: {", ".join(names)}.')
        return names

    def texts(self, name: str, count: int, default: Array | None = None) -> Array:
        """Ids or names of nodes or classes: whole numbers or text."""
        if name not in self.arrays and default is not None:
            return default
        values = np.asarray(self.get(name))
        if values.shape != (count,) or (values.dtype.kind not in "iuU" and count):
            raise InputError(f'"{name}" must hold {count} texts or whole numbers, not {values.dtype} {values.shape}.')
        if values.dtype.kind == "U" and values.nbytes:
            codes = np.ascontiguousarray(values).view(np.uint32)
            if bool(((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()):
                raise InputError(f'"{name}" holds bytes that are not text: the file is damaged.')
        return values

    def matrix(self, key: str, shape: tuple[int, int]) -> sp.csr_matrix:
        """A stored CSR matrix, checked: ends, order, range."""
        indptr, indices = self.get(f"{key}_indptr"), self.get(f"{key}_indices")
        if indptr.ndim != 1 or indices.ndim != 1:
            raise InputError(f'"{key}" is not a CSR matrix: indptr and indices must be lists.')
        integers(indptr, f"{key}_indptr", (shape[0] + 1,), len(indices) + 1)
        integers(indices, f"{key}_indices", indices.shape, shape[1])
        if indptr[0] != 0 or indptr[-1] != len(indices) or bool(np.any(indptr[1:] < indptr[:-1])):
            raise InputError(f'"{key}_indptr" must rise from 0 to the {len(indices)} entries of the matrix.')
        data = self.arrays[f"{key}_data"] if f"{key}_data" in self.arrays else np.ones(len(indices), np.float32)
        if data.shape != indices.shape or data.dtype.kind not in "fiub" or not bool(np.isfinite(data).all()):
            raise InputError(f'"{key}_data" must hold {len(indices)} finite numbers, not {data.dtype} {data.shape}.')
        wide = np.int64 if max(*shape, len(indices)) >= 2**31 else np.int32
        triple = (data.astype(np.float32), indices.astype(wide), indptr.astype(wide))
        return sp.csr_matrix(triple, shape=shape)

    def split(self, name: str, target: str) -> Tensor | None:
        """A stored split as numbers within the target type; None where the file has none."""
        if name not in self.arrays:
            return None
        idx = self.get(name)
        integers(idx, name, (idx.size,), self.count)
        if bool(np.any(self.type_of[idx] != self.type_names.index(target))):
            raise InputError(f'"{name}" has nodes that are not of the target type "{target}".')
        return torch.from_numpy(self.local[idx])


def integers(array: Array, name: str, shape: tuple[int, ...], end: int) -> None:
    """Check an array of whole numbers 0 … end − 1."""
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise InputError(f'"{name}" must be whole numbers of shape {shape}, not {array.dtype} {array.shape}.')
    if array.size and (int(array.min()) < 0 or int(array.max()) >= end):
        raise InputError(f'"{name}" must be between 0 and {end - 1}; found {array.min()} … {array.max()}.')


def whole_number(array: Array, name: str) -> int:
    """Check a single whole number, not negative."""
    if array.shape != () or array.dtype.kind not in "iu":
        found = str(array) if array.shape == () else f"an array of shape {array.shape}"
        raise InputError(f'"{name}" must be one whole number, not {found} ({array.dtype}).')
    if int(array) < 0:
        raise InputError(f'"{name}" must be one whole number, at least 0, not {int(array)}.')
    return int(array)
