"""The graph archive: a graph, its labels and its splits in one `.npz` file or a folder of `.npy` files.

The layout is described in docs/data.md. No pickle is read. A damaged file gives one clear line.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array, ArrayFile, naming, write_arrays
from fastgtn.data.archive.decode import Labels, decode, stored_json
from fastgtn.data.archive.encode import encode
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

VERIFIED_BYTES = 1 << 28  # checksums are verified when an archive of up to this size is read
CHECKSUMS = "checksums_json"
ENCODING = "encoding_json"


def write(
    path: str | Path,
    graph: HeteroData,
    task: NodeTask | None,
    *,
    meta: dict[str, Any] | None = None,
    planted: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Store a graph and its task; the same graph gives the same bytes, whatever the order of its edges.

    Args:
        path: Ends in `.npz` for one file; anything else becomes a folder, memory-mapped when read.
        meta: Notes that can be stored as JSON; `name` is taken from the graph.
        planted: The right answer, for generated graphs.
    """
    arrays = encode(graph, task, meta=meta, planted=planted)
    digests = {name: _digest(array) for name, array in arrays.items()}
    write_arrays(path, arrays | {CHECKSUMS: np.array(json.dumps(digests, sort_keys=True))}, overwrite=overwrite)


def read(
    path: str | Path, *, val_fraction: float = 0.2, seed: int = 0, half: bool | None = None
) -> tuple[HeteroData, NodeTask | None]:
    """Load a graph and its task.

    Args:
        val_fraction: Share of the training nodes that `seed` draws for validation if no validation split is stored.
        half: Keep float16 features memory-mapped instead of converting them to float32 in memory. This is the default
            for archives of more than 256 MB. The models convert the rows that they use to float32.
    """
    graph, labels = read_labels(path, half=half)
    if labels is None:
        return graph, None
    with naming(path):
        return graph, labels.task(val_fraction=val_fraction, seed=seed)


def read_labels(path: str | Path, *, half: bool | None = None) -> tuple[HeteroData, Labels | None]:
    """Load a graph with its labels as stored, even if they do not form a valid task."""
    file = ArrayFile(path)
    arrays: Mapping[str, Array] = file
    with naming(path):
        if file.nbytes <= VERIFIED_BYTES:
            arrays = {name: file[name] for name in file}
            _verify(arrays)
        return decode(arrays, half=file.nbytes > VERIFIED_BYTES if half is None else half)


def checksum(path: str | Path) -> str:
    """The sha256 of the content, equal for a file and a folder. Large archives return the stored value."""
    file = ArrayFile(path)
    with naming(path):
        stored = _stored_digests(file) if file.nbytes > VERIFIED_BYTES else {}
        return _combined({name: stored.get(name) or _digest(file[name]) for name in file if name != CHECKSUMS})


def read_encoding(path: str | Path) -> dict[str, Any]:
    """What was fitted on the tables of a graph (`fastgtn data build`), without reading the graph."""
    file = ArrayFile(path)
    with naming(path):
        if ENCODING not in file:
            raise InputError(
                "the archive contains no encoding: only graphs that fastgtn data build has built from tables have one."
            )
        return stored_json(file, ENCODING)


def content_checksum(graph: HeteroData, task: NodeTask | None) -> str:
    """The checksum that an archive of this graph would have, without writing one."""
    arrays = encode(graph, task, meta=getattr(graph, "meta", None), planted=getattr(graph, "planted", None))
    return _combined({name: _digest(array) for name, array in arrays.items()})


def _digest(array: Array) -> str:
    """sha256 of type, shape and numbers."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.nbytes else b"")
    return digest.hexdigest()


def _combined(digests: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {digests[name]}\n" for name in sorted(digests)).encode()).hexdigest()


def _stored_digests(arrays: Mapping[str, Array]) -> dict[str, str]:
    if CHECKSUMS not in arrays:
        return {}
    try:
        digests = json.loads(str(arrays[CHECKSUMS]))
    except (ValueError, RecursionError):
        digests = None
    if not isinstance(digests, dict) or not all(isinstance(value, str) for value in digests.values()):
        raise InputError("the stored checksums cannot be read: the file is damaged.")
    return digests


def _verify(arrays: Mapping[str, Array]) -> None:
    for name, digest in _stored_digests(arrays).items():
        if name not in arrays:
            raise InputError(f'the array "{name}" is missing: the archive is damaged or was copied only partly.')
        if _digest(arrays[name]) != digest:
            raise InputError(f'the array "{name}" differs from its checksum: the file is damaged or was changed.')
