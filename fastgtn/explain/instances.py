"""Find the concrete paths from one node that carry the most weight, exactly and without listing the others."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.paths.walks import Array, Walks


@dataclass(frozen=True)
class Instance:
    """One concrete path: its nodes, numbered within their types, and its share of all walks from the first node."""

    nodes: tuple[int, ...]
    weight: float


def heaviest_instances(walks: Walks, path: MetaPath, node: int, *, total: Array, top: int) -> list[Instance]:
    """The `top` heaviest instances of a meta-path from one node, the mean over channels, best first.

    The weight of an instance is the product of its edges, summed over all assignments of its steps to hops. The search
    extends the most promising prefix; :func:`_ceilings` bounds the heaviest continuation from every node.

    Args:
        total: The degree of the node in the learned graph, [C].
    """
    steps = walks.numbers(path)
    if not steps or top < 1:
        return []
    K, C = walks.shape
    ceilings = _ceilings(walks, steps)
    arrived = np.zeros((K + 1, C))  # by how many hops were taken
    arrived[0] = np.where(total > 0, 1 / np.where(total > 0, total, 1.0), 0.0) / C
    ticket = count()
    queue: list[tuple[float, int, tuple[int, ...], Array]] = [(-1.0, next(ticket), (node,), arrived)]
    found: list[Instance] = []
    while queue and len(found) < top:
        bound, _, nodes, arrived = heapq.heappop(queue)
        taken = len(nodes) - 1
        if taken == len(steps):
            found.append(Instance(nodes, -bound))
            continue
        kind = walks.steps[steps[taken]].near
        mass = _staying(walks.stays[kind][nodes[-1]], arrived)
        for there, arriving in _neighbours(walks, steps[taken], nodes[-1], mass):
            most = float((arriving * ceilings[taken + 1][there]).sum())
            if most > 0:
                heapq.heappush(queue, (-most, next(ticket), (*nodes, there), arriving))
    return found


def _staying(stay: Array, arrived: Array) -> Array:
    """Let the weight that arrives after each hop stay for the following hops, [K + 1, C]."""
    mass = arrived.copy()
    for k, kept in enumerate(stay):
        mass[k + 1] += mass[k] * kept
    return mass


def _neighbours(walks: Walks, step: int, node: int, mass: Array) -> Iterator[tuple[int, Array]]:
    """Each next node, and the weight that arrives there after each hop."""
    alpha = walks.filters[:, :, walks.steps[step].relation]
    moving = mass[:-1] * alpha  # [K, C]
    matrices = walks.matrices[step]
    rows = [
        (m.indices[m.indptr[node] : m.indptr[node + 1]], m.data[m.indptr[node] : m.indptr[node + 1]]) for m in matrices
    ]
    if len(rows) == 1:
        for there, value in zip(*rows[0], strict=True):
            yield int(there), np.concatenate([np.zeros((1, moving.shape[1])), moving * value])
        return
    weights: dict[int, Array] = {}
    for k, (cols, values) in enumerate(rows):
        for there, value in zip(cols.tolist(), values, strict=True):
            weights.setdefault(there, np.zeros((len(alpha), 1)))[k] = value
    for there, per_hop in weights.items():
        yield there, np.concatenate([np.zeros((1, moving.shape[1])), moving * per_hop])


def _ceilings(walks: Walks, steps: Sequence[int]) -> list[Array]:
    """Upper bounds of one continuation for each number of steps, node and hop, [n, K + 1, C].

    After the last step, the walk can only stay, and the bound is the exact weight.
    """
    K, C = walks.shape
    kinds = [walks.steps[steps[0]].near, *(walks.steps[s].far for s in steps)]
    ceilings = [np.zeros((len(walks.stays[kind]), K + 1, C)) for kind in kinds]
    ceilings[-1][:, K] = 1
    for k in reversed(range(K)):
        for taken, kind in enumerate(kinds):
            ceilings[taken][:, k] = walks.stays[kind][:, k] * ceilings[taken][:, k + 1]
            if taken < len(steps):
                alpha = walks.filters[k, :, walks.steps[steps[taken]].relation]
                matrices = walks.matrices[steps[taken]]
                matrix = matrices[0 if len(matrices) == 1 else k]
                ceilings[taken][:, k] += alpha * _row_maxima(matrix, ceilings[taken + 1][:, k + 1])
    return ceilings


def _row_maxima(matrix: Any, values: Array) -> Array:
    """The largest product of an entry of each row with the values [columns, C] of its column; zero in empty rows."""
    most = np.zeros((matrix.shape[0], values.shape[1]))
    filled = np.flatnonzero(np.diff(matrix.indptr))
    if len(filled):
        products = matrix.data[:, None] * values[matrix.indices]
        most[filled] = np.maximum.reduceat(products, matrix.indptr[filled])
    return most
