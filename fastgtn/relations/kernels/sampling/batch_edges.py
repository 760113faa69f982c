"""The edges of a batch: those that were drawn, or all between its nodes, and their segments.

Every row is counted first, then all rows are written to their places, so that threads do not wait for each other.
"""

import numpy as np

from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.sampling.draws import ROWS
from fastgtn.relations.kernels.team import on_team

Array = np.ndarray

_SHORT = 32  # up to this many numbers, insertion beats a general sort


def unite(
    found: Array, first: Array, counts: Array, starts: Array, draws: Array, lengths: Array
) -> tuple[Array, Array]:
    """The sorted distinct edges of each row over all rounds, with row pointers.

    Args:
        found: For each row, when its node was found: round r drew for the first ``counts[r]`` nodes, and what it
            drew for node k is ``draws[starts[first[r] + k] : starts[first[r] + k + 1]]``.
        lengths: All edges of each row in the graph.
    """
    rows = len(found)
    room, edge_ptr = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    rounds = (found, first, counts, starts)
    run_ranges(_count_drawn, _count_all_drawn, _parts(rows), *rounds, room)
    room = room.cumsum()
    drawn = np.empty(room[-1], np.int64)
    run_ranges(_unite, _unite_all, _parts(rows), *rounds, draws, lengths, room, drawn, edge_ptr)
    edge_ptr = edge_ptr.cumsum()
    edges = np.empty(edge_ptr[-1], np.int64)
    run_ranges(_move, _move_all, _parts(rows), room, drawn, edge_ptr, edges)
    return edge_ptr, edges


def edges_among(nodes: Array, number: Array, row_ptr: Array, seg_ptr: Array, col: Array) -> tuple[Array, Array]:
    """All edges between numbered nodes, with row pointers."""
    edge_ptr = np.zeros(len(nodes) + 1, np.int64)
    graph = (nodes, number, row_ptr, seg_ptr, col)
    run_ranges(_count_among, _count_all_among, _parts(len(nodes)), *graph, edge_ptr)
    edge_ptr = edge_ptr.cumsum()
    edges = np.empty(edge_ptr[-1], np.int64)
    run_ranges(_among, _among_all, _parts(len(nodes)), *graph, edge_ptr, edges)
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
    rows, columns = np.zeros(len(nodes) + 1, np.int64), np.empty(len(edges), np.int32)
    opened = np.empty(len(edges), np.int32)
    arrays = (nodes, edge_ptr, edges, number, row_ptr, relation, seg_ptr, col, rows, columns, opened)
    run_ranges(_find_segments, _find_all_segments, _parts(len(nodes)), *arrays)
    rows = rows.cumsum()
    relations, segments = np.empty(rows[-1], np.int32), np.empty(rows[-1] + 1, np.int64)
    segments[-1] = len(edges)
    run_ranges(_cut, _cut_all, _parts(len(nodes)), edge_ptr, opened, rows, relations, segments)
    return rows, relations, segments, columns


def _parts(rows: int) -> int:
    """The items of a range that threads share."""
    return -(-rows // ROWS)


@kernel
def _count_drawn(begin: int, end: int, found: Array, first: Array, counts: Array, starts: Array, room: Array) -> None:
    """How many edges all rounds drew for each row, one place further on."""
    for k in range(begin * ROWS, min(end * ROWS, len(found))):
        total = 0
        for r in range(len(counts)):
            if found[k] < counts[r]:
                total += starts[first[r] + found[k] + 1] - starts[first[r] + found[k]]
        room[k + 1] = total


@kernel
def _unite(
    begin: int,
    end: int,
    found: Array,
    first: Array,
    counts: Array,
    starts: Array,
    draws: Array,
    lengths: Array,
    room: Array,
    edges: Array,
    sizes: Array,
) -> None:
    """The distinct edges of each row from ``room[k]`` on, sorted, and how many there are, one place further on."""
    for k in range(begin * ROWS, min(end * ROWS, len(found))):
        total, is_whole = room[k], False
        for r in range(len(counts)):
            if found[k] >= counts[r] or is_whole:
                continue
            start, stop = starts[first[r] + found[k]], starts[first[r] + found[k] + 1]
            if stop - start == lengths[k]:  # a whole row is sorted, and no other round adds to it
                total, is_whole = room[k], True
            for d in range(start, stop):
                edges[total] = draws[d]
                total += 1
        if is_whole or total == room[k]:
            sizes[k + 1] = total - room[k]
            continue
        if total - room[k] > _SHORT:
            edges[room[k] : total].sort()
        else:
            for i in range(room[k] + 1, total):
                key, j = edges[i], i
                while j > room[k] and edges[j - 1] > key:
                    edges[j] = edges[j - 1]
                    j -= 1
                edges[j] = key
        last = room[k]
        for i in range(room[k] + 1, total):
            if edges[i] != edges[last]:
                last += 1
                edges[last] = edges[i]
        sizes[k + 1] = last + 1 - room[k]


@kernel
def _move(begin: int, end: int, room: Array, drawn: Array, edge_ptr: Array, edges: Array) -> None:
    """Put the rows one after the other."""
    for k in range(begin * ROWS, min(end * ROWS, len(edge_ptr) - 1)):
        shift = room[k] - edge_ptr[k]
        for place in range(edge_ptr[k], edge_ptr[k + 1]):
            edges[place] = drawn[place + shift]


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


_count_all_drawn = kernel(lambda threads, count, *arguments: on_team(_count_drawn, threads, count, arguments))
_unite_all = kernel(lambda threads, count, *arguments: on_team(_unite, threads, count, arguments))
_move_all = kernel(lambda threads, count, *arguments: on_team(_move, threads, count, arguments))
_count_all_among = kernel(lambda threads, count, *arguments: on_team(_count_among, threads, count, arguments))
_among_all = kernel(lambda threads, count, *arguments: on_team(_among, threads, count, arguments))
_find_all_segments = kernel(lambda threads, count, *arguments: on_team(_find_segments, threads, count, arguments))
_cut_all = kernel(lambda threads, count, *arguments: on_team(_cut, threads, count, arguments))
