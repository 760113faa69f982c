"""Readers for the files that users of this field already have: one function per format, by name."""

from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import HeteroData

from fastgtn.data.importers import gaug, graphsage, gtn, hgb, mat, planetoid, pyg
from fastgtn.data.task import NodeTask

IMPORTERS: dict[str, Callable[[Path], tuple[HeteroData, NodeTask | None]]] = {
    "gtn": gtn.read,
    "gaug": gaug.read,
    "planetoid": planetoid.read,
    "mat": mat.read,
    "graphsage": graphsage.read,
    "hgb": hgb.read,
    "pyg": pyg.read,
}
