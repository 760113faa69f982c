"""Random walks and skip-gram in numba, for Node2Vec. One thread, so that a seed gives the same bits."""

from dataclasses import dataclass

import numpy as np
import torch

from fastgtn.errors import InputError
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.relations.kernels.compile import kernel

_TRIES = 1000  # refused draws, after which a neighbour is drawn from the exact weights of all
_FIRST_RATE, _LAST_RATE = 0.025, 0.0001
_POOL = 1 << 18


@dataclass(frozen=True, eq=False)
class WalkGraph:
    """An undirected graph to walk on: for each node its neighbours in order, and running sums of edge weights."""

    ptr: np.ndarray
    col: np.ndarray
    sums: np.ndarray

    @staticmethod
    def of(edges: EdgeList) -> "WalkGraph":
        """All relations as one graph, each edge in both directions."""
        merged = edges.merged()
        both = merged.with_edges(
            torch.cat([merged.rows, merged.cols]), torch.cat([merged.cols, merged.rows]), merged.values.repeat(2)
        ).merged()
        kept = both.values > 0
        rows = both.rows[kept].numpy()
        ptr = np.searchsorted(rows, np.arange(both.num_nodes + 1))
        return WalkGraph(ptr, both.cols[kept].numpy().astype(np.int32), np.cumsum(both.values[kept].double().numpy()))

    @property
    def num_nodes(self) -> int:
        return len(self.ptr) - 1


def random_walks(graph: WalkGraph, starts: np.ndarray, length: int, *, p: float, q: float, seed: int) -> np.ndarray:
    """Second-order walks, one row per start [len(starts), length]; −1 after the end of a walk that cannot continue.

    Args:
        p: The weight of a step back to the last node is 1 / p.
        q: The weight of a step to a node that is not a neighbour of the last one is 1 / q.
    """
    if len(starts) and not 0 <= int(starts.min()) <= int(starts.max()) < graph.num_nodes:
        raise InputError(f"walks start at nodes 0 … {graph.num_nodes - 1}, but got {starts.min()} … {starts.max()}.")
    walks = np.full((len(starts), length), -1, np.int32)
    _walk(graph.ptr, graph.col, graph.sums, starts, p, q, np.uint64(seed), walks)
    return walks


def skip_gram(
    graph: WalkGraph,
    width: int,
    *,
    walk_length: int,
    walks_per_node: int,
    window: int,
    negatives: int,
    p: float,
    q: float,
    seed: int,
) -> np.ndarray:
    """Embeddings that predict which nodes occur near a node on walks, [N, width], float32."""
    random = np.random.default_rng(seed)
    inside = ((random.random((graph.num_nodes, width)) - 0.5) / width).astype(np.float32)
    outside = np.zeros_like(inside)
    pool = _pool(graph)
    rates = np.linspace(_FIRST_RATE, _LAST_RATE, walks_per_node + 1)
    for number in range(walks_per_node):
        starts = random.permutation(graph.num_nodes)
        seeds = random.integers(1, 2**62, 2)
        walks = random_walks(graph, starts, walk_length, p=p, q=q, seed=int(seeds[0]))
        _train(walks, window, negatives, pool, *rates[number : number + 2], np.uint64(seeds[1]), inside, outside)
    return inside


def _pool(graph: WalkGraph) -> np.ndarray:
    """Nodes to draw negatives from: each in proportion to its degree to the power of ¾."""
    shares = np.cumsum(np.diff(graph.ptr) ** 0.75)
    size = max(_POOL, 4 * graph.num_nodes)
    return np.searchsorted(shares, (np.arange(size) + 0.5) / size * shares[-1]).astype(np.int32)


@kernel
def _next(state: np.ndarray) -> float:
    """A uniform number in [0, 1) (xorshift*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return float((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) / 9007199254740992.0


@kernel
def _draw(sums: np.ndarray, start: int, stop: int, state: np.ndarray) -> int:
    """An index in start … stop, drawn by the differences of running sums."""
    below = sums[start - 1] if start else 0.0
    wanted = below + _next(state) * (sums[stop - 1] - below)
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _joined(ptr: np.ndarray, col: np.ndarray, a: int, b: int) -> bool:
    low, high = ptr[a], ptr[a + 1]
    while low < high:
        middle = (low + high) // 2
        if col[middle] == b:
            return True
        if col[middle] < b:
            low = middle + 1
        else:
            high = middle
    return False


@kernel
def _bias(ptr: np.ndarray, col: np.ndarray, last: int, chosen: int, p: float, q: float) -> float:
    if chosen == last:
        return 1.0 / p
    return 1.0 if _joined(ptr, col, last, chosen) else 1.0 / q


@kernel
def _draw_biased(
    ptr: np.ndarray, col: np.ndarray, sums: np.ndarray, node: int, last: int, p: float, q: float, state: np.ndarray
) -> int:
    """A neighbour drawn by weight times bias, from the sums over all neighbours: slower, but never without end."""
    total = 0.0
    for place in range(ptr[node], ptr[node + 1]):
        weight = sums[place] - (sums[place - 1] if place else 0.0)
        total += weight * _bias(ptr, col, last, col[place], p, q)
    wanted, chosen = _next(state) * total, col[ptr[node + 1] - 1]
    for place in range(ptr[node], ptr[node + 1]):
        weight = sums[place] - (sums[place - 1] if place else 0.0)
        wanted -= weight * _bias(ptr, col, last, col[place], p, q)
        if wanted < 0:
            chosen = col[place]
            break
    return chosen


@kernel
def _walk(
    ptr: np.ndarray,
    col: np.ndarray,
    sums: np.ndarray,
    starts: np.ndarray,
    p: float,
    q: float,
    seed: int,
    walks: np.ndarray,
) -> None:
    state = np.array([seed], np.uint64)
    largest = max(1.0, 1.0 / p, 1.0 / q)
    for w in range(len(starts)):
        node, last = starts[w], -1
        walks[w, 0] = node
        for step in range(1, walks.shape[1]):
            if ptr[node] == ptr[node + 1]:
                break
            chosen = -1
            for _ in range(_TRIES):  # draw by weight, then accept by the bias of p and q
                drawn = col[_draw(sums, ptr[node], ptr[node + 1], state)]
                if last < 0 or (p == 1.0 and q == 1.0) or _next(state) * largest < _bias(ptr, col, last, drawn, p, q):
                    chosen = drawn
                    break
            if chosen < 0:  # extreme p and q refuse nearly everything
                chosen = _draw_biased(ptr, col, sums, node, last, p, q, state)
            last, node = node, chosen
            walks[w, step] = node


@kernel
def _train(
    walks: np.ndarray,
    window: int,
    negatives: int,
    pool: np.ndarray,
    first_rate: float,
    last_rate: float,
    seed: int,
    inside: np.ndarray,
    outside: np.ndarray,
) -> None:
    """One pass of skip-gram with negative sampling over the walks; the learning rate falls linearly."""
    state = np.array([seed], np.uint64)
    others = np.empty(negatives + 1, np.int64)
    change = np.empty(inside.shape[1], inside.dtype)
    for w in range(len(walks)):
        rate = np.float32(first_rate + (last_rate - first_rate) * w / len(walks))
        for here in range(walks.shape[1]):
            if walks[w, here] < 0:
                break
            reach = 1 + int(_next(state) * window)  # near nodes count more, because the window size is random
            others[0] = walks[w, here]
            for n in range(1, negatives + 1):  # one draw is used for the whole window
                others[n] = pool[int(_next(state) * len(pool))]
            for there in range(max(0, here - reach), min(walks.shape[1], here + reach + 1)):
                if there != here and walks[w, there] >= 0:
                    _pull(inside, outside, walks[w, there], others, rate, change)


@kernel
def _pull(
    inside: np.ndarray, outside: np.ndarray, node: int, others: np.ndarray, rate: float, change: np.ndarray
) -> None:
    """Move a node toward the first of the others and away from the rest."""
    width = len(change)
    for d in range(width):
        change[d] = 0
    for n in range(len(others)):
        other = others[n]
        if n and other == others[0]:
            continue
        dot = np.float32(0)
        for d in range(width):
            dot += inside[node, d] * outside[other, d]
        step = rate * (np.float32(n == 0) - np.float32(1) / (np.float32(1) + np.exp(-dot)))
        for d in range(width):
            change[d] += step * outside[other, d]
        for d in range(width):
            outside[other, d] += step * inside[node, d]
    for d in range(width):
        inside[node, d] += change[d]
