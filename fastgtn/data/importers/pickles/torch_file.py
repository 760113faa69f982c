"""Files of `torch.save`, read without torch: a pickle of names, and bytes beside it.

torch's reader trusts the indices of sparse tensors, and wrong ones may crash the process. This reader supports the few
names that tensors and PyG's data classes need, rebuilds the numbers with numpy, and checks them.
"""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fastgtn.data.archive.arrays import is_bomb
from fastgtn.data.importers.pickles.safe_pickle import Unpickler, check_opcodes, plain
from fastgtn.data.importers.pickles.stand_ins import STORAGE_DTYPES, TORCH_NAMES, StorageType
from fastgtn.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of the format before torch 1.6
PERSISTENT = frozenset({"BINPERSID"})


def load(path: Path) -> Any:
    """The tensors (as numpy arrays), sparse matrices, PyG graphs and containers of a file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        is_zip = file.read(4) == b"PK\x03\x04"
    if is_zip:
        with zipfile.ZipFile(path) as archive:
            return plain(_read_zip(archive, size), packed=size)
    return plain(read_legacy(path.read_bytes()), packed=size)


def read_legacy(data: bytes) -> Any:
    """The format before torch 1.6, which pickled tensors still contain: five pickles, then the bytes of storages."""
    file = io.BytesIO(data)
    magic, _version, system = (_unpickle(file, None) for _ in range(3))
    if magic != MAGIC or not isinstance(system, dict):
        raise InputError("not a file of torch.save")
    storages: dict[str, Array] = {}
    order: Literal["little", "big"] = "little" if system.get("little_endian", True) else "big"

    def storage(kind: StorageType, key: str, count: int) -> Array:
        if kind.name == "BFloat16Storage":
            raise InputError("bfloat16 numbers in the format before torch 1.6; save the file again")
        if key not in storages:
            if not 0 <= count * kind.dtype.itemsize <= len(data):
                raise InputError(f"a tensor of {count} numbers in a file of {len(data)} bytes")
            storages[key] = np.zeros(count, kind.dtype.newbyteorder(order))
        return storages[key]

    value = _unpickle(file, storage)
    for key in _unpickle(file, None):
        count = int.from_bytes(file.read(8), order)
        target = storages[key]
        raw = file.read(target.nbytes)
        if count != len(target) or len(raw) != target.nbytes:
            raise InputError("the bytes of a tensor are missing: the file is truncated")
        target[:] = np.frombuffer(raw, target.dtype)
    return value


def _read_zip(archive: zipfile.ZipFile, packed: int) -> Any:
    members = {info.filename.split("/", 1)[-1]: info for info in archive.infolist()}
    unpacked = sum(info.file_size for info in archive.infolist())
    if is_bomb(packed, unpacked):
        raise InputError(f"a file of {packed:,} bytes that unpacks to {unpacked:,} bytes is refused")
    if "data.pkl" not in members:
        raise InputError("not a file of torch.save: it has no data.pkl")
    order = archive.read(members["byteorder"]).decode() if "byteorder" in members else "little"

    def storage(kind: StorageType, key: str, count: int) -> Array:
        raw = archive.read(members[f"data/{key}"])
        values = np.frombuffer(raw, kind.dtype.newbyteorder("<" if order == "little" else ">"))
        if len(values) != count:
            raise InputError(f"a tensor of {count} numbers has {len(raw)} bytes")
        return values

    return _unpickle(io.BytesIO(archive.read(members["data.pkl"])), storage)


def _unpickle(file: io.BytesIO, storage: Callable[[StorageType, str, int], Array] | None) -> Any:
    start = file.tell()
    check_opcodes(file, allowed=PERSISTENT if storage else frozenset())
    file.seek(start)
    return _TorchUnpickler(file, storage).load()


class _TorchUnpickler(Unpickler):
    """Also supports the names of torch, and finds the bytes of each storage."""

    names = Unpickler.names | TORCH_NAMES

    def __init__(self, file: io.BytesIO, storage: Callable[[StorageType, str, int], Array] | None) -> None:
        super().__init__(file, encoding="utf-8")
        self._storage = storage
        self._found: dict[str, Array] = {}

    def persistent_load(self, identity: Any, /) -> Array:
        if self._storage is None or not isinstance(identity, tuple) or len(identity) < 5 or identity[0] != "storage":
            raise InputError("the pickle refers to something that is not a storage of numbers")
        kind, key, _location, count = identity[1:5]
        if not isinstance(kind, StorageType) or not isinstance(key, str) or not isinstance(count, int):
            raise InputError(f"the pickle contains a storage of an unknown kind; known are {', '.join(STORAGE_DTYPES)}")
        if key not in self._found:
            values = self._storage(kind, key, count)
            self._found[key] = values if kind.name != "BFloat16Storage" else _from_bfloat16(values)
        return self._found[key]


def _from_bfloat16(values: Array) -> Array:
    """bfloat16 is the upper half of float32."""
    return (values.astype(np.uint32) << 16).view(np.float32)
