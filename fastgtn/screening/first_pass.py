r"""A first look at very many paths, which decides which of them are tested.

The look takes :math:`T_p(Y) = ‖Y^\top A_p X‖^2`, the covariance of the labels with the features of a path. A path is a
head and a tail, and :math:`Y^\top A_p X = (A_{\mathrm{head}}^\top Y)^\top (A_{\mathrm{tail}} X)`. So the products of a
few hundred heads and a few hundred tails, which are dense and small, cover a hundred thousand paths.

Permuted labels are looked at in the same way, and each order of the labels names as many paths as the true one. The
paths that are tested afterwards are therefore no better chosen for the true labels than for permuted ones, and their
family-wise p-values count all paths that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.relations.paths.decomposition import Decomposition

Array = np.ndarray
Steps = tuple[int, ...]
WIDTH = 8  # wider features are mixed down to this many columns
LABEL_COLUMNS = 4  # and so are labels
HEAD_STEPS = 2
NAMED_BY_EACH = 10  # paths that each order of the labels names
NAMED_BY_LABELS = 300  # paths that the true order names for the choice of further paths
BLOCK = 1 << 22  # numbers that one dense product gives


@dataclass(frozen=True)
class Promising:
    """The paths to test, by their steps.

    Args:
        fair: Named by true and permuted labels alike.
        further: Named by the true labels alone, so they cannot show that there is a signal at all.
        num_seen: How many paths were looked at.
    """

    fair: list[Steps]
    further: list[Steps]
    num_seen: int


class FirstPass:
    """The look at all paths of K steps of a decomposition.

    Args:
        start: The number of the target type.
        features: Features of all nodes of each type.
        orders: Centred labels, the true order first, then permutations: [n, orders · columns].
        columns: Of each order.
        means: Let every step take the mean over neighbours, where a path will be tested by its mean over instances.
    """

    def __init__(
        self,
        parts: Decomposition,
        start: int,
        features: dict[str, Tensor],
        orders: Array,
        columns: int,
        *,
        means: bool,
        seed: int,
    ) -> None:
        self.parts, self.start, self.means = parts, start, means
        generator = torch.Generator().manual_seed(seed)
        self.num_orders = orders.shape[1] // columns
        labels = torch.from_numpy(orders).float().unflatten(1, (self.num_orders, columns))
        self.labels = _mixed(labels, LABEL_COLUMNS, generator)  # [n, orders, at most LABEL_COLUMNS]
        self.features = {kind: _mixed(x.float(), WIDTH, generator) for kind, x in sorted(features.items())}
        self.head_steps = min(HEAD_STEPS, len(parts) - 1)
        self._matrices: dict[tuple[int, int], Any] = {}

    def cost(self) -> tuple[float, float]:
        """Multiplications of all dense products, and bytes of all tails."""
        kinds = len(self.parts.node_types)
        ways = np.zeros((kinds, kinds))  # steps from each type to each other one
        for step in self.parts.steps:
            ways[step.near, step.far] += 1
        heads = np.linalg.matrix_power(ways, self.head_steps)[self.start]
        columns = np.array([self._width(kind) for kind in range(kinds)])
        columns = np.linalg.matrix_power(ways, len(self.parts) - self.head_steps) @ columns  # of all tails of a type
        tails = np.array(self.parts.counts[self.head_steps]) * columns
        return float(heads @ tails) * self.labels[0].numel(), 4 * float(tails.sum())

    @torch.no_grad()
    def promising(self) -> Promising:
        """Look at every path, and let every order of the labels name some."""
        tails: dict[int, list[tuple[list[Steps], Tensor]]] = {}
        for kind, width, some in _grouped(self._tails()):
            size = max(1, BLOCK // (self.labels[0].numel() * width))
            for part in (some[first : first + size] for first in range(0, len(some), size)):
                side_by_side = torch.cat([product for _, product in part], 1)  # [nodes, tails · d]
                tails.setdefault(kind, []).append(([steps for steps, _ in part], side_by_side))
        best = _Best()
        for head, kind, labels in self._heads((), self.start, self.labels.flatten(1).t(), 0):
            for steps, products in tails.get(kind, []):
                found = (
                    (labels @ products).square_().view(self.num_orders, -1, len(steps), products.shape[1] // len(steps))
                )
                best.add([head + tail for tail in steps], found.sum((1, 3)).double())
        return best.promising()

    def _heads(self, steps: Steps, kind: int, labels: Tensor, level: int) -> Iterator[tuple[Steps, int, Tensor]]:
        """Every beginning of a path and the labels that it carries to the nodes at its end, [columns, nodes]."""
        if level == self.head_steps:
            yield steps, kind, labels
            return
        for number in self.parts.leaving[kind]:
            matrix = self._matrix(number, level)
            reached = torch.from_numpy(np.ascontiguousarray((matrix.T @ labels.numpy().T).T))
            if bool(reached.any()):
                yield from self._heads((*steps, number), self.parts.steps[number].far, reached, level + 1)

    def _tails(self) -> list[tuple[Steps, int, Tensor]]:
        """Every end of a path, the type where it begins, and its features at the nodes there, [nodes, d]."""
        parts = self.parts
        found: list[tuple[Steps, int, Tensor]] = [
            ((), kind, self.features[name][parts.inputs[kind]])
            for kind, name in enumerate(parts.node_types)
            if name in self.features
        ]
        for level in range(len(parts) - 1, self.head_steps - 1, -1):
            found = [
                ((number, *steps), step.near, torch.from_numpy(self._matrix(number, level) @ x.numpy()))
                for steps, kind, x in found
                for number, step in enumerate(parts.steps)
                if step.far == kind
            ]
        return found

    def _matrix(self, number: int, level: int) -> Any:
        """The edges of a step within one hop; every path that takes the step shares them."""
        if (number, level) not in self._matrices:
            matrix = self.parts.blocks[number][level].matrix.astype(np.float32)
            if self.means:
                sums = np.asarray(matrix.sum(1))
                matrix = matrix.multiply(1 / np.where(sums == 0, 1, sums)).tocsr()
            self._matrices[number, level] = matrix
        return self._matrices[number, level]

    def _width(self, kind: int) -> int:
        features = self.features.get(self.parts.node_types[kind])
        return 0 if features is None else features.shape[1]


class _Best:
    """The paths that stand out most for each order of the labels."""

    def __init__(self) -> None:
        self.paths: list[Steps] = []
        self.num_seen = 0
        self.for_each: list[tuple[Tensor, Tensor]] = []  # how far paths stand out and their numbers, [orders, k]
        self.for_labels: list[tuple[Tensor, Tensor]] = []  # the same for the true order alone, [1, k]

    def add(self, paths: list[Steps], values: Tensor) -> None:
        """Add the values [orders, paths] of some paths. Paths that no labelled node can take are left out."""
        total = values.sum(0)
        self.num_seen += int((total > 0).sum())
        others = len(values) - 1
        mean = (total - values) / others  # every order is compared with all others
        variance = (values.square().sum(0) - values.square()) / others - mean.square()
        apart = (values - mean) / variance.clamp(min=1e-30).sqrt()
        apart[:, total <= 0] = -torch.inf
        first = len(self.paths)
        self.paths += paths
        self.for_each.append(_largest(apart, NAMED_BY_EACH, first))
        self.for_labels.append(_largest(apart[:1], NAMED_BY_LABELS, first))

    def promising(self) -> Promising:
        fair = dict.fromkeys(self._named(self.for_each, NAMED_BY_EACH))
        further = [path for path in self._named(self.for_labels, NAMED_BY_LABELS) if path not in fair]
        return Promising(list(fair), further, self.num_seen)

    def _named(self, found: list[tuple[Tensor, Tensor]], most: int) -> list[Steps]:
        """The paths that stand out most over all blocks, order by order."""
        if not found:
            return []
        apart, numbers = (torch.cat(pieces, 1) for pieces in zip(*found, strict=True))
        top, places = apart.topk(min(most, apart.shape[1]), 1)
        return [self.paths[n] for n in numbers.gather(1, places)[top > -torch.inf].tolist()]


def _largest(values: Tensor, most: int, first: int) -> tuple[Tensor, Tensor]:
    top, places = values.topk(min(most, values.shape[1]), 1)
    return top, places + first


def _grouped(tails: list[tuple[Steps, int, Tensor]]) -> Iterator[tuple[int, int, list[tuple[Steps, Tensor]]]]:
    """Tails that begin at one type and have the same width, which is not zero: type, width, steps and products."""
    groups: dict[tuple[int, int], list[tuple[Steps, Tensor]]] = {}
    for steps, kind, product in tails:
        groups.setdefault((kind, product.shape[1]), []).append((steps, product))
    yield from ((kind, width, some) for (kind, width), some in groups.items() if width)


def _mixed(x: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """The same columns, or `width` random combinations of them where there are more."""
    if x.shape[-1] <= width:
        return x
    return x @ (torch.randn(x.shape[-1], width, generator=generator) / width**0.5)
