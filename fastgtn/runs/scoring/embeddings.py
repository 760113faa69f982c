"""Representations of nodes as arrays and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.runs.files import write_whole
from fastgtn.runs.schema import node_ids

if TYPE_CHECKING:
    from fastgtn.runs.on_graph import OnGraph

FORMATS = (".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row per node.

    Args:
        nodes: The ids of the nodes.
        values: Their representations before the head, [nodes, out_features].
    """

    nodes: np.ndarray[Any, np.dtype[Any]]
    values: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    def save(self, path: str | Path) -> Path:
        """Write arrays `node` and `embedding` (.npz), or a table with these columns (.parquet)."""
        path = Path(path)
        if path.suffix not in FORMATS:
            raise InputError(f"embeddings are written as .npz or .parquet, but the name is {path.name}.")
        write_whole(path, self._write_npz if path.suffix == ".npz" else self._write_parquet)
        return path

    def _write_npz(self, path: Path) -> None:
        ids = self.nodes.astype(str) if self.nodes.dtype == object else self.nodes  # objects would need pickle
        with path.open("wb") as file:
            np.savez(file, node=ids, embedding=self.values.numpy())

    def _write_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        flat = pa.array(self.values.numpy().ravel())
        rows = pa.FixedSizeListArray.from_arrays(flat, self.values.size(1))
        pyarrow.parquet.write_table(pa.table({"node": pa.array(self.nodes), "embedding": rows}), path)


def embeddings_of(there: OnGraph, nodes: Tensor | None) -> Embeddings:
    """Of all nodes of the target type, or of those with the given numbers."""
    ids = node_ids(there.graph, there.target)
    return Embeddings(ids if nodes is None else ids[nodes.numpy()], there.representations_of(nodes))
