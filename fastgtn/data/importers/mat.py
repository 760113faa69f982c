"""MATLAB files with Network, Attributes and Label (BlogCatalog, Flickr)."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from torch_geometric.data import HeteroData

from fastgtn.data.arrays import is_bomb
from fastgtn.data.importers.assemble import as_csr, homogeneous, node_task
from fastgtn.data.splits import draw_split
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError, nearest

FRACTIONS = (0.1, 0.2, 0.7)  # the file has no split; these are the paper's shares

_HEADER = 128  # bytes before the first element of a file of version 5 to 7
_COMPRESSED = 15  # the type of an element that is a zlib stream
_AT_ONCE = 1 << 20


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
        variables: dict[str, Any] = scipy.io.loadmat(path, variable_names=needed)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except NotImplementedError:
        raise InputError(f"{path} is a MATLAB 7.3 file; save it again with `save -v7`.") from None
    except Exception as error:  # a damaged file may fail anywhere in the reader
        raise InputError(f"{path} is not a readable MATLAB file ({type(error).__name__}: {error})") from None
    for name in needed:
        if name not in variables:
            present = [info[0] for info in scipy.io.whosmat(path)]
            raise InputError(f"{path} has no variable {name}; {nearest(name, present)}")
    return variables


def _require_honest_sizes(path: Path) -> None:
    """Refuse a small file that becomes a huge one; what it says of its sizes is not believed, but counted."""
    packed, unpacked = path.stat().st_size, 0
    for size in _unpacked_pieces(path):
        unpacked += size
        if is_bomb(packed, unpacked):
            raise InputError(f"{path}: a file of {packed:,} bytes that unpacks to over {unpacked:,} bytes is refused.")


def _unpacked_pieces(path: Path) -> Iterator[int]:
    """Sizes of what the compressed elements become, a piece at a time; nothing where the format is another one."""
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
