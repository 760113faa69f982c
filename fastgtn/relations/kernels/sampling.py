"""The loops of the samplers: draws without replacement on CSR, and the segments of the drawn edges.

Random numbers are a function of (seed, round, row), not of a state that calls share: whoever samples a batch, and
the same seed gives the same batch, in any order of sampling.
"""

import numpy as np

from fastgtn.relations.kernels.compile import kernel

Array = np.ndarray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS_27, _BITS_30, _BITS_31, _BITS_32 = (np.uint64(bits) for bits in (27, 30, 31, 32))
_LOW = np.uint64(0xFFFFFFFF)
_SHORT = 32  # up to this many numbers, insertion beats a general sort


@kernel
def _scrambled(x: np.uint64) -> np.uint64:
    """The output function of splitmix64: neighbouring numbers become unrelated ones."""
    x = (x ^ (x >> _BITS_30)) * _MIX_1
    x = (x ^ (x >> _BITS_27)) * _MIX_2
    return x ^ (x >> _BITS_31)


@kernel
def _stream(seed: np.uint64, turn: int, row: int) -> np.uint64:
    """Where the random numbers of one row in one round start."""
    return _scrambled(_scrambled(_scrambled(seed + _STEP) ^ np.uint64(turn)) ^ np.uint64(row))


@kernel
def _below(end: int, state: Array) -> np.int64:
    """A random number 0 … end − 1, each equally likely: multiply and shift, rejecting the uneven rest."""
    wide = np.uint64(end)
    while True:
        state[0] += _STEP
        product = (_scrambled(state[0]) >> _BITS_32) * wide
        rest = product & _LOW
        if rest >= wide or rest >= (_LOW - wide + np.uint64(1)) % wide:
            return np.int64(product >> _BITS_32)


@kernel
def uniforms(seed: np.uint64, turn: int, rows: Array) -> Array:
    """One number in (0, 1) for each row."""
    out = np.empty(len(rows), np.float64)
    for k in range(len(rows)):
        out[k] = (np.float64(_stream(seed, turn, rows[k]) >> np.uint64(11)) + 0.5) * 2.0**-53
    return out


@kernel
def count_draws(nodes: Array, row_ptr: Array, seg_ptr: Array, fanout: int, per_relation: bool) -> Array:
    """Where the draws of each node start, int64 [nodes + 1]."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    for k in range(len(nodes)):
        first, last = row_ptr[nodes[k]], row_ptr[nodes[k] + 1]
        count = min(fanout, seg_ptr[last] - seg_ptr[first])
        if per_relation:
            count = 0
            for s in range(first, last):
                count += min(fanout, seg_ptr[s + 1] - seg_ptr[s])
        starts[k + 1] = starts[k] + count
    return starts


@kernel
def _choose(start: int, stop: int, fanout: int, state: Array, taken: Array, draws: Array, place: int) -> int:
    """Put up to `fanout` distinct numbers of start … stop − 1 into `draws` (Floyd's method); returns the next place."""
    size = stop - start
    if size <= fanout:
        for e in range(start, stop):
            draws[place + e - start] = e
        return place + size
    for last in range(size - fanout, size):
        pick = _below(last + 1, state)
        if taken[pick]:
            pick = last
        taken[pick] = True
        draws[place + last - size + fanout] = start + pick
    for k in range(place, place + fanout):
        taken[draws[k] - start] = False
    return place + fanout


@kernel
def draw(
    nodes: Array,
    starts: Array,
    row_ptr: Array,
    seg_ptr: Array,
    fanout: int,
    per_relation: bool,
    seed: np.uint64,
    turn: int,
    most: int,
) -> Array:
    """Edges of each node without replacement, at the places of :func:`count_draws`; `most` is the longest row."""
    draws = np.empty(starts[-1], np.int64)
    taken = np.zeros(most, np.bool_)
    state = np.empty(1, np.uint64)
    for k in range(len(nodes)):
        state[0] = _stream(seed, turn, nodes[k])
        first, last, place = row_ptr[nodes[k]], row_ptr[nodes[k] + 1], starts[k]
        if per_relation:
            for s in range(first, last):
                place = _choose(seg_ptr[s], seg_ptr[s + 1], fanout, state, taken, draws, place)
        else:
            _choose(seg_ptr[first], seg_ptr[last], fanout, state, taken, draws, place)
    return draws


@kernel
def discover(edges: Array, col: Array, number: Array, count: int) -> Array:
    """Number the columns that have no number yet from `count` on; returns them."""
    found = np.empty(len(edges), np.int32)
    new = 0
    for e in edges:
        j = col[e]
        if number[j] < 0:
            number[j] = count + new
            found[new] = j
            new += 1
    return found[:new].copy()


@kernel
def unite(
    found: Array, first: Array, counts: Array, starts: Array, draws: Array, lengths: Array
) -> tuple[Array, Array]:
    """The sorted distinct edges of each row over all rounds, with row pointers.

    Args:
        found: For each row, when its node was found: round r drew for the first ``counts[r]`` nodes, and what it
            drew for node k is ``draws[starts[first[r] + k] : starts[first[r] + k + 1]]``.
        lengths: All edges of each row in the graph.
    """
    edge_ptr = np.zeros(len(found) + 1, np.int64)
    edges = np.empty(len(draws), np.int64)
    total = 0
    for k in range(len(found)):
        begin, is_whole = total, False
        for r in range(len(counts)):
            if found[k] >= counts[r] or is_whole:
                continue
            start, stop = starts[first[r] + found[k]], starts[first[r] + found[k] + 1]
            if stop - start == lengths[k]:  # a whole row is sorted, and no other round adds to it
                total, is_whole = begin, True
            for d in range(start, stop):
                edges[total] = draws[d]
                total += 1
        if not is_whole and total > begin:
            total = begin + _sort_distinct(edges[begin:total])
        edge_ptr[k + 1] = total
    return edge_ptr, edges[:total].copy()


@kernel
def _sort_distinct(keys: Array) -> int:
    """Sort in place, repeated keys left out; returns how many there are."""
    if len(keys) > _SHORT:
        keys.sort()
    else:
        for i in range(1, len(keys)):
            key, j = keys[i], i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
    count = 1
    for i in range(1, len(keys)):
        if keys[i] != keys[count - 1]:
            keys[count] = keys[i]
            count += 1
    return count


@kernel
def edges_among(nodes: Array, number: Array, row_ptr: Array, seg_ptr: Array, col: Array) -> tuple[Array, Array]:
    """All edges between numbered nodes, with row pointers."""
    edge_ptr = np.zeros(len(nodes) + 1, np.int64)
    edges = np.empty(1024, np.int64)
    total = 0
    for k in range(len(nodes)):
        for e in range(seg_ptr[row_ptr[nodes[k]]], seg_ptr[row_ptr[nodes[k] + 1]]):
            if number[col[e]] >= 0:
                if total == len(edges):
                    edges = np.concatenate((edges, np.empty(len(edges), np.int64)))
                edges[total] = e
                total += 1
        edge_ptr[k + 1] = total
    return edge_ptr, edges[:total].copy()


@kernel
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
    rows = np.zeros(len(nodes) + 1, np.int64)
    relations = np.empty(len(edges), np.int32)
    segments = np.zeros(len(edges) + 1, np.int64)
    columns = np.empty(len(edges), np.int32)
    count = 0
    for k in range(len(nodes)):
        s = row_ptr[nodes[k]]
        is_open = False
        for place in range(edge_ptr[k], edge_ptr[k + 1]):
            e = edges[place]
            while seg_ptr[s + 1] <= e:
                s += 1
                is_open = False
            if not is_open:
                relations[count] = relation[s]
                segments[count] = place
                count += 1
                is_open = True
            columns[place] = number[col[e]]
        rows[k + 1] = count
    segments[count] = len(edges)
    return rows, relations[:count].copy(), segments[: count + 1].copy(), columns


@kernel
def add_to_budget(
    nodes: Array, row_ptr: Array, seg_ptr: Array, col: Array, number: Array, score: Array, candidates: Array
) -> Array:
    """Share one unit per (node, relation) among the neighbours that are not numbered yet; returns the new ones."""
    found = np.empty(1024, np.int32)
    new = 0
    for node in nodes:
        for s in range(row_ptr[node], row_ptr[node + 1]):
            share = 1.0 / (seg_ptr[s + 1] - seg_ptr[s])
            for e in range(seg_ptr[s], seg_ptr[s + 1]):
                j = col[e]
                if number[j] >= 0:
                    continue
                if score[j] == 0:
                    if new == len(found):
                        found = np.concatenate((found, np.empty(len(found), np.int32)))
                    found[new] = j
                    new += 1
                score[j] += share
    return np.concatenate((candidates, found[:new]))
