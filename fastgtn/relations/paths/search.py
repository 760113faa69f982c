"""The heaviest meta-paths, exactly, without looking at all of them."""

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, repeat

import numpy as np

from fastgtn.relations.paths.walks import Array, Walks

# Prefixes are looked at together: one matrix product instead of many products with a vector. Batches grow with the
# search, so that a narrow one takes few steps in vain, and have to fit into the second limit (numbers of mass).
_LARGEST_BATCH, _MOST_MASS = 32, 4_000_000

# Bounds per path length are sharp but take K times the memory; beyond this many numbers one serves all longer paths.
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
class Heaviest:
    """The heaviest non-empty paths in order, and the empty one.

    Args:
        unseen: Upper bound of the weight of a path that the search did not visit; zero if it finished.
    """

    paths: list[FoundPath]
    empty: FoundPath
    unseen: float


@dataclass(frozen=True, eq=False)
class _Prefix:
    steps: tuple[int, ...]
    kind: int  # the node type it ends at
    mass: Array  # [K + 1, n, C]: what has taken exactly these steps after 0 … K hops; zero before hop len(steps)


_Continued = tuple[_Prefix, int]  # a prefix and one more step


class _Frontier:
    """The heaviest paths so far, and the prefixes that may lead to heavier ones."""

    def __init__(self, top: int) -> None:
        self.top, self.ticket = top, count()
        self.heaviest: list[tuple[float, int, _Prefix, int]] = []
        self.queue: list[tuple[float, int, int, _Prefix, int]] = []

    @property
    def floor(self) -> float:
        """What a path has to exceed to be among the heaviest."""
        return self.heaviest[0][0] if len(self.heaviest) == self.top else 0.0

    @property
    def unseen(self) -> float:
        """Upper bound of the weight of an unvisited path; zero if it cannot be among the heaviest."""
        most = -self.queue[0][0] if self.queue else 0.0
        return most if most > self.floor else 0.0

    def add(self, steps: Iterable[tuple[_Prefix, int, float, float]]) -> None:
        """Extended prefixes: their weights as paths, and upper bounds for longer paths."""
        for prefix, step, weight, most in steps:
            if weight > 0:
                item = (weight, -next(self.ticket), prefix, step)
                (heapq.heappush if len(self.heaviest) < self.top else heapq.heappushpop)(self.heaviest, item)
            if most > self.floor:
                # among equal bounds prefer longer prefixes, so that enough paths are found soon
                heapq.heappush(self.queue, (-most, -len(prefix.steps), next(self.ticket), prefix, step))

    def best_first(self, wanted: int) -> Iterator[_Continued]:
        """Take out the prefixes that may lead to the heaviest paths."""
        for _ in range(wanted):
            if not self.unseen:
                return
            yield heapq.heappop(self.queue)[3:]

    def deepest_first(self, wanted: int) -> list[_Continued]:
        """Remove the longest prefixes, and the best among them, because they finish soon."""
        chosen = heapq.nsmallest(wanted, self.queue, key=lambda item: (item[1], item[0]))
        taken = {item[2] for item in chosen}
        self.queue = [item for item in self.queue if item[2] not in taken]
        heapq.heapify(self.queue)
        return [item[3:] for item in chosen]

    def found(self) -> list[_Continued]:
        """The heaviest paths, best first."""
        return [item[2:] for item in sorted(self.heaviest, reverse=True)]


class PathSearch:
    r"""Best-first search from the targets outwards.

    A prefix holds the mass at every node after each hop. What a path of exactly one more step weighs follows from it
    without taking the step. The most that any longer path beginning with it can weigh is bounded by
    :math:`\max_m \sum_k ⟨m_k, U_{km}⟩`, where :math:`U_{km}` bounds what any m further steps can pass on from each
    node in the hops after k:

    .. math:: U_{km} = D_{k+1} U_{k+1,m} + \max_s α_{k+1,s} R_s U_{k+1,m-1}.

    Args:
        start: Weight of each node of the target type, [n, C].
        ends: Which nodes of each type may be the end of a path, [n] of zeros and ones.
    """

    def __init__(self, walks: Walks, target: int, start: Array, ends: list[Array]) -> None:
        self.walks, self.target, self.start, self.ends = walks, target, start, ends
        self.leaving = [[s for s, step in enumerate(walks.steps) if step.near == t] for t in range(len(ends))]
        self.stays = [np.ascontiguousarray(stay.swapaxes(0, 1)) for stay in walks.stays]  # [K, n, C]
        self.bounds = self._bounds()

    def heaviest(self, top: int, limit: int | None = None) -> Heaviest:
        """The `top` heaviest non-empty paths, fewer if there are fewer.

        Args:
            limit: Stop after this many prefixes, and follow only the most promising ones. This matters
                where very many paths have nearly the same weight.
        """
        root = self._root()
        frontier = _Frontier(top)
        prefixes, seen = [root], 0
        while prefixes:
            seen += len(prefixes)
            frontier.add(self._next_steps(prefixes))
            wanted = self._batch(seen) if limit is None or seen < limit else 0
            prefixes = [self._extended(*one) for one in frontier.best_first(wanted)]
        for _ in range(self.walks.shape[0] if frontier.unseen else 0):
            prefixes = [self._extended(*one) for one in frontier.deepest_first(self._batch(seen))]
            frontier.add(self._next_steps(prefixes))
        found = [self._weigh(self._extended(*one)) for one in frontier.found()]
        return Heaviest(sorted(found, key=lambda path: -path.weight), self._weigh(root), frontier.unseen)

    def weigh(self, steps: tuple[int, ...]) -> FoundPath:
        """The weight of one path, whether it is among the heaviest or not."""
        prefix = self._root()
        for step in steps:
            prefix = self._extended(prefix, step)
        return self._weigh(prefix)

    def _batch(self, seen: int) -> int:
        return max(1, min(seen // 8, _LARGEST_BATCH, _MOST_MASS // max(stay.size for stay in self.stays)))

    def _root(self) -> _Prefix:
        arrived = np.zeros((self.walks.shape[0] + 1, *self.start.shape))
        arrived[0] = self.start
        return self._prefix((), self.target, arrived)

    def _extended(self, parent: _Prefix, step: int) -> _Prefix:
        first, (K, C), far = len(parent.steps), self.walks.shape, self.walks.steps[step].far
        arrived = np.zeros((K + 1, len(self.ends[far]), C))
        arrived[first + 1 :] = self.walks.outwards(step, first, parent.mass[first:-1])
        return self._prefix((*parent.steps, step), far, arrived)

    def _prefix(self, steps: tuple[int, ...], kind: int, mass: Array) -> _Prefix:
        """Let the mass that arrives after each hop stay for the hops that follow."""
        for k in range(len(steps), len(mass) - 1):
            mass[k + 1] += mass[k] * self.stays[kind][k]
        return _Prefix(steps, kind, mass)

    def _weigh(self, prefix: _Prefix) -> FoundPath:
        return FoundPath(prefix.steps, self.ends[prefix.kind] @ prefix.mass[-1])

    def _next_steps(self, prefixes: list[_Prefix]) -> Iterator[tuple[_Prefix, int, float, float]]:
        """For every next step: the weight of the path that ends with it, and an upper bound for longer paths."""
        for kind in dict.fromkeys(prefix.kind for prefix in prefixes):
            mine = [prefix for prefix in prefixes if prefix.kind == kind]
            first = min(len(prefix.steps) for prefix in mine)  # no mass before
            mass = np.stack([prefix.mass[first:-1].ravel() for prefix in mine])
            size, K = self.start.shape[1] * len(self.ends[kind]), self.walks.shape[0]
            weight, *longer = (
                bound[:, first * size :] @ mass[:, : max(K - m - first, 0) * size].T
                for m, bound in enumerate(self.bounds[kind])
            )
            most = np.max(longer, 0, initial=0.0) if longer else np.zeros_like(weight)  # [steps, prefixes]
            for place, step in enumerate(self.leaving[kind]):
                yield from zip(mine, repeat(step), weight[place].tolist(), most[place].tolist(), strict=False)

    def _bounds(self) -> list[list[Array]]:
        """Per type and m: what each step that leaves it, followed by m others, can pass on, [steps, (K - m)·n·C]."""
        walks = self.walks
        K, C = walks.shape
        numbers = sum(len(s) * len(e) for s, e in zip(self.leaving, self.ends, strict=True)) * K * C
        lengths = K if numbers * K <= _MOST_BOUNDS else min(K, 2)
        upper = [np.zeros((len(end), lengths + 1, C)) for end in self.ends]
        for bound, end in zip(upper, self.ends, strict=True):
            bound[:, 0] = end[:, None]
        passed = [
            [np.zeros((len(steps), K - m, len(end), C)) for m in range(lengths)]
            for steps, end in zip(self.leaving, self.ends, strict=True)
        ]
        for k in reversed(range(K)):
            possible = min(K - k, lengths)
            after = [stay[:, k, None] * bound for stay, bound in zip(walks.stays, upper, strict=True)]
            if lengths < K:  # the last bound is for all greater lengths, too
                for bound in upper:
                    np.maximum(bound[:, -2], bound[:, -1], out=bound[:, -2])
            for steps, mine, bound in zip(self.leaving, passed, after, strict=True):
                for place, step in enumerate(steps):
                    arrived = walks.inwards(step, k, upper[walks.steps[step].far][:, :possible])
                    for m in range(possible):
                        mine[m][place, k] = arrived[:, m]
                for m in range(possible if steps else 0):
                    bound[:, m + 1] += mine[m][:, k].max(0)
            upper = after
        return [[bound.reshape(len(bound), math.prod(bound.shape[1:])) for bound in bounds] for bounds in passed]
