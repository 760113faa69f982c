r"""Rows whose meta-path features are computed once: a pass of a one-layer model then reads no edges.

Without dropout, with features that are not learned, everything before the activation is linear in the input. For
wanted rows :math:`F_1 ⋯ F_K X W = \sum_w c_w(α) G_w W`, exactly, where the :math:`G_w` are tables of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import Relation
from fastgtn.relations.paths.trie import PathTrie


@dataclass(frozen=True, eq=False)
class UnrolledBlock:
    """The paths that end at nodes with one kind of features."""

    key: str
    words: Tensor  # their numbers in the trie, [P]
    tables: Tensor  # [B, P, F]; means over the paths of a row where there are degrees
    degrees: Tensor | None  # float64 [B, P]: the weight of the paths of each row


@dataclass(frozen=True, eq=False)
class UnrolledRows:
    """Requested rows with the features of all their paths; GTN and FastGTN read them instead of planned hops."""

    relations: tuple[Relation, ...]
    inputs: Tensor  # the rows themselves: beside the tables only their own features are read
    trie: PathTrie
    blocks: tuple[UnrolledBlock, ...]

    @property
    def cost(self) -> int:
        return sum(block.tables.numel() for block in self.blocks)

    @property
    def num_paths(self) -> int:
        """Paths other than the empty one."""
        return sum(len(block.words) for block in self.blocks)

    def require(self, features: Features, relations: Sequence[Relation], num_hops: int, *, means: bool) -> None:
        """Refuse to serve a model that these rows were not unrolled for."""
        has_degrees = all(block.degrees is not None for block in self.blocks)
        fits = tuple(relations) == self.relations and num_hops == self.trie.num_hops
        if not fits or (self.blocks and has_degrees != means):
            raise InputError(
                "these rows were unrolled for another model, or for other relations or another path length. "
                "Use Unrolling.of(model, stack, rows, features).compute()."
            )
        if features.num_rows != len(self.inputs):
            raise InputError(
                f"there are {features.num_rows} feature rows for {len(self.inputs)} unrolled rows. "
                "Select them with features.select(rows.inputs)."
            )

    def sums(self, own: Tensor, weights: InputLinear, filters: Tensor) -> Tensor:
        r"""The wanted rows of :math:`F_1 ⋯ F_K X W`, [B, C, d], for FastGTN.

        Args:
            own: XW of the rows themselves, [B, C, d]: what the empty path brings.
        """
        share = self._by_row(self.trie.coefficients(filters)).to(own.dtype)  # [B, C, M]
        total = share[:, :, :1] * own
        for block in self.blocks:
            mixed = torch.bmm(share[:, :, block.words], block.tables)  # [B, C, F]
            W = _weight(weights, block.key).unflatten(1, (own.size(1), -1))  # [F, C, d]
            total = total + torch.bmm(mixed.transpose(0, 1), W.transpose(0, 1)).transpose(0, 1)
        return total

    def means(self, own: Tensor, weights: InputLinear, filters: Tensor) -> tuple[Tensor, Tensor]:
        r"""The wanted rows of :math:`\mathrm{rownorm}(F_1 ⋯ F_K) X W`, [B, C, d], and their degrees, for GTN.

        Args:
            own: XW of the rows themselves, [B, d].
        """
        c = self._by_row(self.trie.coefficients(filters))
        mass = [c[:, :, block.words] * block.degrees[:, None] for block in self.blocks if block.degrees is not None]
        degree = c[:, :, 0] + sum(part.sum(2) for part in mass)  # float64 [B, C]
        inverse = (1 / torch.where(degree > 0, degree, 1.0))[:, :, None]
        mean = (c[:, :, :1] * inverse).to(own.dtype) * own[:, None]
        for block, part in zip(self.blocks, mass, strict=True):
            mixed = torch.bmm((part * inverse).to(own.dtype), block.tables)  # [B, C, F]
            mean = mean + mixed @ _weight(weights, block.key)
        return mean, degree[:, :, None]

    def _by_row(self, coefficients: Tensor) -> Tensor:
        return coefficients[self.trie.row_start]


def _weight(weights: InputLinear, key: str) -> Tensor:
    return weights.weights[weights.keys.index(key)]
