"""Arrays of an archive, with checks of type, shape and range before use."""

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fastgtn.data.archive.arrays import Array
from fastgtn.data.archive.encode import check_name
from fastgtn.data.index_arrays import check_pointers, check_range
from fastgtn.errors import InputError


class StoredNodes:
    """The arrays together with the map from the file's node numbers to (type, number within the type)."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.count = whole_number(self.get("num_nodes"), "num_nodes")
        self.type_names = self.names("node_type_names")
        self.type_of = self.get("node_type")
        check_range(self.type_of, "node_type", (self.count,), len(self.type_names))
        self.is_blocked = bool(np.all(self.type_of[1:] >= self.type_of[:-1]))  # numbered by type
        self.local = np.empty(self.count, np.int64)
        self.members: dict[str, Array] = {}
        for k, name in enumerate(self.type_names):
            members = np.flatnonzero(self.type_of == k)
            self.local[members] = np.arange(len(members))
            self.members[name] = members

    def get(self, name: str) -> Array:
        """The array of that name, or an error if it is missing."""
        if name not in self.arrays:
            raise InputError(f'the array "{name}" is missing: this is not a graph archive, or it is incomplete.')
        return self.arrays[name]

    def names(self, name: str) -> list[str]:
        """Names of types or relations: a list of printable texts, without duplicates among node types."""
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
                raise InputError(f'"{name}" contains bytes that are not text: the file is damaged.')
        return values

    def times(self, name: str, count: int) -> Tensor:
        """Times as float64, NaN for none."""
        values = self.get(name)
        if values.shape != (count,) or values.dtype.kind not in "fiu" or bool(np.isinf(values).any()):
            raise InputError(f'"{name}" must hold {count} finite times or NaN, not {values.dtype} {values.shape}.')
        return torch.from_numpy(values.astype(np.float64))

    def matrix(self, key: str, shape: tuple[int, int]) -> sp.csr_matrix:
        """A stored CSR matrix, with its pointers, order and range checked."""
        indptr, indices = self.get(f"{key}_indptr"), self.get(f"{key}_indices")
        if indptr.ndim != 1 or indices.ndim != 1:
            raise InputError(f'"{key}" is not a CSR matrix: indptr and indices must be lists.')
        check_pointers(indptr, f"{key}_indptr", shape[0], len(indices))
        check_range(indices, f"{key}_indices", indices.shape, shape[1])
        data = self.arrays[f"{key}_data"] if f"{key}_data" in self.arrays else np.ones(len(indices), np.float32)
        if data.shape != indices.shape or data.dtype.kind not in "fiub" or not bool(np.isfinite(data).all()):
            raise InputError(f'"{key}_data" must hold {len(indices)} finite numbers, not {data.dtype} {data.shape}.')
        wide = np.int64 if max(*shape, len(indices)) >= 2**31 else np.int32
        triple = (data.astype(np.float32), indices.astype(wide), indptr.astype(wide))
        return sp.csr_matrix(triple, shape=shape)

    def split(self, name: str, target: str) -> Tensor | None:
        """A stored split as numbers within the target type, or None."""
        if name not in self.arrays:
            return None
        idx = self.get(name)
        check_range(idx, name, (idx.size,), self.count)
        if bool(np.any(self.type_of[idx] != self.type_names.index(target))):
            raise InputError(f'"{name}" has nodes that are not of the target type "{target}".')
        return torch.from_numpy(self.local[idx])


def whole_number(array: Array, name: str) -> int:
    """Check that an array is one whole number of at least 0."""
    if array.shape != () or array.dtype.kind not in "iu":
        found = str(array) if array.shape == () else f"an array of shape {array.shape}"
        raise InputError(f'"{name}" must be one whole number, not {found} ({array.dtype}).')
    if int(array) < 0:
        raise InputError(f'"{name}" must be one whole number, at least 0, not {int(array)}.')
    return int(array)
