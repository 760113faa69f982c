"""Readers for the files that users of this field already have: one function per format, by name."""

from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import HeteroData

from fastgtn.data.importers import gaug, graphsage, gtn, hgb, mat, planetoid, pyg
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError, nearest

IMPORTERS: dict[str, Callable[[Path], tuple[HeteroData, NodeTask | None]]] = {
    "gtn": gtn.read,
    "gaug": gaug.read,
    "planetoid": planetoid.read,
    "mat": mat.read,
    "graphsage": graphsage.read,
    "hgb": hgb.read,
    "pyg": pyg.read,
}
BROKEN_FILE = (TypeError, ValueError, KeyError, IndexError, AttributeError, OSError, RuntimeError, MemoryError)


def import_graph(kind: str, path: Path, *, types: Path | None = None) -> tuple[HeteroData, NodeTask | None]:
    """Read the files of one format.

    Args:
        types: Names of node types and relations for `gtn`, whose files have none; see :func:`gtn.read`.
    """
    if kind not in IMPORTERS:
        raise InputError(f'no importer "{kind}"; {nearest(kind, IMPORTERS)}')
    if types is not None and kind != "gtn":
        raise InputError(f"--types names the node types of gtn files; {kind} files bring their own.")
    try:
        return IMPORTERS[kind](path) if types is None else gtn.read(path, types=types)
    except InputError:
        raise
    except BROKEN_FILE as error:  # whatever else a malformed file provokes is said once, here
        raise InputError(f"{path} is not in the form of {kind} files ({type(error).__name__}: {error})") from error
