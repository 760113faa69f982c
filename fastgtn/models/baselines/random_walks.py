"""Random walks and skip-gram in numba: what Node2Vec learns from. One thread, so that a seed gives the same bits."""

from dataclasses import dataclass

import numpy as np
import torch

from fastgtn.models.baselines.edge_list import EdgeList
from fastgtn.relations.compile import kernel

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
    """Second-order walks, one row per start [len(starts), length]; −1 after the end of one that cannot go on.

    Args:
        p: A step back to the last node weighs 1 / p.
        q: A step to a node that is no neighbour of the last one weighs 1 / q.
    """
    walks = np.full((len(starts), length), -1, np.int32)
    _walk(graph.ptr, graph.col, graph.sums, starts, p, q, np.uint64(seed), walks)
    return walks


def skip_gram(
    graph: WalkGraph, width: int, *, walk_length: int, walks_per_node: int, window: int, negatives: int, p: float,
    q: float, seed: int,
) -> np.ndarray:  # fmt: skip
    """Embeddings of nodes that tell which nodes occur near them on walks [N, width], float32."""
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
    """Nodes to draw negatives from: each as often as its degree to the power of ¾ asks for."""
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
    """A place in start … stop, by the differences of running sums."""
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
def _walk(
    ptr: np.ndarray, col: np.ndarray, sums: np.ndarray, starts: np.ndarray, p: float, q: float, seed: int,
    walks: np.ndarray,
) -> None:  # fmt: skip
    state = np.array([seed], np.uint64)
    largest = max(1.0, 1.0 / p, 1.0 / q)
    for w in range(len(starts)):
        node, last = starts[w], -1
        walks[w, 0] = node
        for step in range(1, walks.shape[1]):
            if ptr[node] == ptr[node + 1]:
                break
            while True:  # draw by weight, then accept by the bias of p and q
                chosen = col[_draw(sums, ptr[node], ptr[node + 1], state)]
                if last < 0 or (p == 1.0 and q == 1.0):
                    break
                bias = 1.0 / p if chosen == last else 1.0 if _joined(ptr, col, last, chosen) else 1.0 / q
                if _next(state) * largest < bias:
                    break
            last, node = node, chosen
            walks[w, step] = node


@kernel
def _train(
    walks: np.ndarray, window: int, negatives: int, pool: np.ndarray, first_rate: float, last_rate: float,
    seed: int, inside: np.ndarray, outside: np.ndarray,
) -> None:  # fmt: skip
    """One pass of skip-gram with negative sampling over the walks; the rate falls evenly."""
    state = np.array([seed], np.uint64)
    others = np.empty(negatives + 1, np.int64)
    change = np.empty(inside.shape[1], inside.dtype)
    for w in range(len(walks)):
        rate = np.float32(first_rate + (last_rate - first_rate) * w / len(walks))
        for here in range(walks.shape[1]):
            if walks[w, here] < 0:
                break
            reach = 1 + int(_next(state) * window)  # near nodes count more: the window is drawn anew each time
            others[0] = walks[w, here]
            for n in range(1, negatives + 1):  # one draw serves the whole window
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
