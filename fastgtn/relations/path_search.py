"""The heaviest meta-paths, exactly, without looking at all of them."""

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from fastgtn.relations.walks import Array, Walks

# Bounds per path length are sharp but take K + 1 times the memory; beyond this many numbers one bound must do.
_MOST_BOUNDS = 30_000_000


@dataclass(frozen=True, eq=False)
class FoundPath:
    """A path as numbers of steps, and its weight in each channel."""

    steps: tuple[int, ...]
    weights: Array  # [C]

    @property
    def weight(self) -> float:
        return float(self.weights.sum())


@dataclass(frozen=True, eq=False)
class _Prefix:
    steps: tuple[int, ...]
    kind: int  # the node type it ends at
    mass: Array  # [n, K + 1, C]: what has taken exactly these steps after 0 … K hops


class PathSearch:
    r"""Best-first search from the targets outwards.

    A prefix holds the mass at every node after each hop. The most that any path beginning with it can weigh is
    bounded by :math:`\max_m \sum_k ⟨m_k, U_{km}⟩`, where :math:`U_{km}` bounds what any m further steps can pass on
    from each node in the hops after k:

    .. math:: U_{km} = D_{k+1} U_{k+1,m} + \max_s α_{k+1,s} R_s U_{k+1,m-1}.

    Args:
        start: Weight of each node of the target type, [n, C].
        ends: Which nodes of each type may be the end of a path, [n] of zeros and ones.
    """

    def __init__(self, walks: Walks, target: int, start: Array, ends: list[Array]) -> None:
        self.walks, self.target, self.start, self.ends = walks, target, start, ends
        self.leaving = [[s for s, step in enumerate(walks.steps) if step.near == t] for t in range(len(ends))]
        self.bounds = self._bounds()

    def heaviest(self, top: int) -> list[FoundPath]:
        """The `top` heaviest non-empty paths in order, fewer if there are fewer; after them the empty path."""
        root = self._prefix((), self.target, None)
        best: list[tuple[float, int, FoundPath]] = []
        ticket = count()
        queue: list[tuple[float, int, int, _Prefix, int]] = []

        def push(prefix: _Prefix) -> None:
            for step, bound in zip(self.leaving[prefix.kind], self._child_bounds(prefix), strict=True):
                if bound > (best[0][0] if len(best) == top else 0.0):
                    # among equals go deep: then as many paths as are wanted are found soon
                    heapq.heappush(queue, (-bound, -len(prefix.steps), next(ticket), prefix, step))

        push(root)
        while queue and (len(best) < top or -queue[0][0] > best[0][0]):
            _, _, _, parent, step = heapq.heappop(queue)
            prefix = self._extended(parent, step)
            found = self._weigh(prefix)
            if found.weight > 0:
                item = (found.weight, -next(ticket), found)
                (heapq.heappush if len(best) < top else heapq.heappushpop)(best, item)
            if len(prefix.steps) < self.walks.shape[0]:
                push(prefix)
        return [found for _, _, found in sorted(best, key=lambda item: (-item[0], -item[1]))] + [self._weigh(root)]

    def weigh(self, steps: tuple[int, ...]) -> FoundPath:
        """The weight of one path, whether it is among the heaviest or not."""
        prefix = self._prefix((), self.target, None)
        for step in steps:
            prefix = self._extended(prefix, step)
        return self._weigh(prefix)

    def _extended(self, parent: _Prefix, step: int) -> _Prefix:
        arrived = self.walks.outwards(step, parent.mass[:, :-1])
        return self._prefix((*parent.steps, step), self.walks.steps[step].far, arrived)

    def _prefix(self, steps: tuple[int, ...], kind: int, arrived: Array | None) -> _Prefix:
        """Let the mass that arrives at each hop stay for the hops that follow."""
        stay = self.walks.stays[kind]
        n, K, C = stay.shape
        mass = np.zeros((n, K + 1, C))
        if arrived is None:
            mass[:, 0] = self.start
        for k in range(K):
            mass[:, k + 1] = mass[:, k] * stay[:, k]
            if arrived is not None:
                mass[:, k + 1] += arrived[:, k]
        return _Prefix(steps, kind, mass)

    def _weigh(self, prefix: _Prefix) -> FoundPath:
        return FoundPath(prefix.steps, self.ends[prefix.kind] @ prefix.mass[:, -1])

    def _child_bounds(self, prefix: _Prefix) -> list[float]:
        """For every next step, the most that one path through it can weigh."""
        bounds = self.bounds[prefix.kind]
        if not len(bounds):
            return []
        most: list[float] = (bounds @ prefix.mass[:, :-1].ravel()).max(1).tolist()
        return most

    def _bounds(self) -> list[Array]:
        """Per type: what each step that leaves it can pass on, [steps, m, n·K·C]."""
        walks = self.walks
        K, C = walks.shape
        numbers = sum(len(s) * len(e) for s, e in zip(self.leaving, self.ends, strict=True)) * K * C
        lengths = K if numbers * K <= _MOST_BOUNDS else 1
        upper = [np.zeros((len(end), lengths + 1, C)) for end in self.ends]
        for bound, end in zip(upper, self.ends, strict=True):
            bound[:, 0] = end[:, None]
        passed = [np.zeros((len(s), lengths, len(end), K, C)) for s, end in zip(self.leaving, self.ends, strict=True)]
        for k in reversed(range(K)):
            after = [stay[:, k, None] * bound for stay, bound in zip(walks.stays, upper, strict=True)]
            for kind, steps in enumerate(self.leaving):
                for place, step in enumerate(steps):
                    beyond = upper[walks.steps[step].far]
                    # with one bound for all lengths, what any number of further steps passes on is added up
                    beyond = beyond[:, :-1] if lengths > 1 or K == 1 else beyond.sum(1, keepdims=True)
                    passed[kind][place, :, :, k] = walks.inwards(step, k, beyond).swapaxes(0, 1)
                if steps:
                    one_more = passed[kind][:, :, :, k]
                    most = one_more.max(0) if lengths > 1 or K == 1 else one_more.sum(0)
                    after[kind][:, 1:] += most.swapaxes(0, 1)
            upper = after
        return [p.reshape(*p.shape[:2], p[0, 0].size if len(p) else 0) for p in passed]
