"""Readers of the public file formats of the field, one per format."""

from __future__ import annotations

import glob
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from fastgtn.errors import InputError, check_regular, nearest

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from fastgtn.data.task import NodeTask

FORMATS = ("gtn", "gaug", "planetoid", "mat", "graphsage", "hgb", "pyg")  # a module each, with a function `read`


def import_graph(kind: str, path: Path, *, types: Path | None = None) -> tuple[HeteroData, NodeTask | None]:
    """Read the files of one format.

    Args:
        types: Names of node types and relations for `gtn`, whose files have none; see ``gtn.read``.
    """
    if kind not in FORMATS:
        raise InputError(f'no importer "{kind}"; {nearest(kind, FORMATS)}')
    if types is not None and kind != "gtn":
        raise InputError(f"--types applies to gtn files only; {kind} files contain node types: omit --types.")
    for file in [path, *(path.iterdir() if path.is_dir() else path.parent.glob(f"{glob.escape(path.name)}*"))]:
        check_regular(file)
    read = import_module(f"{__name__}.{kind}").read
    try:
        graph, task = read(path) if types is None else read(path, types=types)
        return graph, task
    except InputError:
        raise
    except Exception as error:  # all other errors of a malformed file are reported here
        raise InputError(f"{path} is not a valid {kind} file ({type(error).__name__}: {error})") from error
