"""The edges of a batch: all between its nodes, and the segments of those that were chosen.

Every row is counted first, then all rows are written to their places, so that threads do not wait for each other. One
thread alone writes the segments one after the other, which reads the edges once.
"""

import numpy as np

from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.neighbours import free_threads
from fastgtn.relations.kernels.sampling.draws import ROWS, parts
from fastgtn.relations.kernels.team import on_team

Array = np.ndarray


def edges_among(nodes: Array, number: Array, row_ptr: Array, seg_ptr: Array, col: Array) -> tuple[Array, Array]:
    """All edges between numbered nodes, with row pointers."""
    edge_ptr = np.zeros(len(nodes) + 1, np.int64)
    graph = (nodes, number, row_ptr, seg_ptr, col)
    run_ranges(_count_among, _count_all_among, parts(len(nodes)), *graph, edge_ptr)
    edge_ptr = edge_ptr.cumsum()
    edges = np.empty(edge_ptr[-1], np.int64)
    run_ranges(_among, _among_all, parts(len(nodes)), *graph, edge_ptr, edges)
    return edge_ptr, edges


def cut(
    nodes: Array,
    edge_ptr: Array,
    edges: Array,
    number: Array,
    row_ptr: Array,
    relation: Array,
    seg_ptr: Array,
    col: Array,
) -> tuple[Array, Array, Array, Array]:
    """The (row, relation) segments of chosen edges, which are sorted row by row: the arrays of ``Segments``."""
    graph = (number, row_ptr, relation, seg_ptr, col)
    rows, columns = np.zeros(len(nodes) + 1, np.int64), np.empty(len(edges), np.int32)
    if free_threads() == 1:
        return (rows, *_cut_in_turn(nodes, edge_ptr, edges, *graph, rows, columns), columns)
    opened = np.empty(len(edges), np.int32)
    run_ranges(
        _find_segments, _find_all_segments, parts(len(nodes)), nodes, edge_ptr, edges, *graph, rows, columns, opened
    )
    rows = rows.cumsum()
    relations, segments = np.empty(rows[-1], np.int32), np.empty(rows[-1] + 1, np.int64)
    segments[-1] = len(edges)
    run_ranges(_cut, _cut_all, parts(len(nodes)), edge_ptr, opened, rows, relations, segments)
    return rows, relations, segments, columns


@kernel
def _count_among(
    begin: int, end: int, nodes: Array, number: Array, row_ptr: Array, seg_ptr: Array, col: Array, edge_ptr: Array
) -> None:
    """How many edges of each row come from numbered nodes, one place further on."""
    for k in range(begin * ROWS, min(end * ROWS, len(nodes))):
        count = 0
        for e in range(seg_ptr[row_ptr[nodes[k]]], seg_ptr[row_ptr[nodes[k] + 1]]):
            count += number[col[e]] >= 0
        edge_ptr[k + 1] = count


@kernel
def _among(
    begin: int,
    end: int,
    nodes: Array,
    number: Array,
    row_ptr: Array,
    seg_ptr: Array,
    col: Array,
    edge_ptr: Array,
    edges: Array,
) -> None:
    """The edges of each row that come from numbered nodes."""
    for k in range(begin * ROWS, min(end * ROWS, len(nodes))):
        place = edge_ptr[k]
        for e in range(seg_ptr[row_ptr[nodes[k]]], seg_ptr[row_ptr[nodes[k] + 1]]):
            if number[col[e]] >= 0:
                edges[place] = e
                place += 1


@kernel
def _find_segments(
    begin: int,
    end: int,
    nodes: Array,
    edge_ptr: Array,
    edges: Array,
    number: Array,
    row_ptr: Array,
    relation: Array,
    seg_ptr: Array,
    col: Array,
    rows: Array,
    columns: Array,
    opened: Array,
) -> None:
    """The columns of edges, the relations that start there or −1, and each row's segments, one place further on."""
    for k in range(begin * ROWS, min(end * ROWS, len(nodes))):
        s, seen, count = row_ptr[nodes[k]], -1, 0
        for place in range(edge_ptr[k], edge_ptr[k + 1]):
            e = edges[place]
            columns[place] = number[col[e]]
            while seg_ptr[s + 1] <= e:
                s += 1
            opened[place] = relation[s] if s != seen else -1
            count += s != seen
            seen = s
        rows[k + 1] = count


@kernel
def _cut(begin: int, end: int, edge_ptr: Array, opened: Array, rows: Array, relations: Array, segments: Array) -> None:
    """The relation of each segment, and its first edge."""
    for k in range(begin * ROWS, min(end * ROWS, len(rows) - 1)):
        count = rows[k]
        for place in range(edge_ptr[k], edge_ptr[k + 1]):
            if opened[place] >= 0:
                relations[count] = opened[place]
                segments[count] = place
                count += 1


@kernel
def _cut_in_turn(
    nodes: Array,
    edge_ptr: Array,
    edges: Array,
    number: Array,
    row_ptr: Array,
    relation: Array,
    seg_ptr: Array,
    col: Array,
    rows: Array,
    columns: Array,
) -> tuple[Array, Array]:
    """The same in one pass: the relation of each segment and its first edge; rows and columns are filled in."""
    relations, segments = np.empty(len(edges), np.int32), np.empty(len(edges) + 1, np.int64)
    count = 0
    for k in range(len(nodes)):
        s, seen = row_ptr[nodes[k]], -1
        for place in range(edge_ptr[k], edge_ptr[k + 1]):
            e = edges[place]
            columns[place] = number[col[e]]
            while seg_ptr[s + 1] <= e:
                s += 1
            if s != seen:
                relations[count], segments[count] = relation[s], place
                count += 1
            seen = s
        rows[k + 1] = count
    segments[count] = len(edges)
    return relations[:count].copy(), segments[: count + 1].copy()


_count_all_among = kernel(lambda threads, count, *arguments: on_team(_count_among, threads, count, arguments))
_among_all = kernel(lambda threads, count, *arguments: on_team(_among, threads, count, arguments))
_find_all_segments = kernel(lambda threads, count, *arguments: on_team(_find_segments, threads, count, arguments))
_cut_all = kernel(lambda threads, count, *arguments: on_team(_cut, threads, count, arguments))
