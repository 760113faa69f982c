"""MATLAB files with Network, Attributes and Label (BlogCatalog, Flickr)."""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import is_bomb, memory_bytes
from fastgtn.data.child import Child
from fastgtn.data.importers import mat_child
from fastgtn.data.importers.assemble import Array, as_csr, homogeneous, node_task
from fastgtn.data.index_arrays import checked_csr
from fastgtn.data.splits import draw_split
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError, nearest

FRACTIONS = (0.1, 0.2, 0.7)  # the file has no split; these are the paper's shares

_HEADER = 128  # bytes before the first element of a file of version 5 to 7
_COMPRESSED = 15  # the type of an element that is a zlib stream
_AT_ONCE = 1 << 20
_SECONDS = 300


def read(path: Path) -> tuple[HeteroData, NodeTask]:
    """Read one .mat file (up to version 7); the split is drawn class by class with seed 0."""
    variables = _variables(path)
    adjacency = as_csr(variables["Network"], f"{path}: Network")
    features = as_csr(variables["Attributes"], f"{path}: Attributes")
    graph = homogeneous(adjacency, features, name=path.stem.lower())
    labels = np.asarray(variables["Label"])
    labels = labels.reshape(-1) if 1 in labels.shape else labels
    if len(labels) != graph["node"].num_nodes or labels.dtype.kind not in "biuf":
        raise InputError(f"{path}: Label must be a number for each of the {graph['node'].num_nodes} nodes.")
    train, val, test = draw_split(labels, FRACTIONS, seed=0)
    return graph, node_task(labels, train=train, val=val, test=test)


def _variables(path: Path) -> dict[str, Any]:
    needed = ("Network", "Attributes", "Label")
    try:
        _require_honest_sizes(path)
        packed = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{path} is not a readable MATLAB file ({type(error).__name__}: {error})") from None
    child = Child(
        Path(mat_child.__file__),
        folder=path.resolve().parent,
        memory=min(memory_bytes() // 2, (2 << 30) + 400 * packed),
    )
    try:
        request = {"path": str(path.resolve()), "names": needed}
        reply = child.ask(request, seconds=_SECONDS, what=str(path))
        if reply.get("error") == "7.3":
            raise InputError(f"{path} is a MATLAB 7.3 file; save it again with `save -v7`.")
        if "error" in reply:
            raise InputError(f"{path} is not a readable MATLAB file ({reply['error']})")
        found = reply["variables"]
        received = {name: _receive(child, name, found[name], packed, path) for name in needed if found.get(name)}
    finally:
        child.close()
    for name in needed:
        if name not in received:
            raise InputError(f"{path} has no variable {name}; {nearest(name, found)}")
    return received


def _receive(child: Child, name: str, described: dict[str, Any], packed: int, path: Path) -> Any:
    """One variable from the child: a dense array, or a sparse matrix whose indices are checked."""
    arrays: list[Array] = []
    for each in described["arrays"]:
        dtype, shape = np.dtype(each["dtype"]), tuple(each["shape"])
        size = math.prod(shape) * dtype.itemsize
        if is_bomb(packed, size):
            raise InputError(f"{path}: {name} takes {size:,} bytes in a file of {packed:,} bytes, which is too large.")
        raw = child.stream.read(size)
        if len(raw) != size:
            raise InputError(f"{path}: the process that reads it ended within {name}: check the file.")
        arrays.append(np.frombuffer(bytearray(raw), dtype).reshape(shape))
    if described["layout"] == "dense":
        return arrays[0]
    if described["layout"] not in ("csc", "coo"):
        raise InputError(f"{path}: {name} must be a matrix of numbers; it is a {described['layout']}.")
    return checked_csr(described["layout"], *arrays, shape=tuple(described["shape"]), what=f"{path}: {name}")


def _require_honest_sizes(path: Path) -> None:
    """Refuse a small file that unpacks to a huge one. The sizes are counted, not read from the file."""
    packed, unpacked = path.stat().st_size, 0
    for size in _unpacked_pieces(path):
        unpacked += size
        if is_bomb(packed, unpacked):
            raise InputError(f"{path}: a file of {packed:,} bytes that unpacks to over {unpacked:,} bytes is refused.")


def _unpacked_pieces(path: Path) -> Iterator[int]:
    """Sizes of the uncompressed elements, one piece at a time; nothing for another format."""
    with path.open("rb") as file:
        order = {b"IM": "<", b"MI": ">"}.get(file.read(_HEADER)[126:])
        while order is not None and len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            if kind != _COMPRESSED:
                file.seek(size, 1)
                continue
            yield from _inflated(file.read(size))


def _inflated(packed: bytes) -> Iterator[int]:
    stream = zlib.decompressobj()
    while packed and not stream.eof:
        piece = stream.decompress(packed, _AT_ONCE)
        yield len(piece)
        packed = stream.unconsumed_tail
