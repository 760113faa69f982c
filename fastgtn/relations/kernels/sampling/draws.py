"""Random draws without replacement on CSR.

Random numbers are a function of (seed, round, row), not of a state that calls share: whoever samples a batch, and
the same seed gives the same batch, in any order of sampling.
"""

import numpy as np

from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.team import on_team

Array = np.ndarray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS_27, _BITS_30, _BITS_31, _BITS_32 = (np.uint64(bits) for bits in (27, 30, 31, 32))
_LOW = np.uint64(0xFFFFFFFF)
ROWS = 1024  # that one thread handles at a time: less work is not worth waking it up


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
def _below(end: int, state: np.uint64) -> tuple[np.int64, np.uint64]:
    """A random number 0 … end − 1, each equally likely: multiply and shift, rejecting the uneven rest."""
    wide = np.uint64(end)
    while True:
        state += _STEP
        product = (_scrambled(state) >> _BITS_32) * wide
        rest = product & _LOW
        if rest >= wide or rest >= (_LOW - wide + np.uint64(1)) % wide:
            return np.int64(product >> _BITS_32), state


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
    arrays = (nodes, starts, row_ptr, seg_ptr, fanout, per_relation, seed, turn, most, draws)
    run_ranges(_draw, _draw_all, parts(len(nodes)), *arrays)
    return draws


def parts(rows: int) -> int:
    """The items of a range that threads share."""
    return -(-rows // ROWS)


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


@kernel
def _draw(
    begin: int,
    end: int,
    nodes: Array,
    starts: Array,
    row_ptr: Array,
    seg_ptr: Array,
    fanout: int,
    per_relation: bool,
    seed: np.uint64,
    turn: int,
    most: int,
    draws: Array,
) -> None:
    """Up to `fanout` distinct edges of each row, or of each of its segments (Floyd's method)."""
    taken = np.zeros(most, np.bool_)
    for k in range(begin * ROWS, min(end * ROWS, len(nodes))):
        state, place = _stream(seed, turn, nodes[k]), starts[k]
        first, last = row_ptr[nodes[k]], row_ptr[nodes[k] + 1]
        step = 1 if per_relation else last - first
        while first < last:
            start, stop = seg_ptr[first], seg_ptr[first + step]
            first += step
            size = stop - start
            if size <= fanout:
                for e in range(start, stop):
                    draws[place + e - start] = e
                place += size
                continue
            for top in range(size - fanout, size):
                pick, state = _below(top + 1, state)
                if taken[pick]:
                    pick = top
                taken[pick] = True
                draws[place + top - size + fanout] = start + pick
            for d in range(place, place + fanout):
                taken[draws[d] - start] = False
            place += fanout


_draw_all = kernel(lambda threads, count, *arguments: on_team(_draw, threads, count, arguments))
