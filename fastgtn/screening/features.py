"""The features of every path at the sampled training nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.nn.inputs.columns import BY_COLUMN, column_scales
from fastgtn.nn.inputs.features import FeatureBlock, Features, SparseMatrix
from fastgtn.relations import IDENTITY, RelationStack
from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.paths.products import PathProducts

Array = np.ndarray
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class PathFeatures:
    r"""The product :math:`A_p X` for the sampled rows, or the mean over the instances of the path.

    Args:
        is_further: Whether a first pass named the path for the true labels only.
    """

    path: MetaPath
    values: Array  # [n, m]
    is_further: bool = False


@dataclass(frozen=True, eq=False)
class PathSource:
    """Paths from some nodes of one type outwards, length by length. Steps that stay are not counted as steps.

    Args:
        nodes: Numbers within the target type.
        features: Features of all nodes of each type, wide ones mixed down.
        means: Divide by the weight of all instances, as GTN does; otherwise the product is taken as it is.
    """

    stack: RelationStack
    target: str
    nodes: Tensor
    features: dict[str, Tensor]
    means: bool

    @staticmethod
    def of(
        stack: RelationStack, features: Features, target: str, nodes: Tensor, *, means: bool, width: int, seed: int
    ) -> PathSource:
        """Mix wide features down to `width` columns; a type without features has one column for each node."""
        generator = torch.Generator().manual_seed(seed)
        narrow: dict[str, Tensor] = {}
        for block in features.blocks:
            mixed = _mixed(block, width, generator)
            if block.matrix is None and block.nodes is not None:
                mixed = mixed[block.nodes]  # embeddings of some nodes, which may occur several times
            if block.places is None:  # one matrix for all types
                narrow |= {t: mixed[stack.nodes_of(t).start : stack.nodes_of(t).stop] for t in stack.node_types}
            else:
                narrow[block.key] = mixed
        return PathSource(stack, target, nodes, narrow, means)

    def own(self) -> PathFeatures:
        """The features of the nodes themselves: the empty path."""
        return PathFeatures(MetaPath((), (self.target,)), self.features[self.target][self.nodes].double().numpy())

    @property
    def kind(self) -> int:
        """The number of the target type."""
        return self.stack.node_types.index(self.target)

    def taken_apart(self, length: int) -> Decomposition:
        """As many hops as this from the nodes outwards, as steps."""
        hops = self.stack.hops(length, self.nodes + self.stack.nodes_of(self.target).start)
        return Decomposition.of(self.stack.node_types, self.stack.node_counts, hops)

    def of_length(self, parts: Decomposition, *, most: int) -> PathsOfLength | None:
        """The paths of as many steps as there are hops; None where more than `most` have at most as many."""
        paths = list(parts.effective_paths(self.kind, most=most + 1))
        if len(paths) > most:
            return None
        return PathsOfLength(self, parts, [path for path in paths if len(path) == len(parts)])


@dataclass(frozen=True, eq=False)
class PathsOfLength:
    """The paths of one length as numbers of steps; iterate over it for their features."""

    source: PathSource
    parts: Decomposition
    paths: list[tuple[int, ...]]
    further: frozenset[tuple[int, ...]] = frozenset()

    def __len__(self) -> int:
        return len(self.paths)

    @torch.no_grad()
    def __iter__(self) -> Iterator[PathFeatures]:
        features, means = self.source.features, self.source.means
        if means:  # one column of ones counts the instances
            features = {t: torch.cat([x, x.new_ones(len(x), 1)], 1) for t, x in features.items()}
        for number, _, product in PathProducts(self.parts, self.paths).of_types(features):
            values: Array = product.double().numpy()
            if means:
                weight = values[:, -1:]
                values = values[:, :-1] / np.where(weight > 0, weight, 1.0)
            steps = self.paths[number]
            yield PathFeatures(self.parts.path(self.source.kind, steps), values, steps in self.further)


def count_walks(stack: RelationStack, target: str, longest: int) -> int:
    """How many paths up to some length the schema allows, the empty one included."""
    ends, total = {target: 1}, 1
    steps = [(relation.target, relation.source) for relation in stack.relations if relation != IDENTITY]
    for _ in range(longest):
        after: dict[str, int] = {}
        for near, far in steps:
            after[far] = after.get(far, 0) + ends.get(near, 0)
        ends, total = after, total + sum(after.values())
    return total


def _mixed(block: FeatureBlock, width: int, generator: torch.Generator) -> Tensor:
    """The features of a block, or `width` random combinations of them where there are more."""
    is_wide, matrix = block.width > width, block.matrix
    mixing = torch.randn(block.width, width, generator=generator) / width**0.5 if is_wide else torch.eye(block.width)
    if matrix is None:
        return mixing
    if isinstance(matrix, SparseMatrix):
        return matrix @ mixing.to(matrix.values.dtype)
    dtype = matrix.dtype if matrix.dtype == torch.float64 else torch.float32
    mixing, shift = mixing.to(dtype), torch.zeros((), dtype=dtype)
    if block.scaling in BY_COLUMN:
        mean, deviation = (statistic.to(dtype) for statistic in column_scales(matrix, block.scaling))
        mixing = mixing / deviation[:, None]
        shift = mean @ mixing
    elif not is_wide:
        return matrix.to(dtype)
    # features may be stored in half precision, in a file that is larger than the memory
    mixed = torch.empty(len(matrix), mixing.size(1), dtype=dtype)
    for part, out in zip(matrix.split(ROWS_AT_ONCE), mixed.split(ROWS_AT_ONCE), strict=True):
        torch.sub(part.to(dtype) @ mixing, shift, out=out)
    return mixed
