"""The edges that were drawn for a batch in several rounds, each of them once.

Several threads count every row first, and then write the rows and move them to their places. One thread alone writes
the rows one after the other.
"""

import numpy as np

from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.neighbours import free_threads
from fastgtn.relations.kernels.sampling.draws import ROWS, parts
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
    rounds = (found, first, counts, starts)
    if free_threads() == 1:
        return _unite_in_turn(*rounds, draws, lengths)
    rows = len(found)
    room, edge_ptr = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    run_ranges(_count_drawn, _count_all_drawn, parts(rows), *rounds, room)
    room = room.cumsum()
    drawn = np.empty(room[-1], np.int64)
    run_ranges(_unite, _unite_all, parts(rows), *rounds, draws, lengths, room, drawn, edge_ptr)
    edge_ptr = edge_ptr.cumsum()
    edges = np.empty(edge_ptr[-1], np.int64)
    run_ranges(_move, _move_all, parts(rows), room, drawn, edge_ptr, edges)
    return edge_ptr, edges


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
def _row(
    node: int, first: Array, counts: Array, starts: Array, draws: Array, length: int, edges: Array, begin: int
) -> int:
    """Write the distinct edges of one row from `begin` on, sorted; returns where they end."""
    total, is_whole = begin, False
    for r in range(len(counts)):
        if node >= counts[r] or is_whole:
            continue
        start, stop = starts[first[r] + node], starts[first[r] + node + 1]
        if stop - start == length:  # a whole row is sorted, and no other round adds to it
            total, is_whole = begin, True
        for d in range(start, stop):
            edges[total] = draws[d]
            total += 1
    if is_whole or total == begin:
        return total
    if total - begin > _SHORT:
        edges[begin:total].sort()
    else:
        for i in range(begin + 1, total):
            key, j = edges[i], i
            while j > begin and edges[j - 1] > key:
                edges[j] = edges[j - 1]
                j -= 1
            edges[j] = key
    last = begin
    for i in range(begin + 1, total):
        if edges[i] != edges[last]:
            last += 1
            edges[last] = edges[i]
    return last + 1


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
        sizes[k + 1] = _row(found[k], first, counts, starts, draws, lengths[k], edges, room[k]) - room[k]


@kernel
def _unite_in_turn(
    found: Array, first: Array, counts: Array, starts: Array, draws: Array, lengths: Array
) -> tuple[Array, Array]:
    """The same for one thread, which knows where the row before has ended."""
    edge_ptr, edges = np.zeros(len(found) + 1, np.int64), np.empty(len(draws), np.int64)
    for k in range(len(found)):
        edge_ptr[k + 1] = _row(found[k], first, counts, starts, draws, lengths[k], edges, edge_ptr[k])
    return edge_ptr, edges[: edge_ptr[-1]].copy()


@kernel
def _move(begin: int, end: int, room: Array, drawn: Array, edge_ptr: Array, edges: Array) -> None:
    """Put the rows one after the other."""
    for k in range(begin * ROWS, min(end * ROWS, len(edge_ptr) - 1)):
        shift = room[k] - edge_ptr[k]
        for place in range(edge_ptr[k], edge_ptr[k + 1]):
            edges[place] = drawn[place + shift]


_count_all_drawn = kernel(lambda threads, count, *arguments: on_team(_count_drawn, threads, count, arguments))
_unite_all = kernel(lambda threads, count, *arguments: on_team(_unite, threads, count, arguments))
_move_all = kernel(lambda threads, count, *arguments: on_team(_move, threads, count, arguments))
