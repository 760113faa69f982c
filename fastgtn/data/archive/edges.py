"""Convert stored relations to edge lists, with tens of millions of edges per second."""

import numpy as np

from fastgtn.data.archive.arrays import Array
from fastgtn.data.archive.nodes import StoredNodes
from fastgtn.errors import InputError

ROWS_AT_ONCE = 1 << 14  # rows per block: a small buffer that is reused


def edge_list(nodes: StoredNodes, key: str, edge_type: tuple[str, str, str]) -> tuple[Array, Array | None]:
    """The edges [from; to] of a stored matrix, numbered within their node types, and their weights if it has any."""
    source, name, target = edge_type
    if (
        f"{key}_data" not in nodes.arrays
        and nodes.is_blocked
        and nodes.members[source].size
        and nodes.members[target].size
    ):
        edges = _unfolded(nodes, key, source, target)
        if edges is not None:
            return edges, None  # the slow path handles everything unexpected and reports the error
    matrix = nodes.matrix(key, (nodes.count, nodes.count))
    rows = np.repeat(np.arange(nodes.count), np.diff(matrix.indptr))
    for ends, node_type in ((rows, source), (matrix.indices, target)):
        if bool(np.any(nodes.type_of[ends] != nodes.type_names.index(node_type))):
            raise InputError(f'relation "{name}" has edges at nodes that are not of type "{node_type}".')
    edges = np.stack([nodes.local[rows], nodes.local[matrix.indices]])
    return edges, matrix.data if f"{key}_data" in nodes.arrays else None


def _unfolded(nodes: StoredNodes, key: str, source: str, target: str) -> Array | None:
    """The edge list, or None if the arrays are not valid."""
    indptr, indices = nodes.get(f"{key}_indptr"), nodes.get(f"{key}_indices")
    kinds = (np.dtype(np.int32), np.dtype(np.int64))
    if indptr.dtype not in kinds or indices.dtype not in kinds or indices.ndim != 1:
        return None
    if indptr.shape != (nodes.count + 1,) or indptr[0] != 0 or indptr[-1] != len(indices):
        return None
    first, last = (nodes.members[source][k] for k in (0, -1))
    if indptr[first] != 0 or indptr[last + 1] != len(indices) or bool(np.any(indptr[1:] < indptr[:-1])):
        return None
    start, stop = nodes.members[target][0], nodes.members[target][-1] + 1
    if len(indices) and not start <= indices.min() <= indices.max() < stop:
        return None
    edges = np.empty((2, len(indices)), np.int64)
    ends = indptr[first : last + 2]
    for row in range(0, len(ends) - 1, ROWS_AT_ONCE):
        part = ends[row : row + ROWS_AT_ONCE + 1]
        edges[0, part[0] : part[-1]] = np.repeat(np.arange(row, row + len(part) - 1), np.diff(part))
    np.subtract(indices, start, out=edges[1], dtype=np.int64)
    return edges
