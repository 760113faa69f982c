"""The paper's rule, for comparison: the weight of a meta-path is the product of its filter weights."""

import heapq
from collections.abc import Sequence
from itertools import count

import numpy as np

from fastgtn.relations import IDENTITY
from fastgtn.relations.paths.search import FoundPath
from fastgtn.relations.paths.walks import Array, Walks


def plain_weights(walks: Walks, steps: Sequence[int]) -> Array:
    r"""The largest product :math:`\prod_k α_k` over the sequences that spell this path, [C].

    A path shorter than K is padded with the identity. Without an identity it cannot be spelled.
    """
    best = _nothing_taken(walks)
    for step in steps:
        best = _one_more(walks, best, step)
    return best[-1]


def plain_heaviest(walks: Walks, target: int, top: int, *, end: int | None) -> list[FoundPath]:
    """The `top` non-empty paths of the schema by the mean of :func:`plain_weights` over channels."""
    K, C = walks.shape
    ahead = np.ones((K + 1, C))  # upper bound of the factor of the remaining hops
    for k in reversed(range(K)):
        ahead[k] = ahead[k + 1] * walks.filters[k].max(-1)
    ticket = count()
    queue: list[tuple[float, int, tuple[int, ...], Array]] = [(0.0, next(ticket), (), _nothing_taken(walks))]
    best: list[tuple[float, int, FoundPath]] = []
    while queue and (len(best) < top or -queue[0][0] > best[0][0] or not queue[0][2]):
        _, _, steps, products = heapq.heappop(queue)
        kind = walks.steps[steps[-1]].far if steps else target
        found = FoundPath(steps, products[-1] / C)
        if steps and end in (None, kind) and found.weight > 0:
            (heapq.heappush if len(best) < top else heapq.heappushpop)(best, (found.weight, -next(ticket), found))
        if len(steps) == K:
            continue
        for number, step in enumerate(walks.steps):
            if step.near == kind:
                longer = _one_more(walks, products, number)
                bound = float((longer * ahead).max(0).sum() / C)
                if bound > (best[0][0] if len(best) == top else 0.0):
                    heapq.heappush(queue, (-bound, next(ticket), (*steps, number), longer))
    return [found for _, _, found in sorted(best, key=lambda item: (-item[0], -item[1]))]


def _identity(walks: Walks) -> Array:
    """The weight of staying by the identity alone, [K, C]."""
    K, C = walks.shape
    if IDENTITY not in walks.relations:
        return np.zeros((K, C))
    return walks.filters[:, :, walks.relations.index(IDENTITY)]


def _nothing_taken(walks: Walks) -> Array:
    """The product after 0 … K hops without a step, [K + 1, C]."""
    return np.concatenate([np.ones((1, walks.shape[1])), np.cumprod(_identity(walks), axis=0)])


def _one_more(walks: Walks, products: Array, step: int) -> Array:
    """The largest products after 0 … K hops that end with this step and identities."""
    alpha, identity = walks.filters[:, :, walks.steps[step].relation], _identity(walks)
    longer = np.zeros_like(products)
    for k in range(len(alpha)):
        longer[k + 1] = np.maximum(longer[k] * identity[k], products[k] * alpha[k])
    return longer
