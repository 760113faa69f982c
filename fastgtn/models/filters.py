"""The weights that choose relations, one row of them per hop and channel."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.relations import Relation


class HopFilters(nn.Module):
    r"""Soft choices of relations, :math:`\alpha = \mathrm{softmax}(\phi)`, shape [K, C, T].

    Hops are in product order: index 0 stands leftmost, next to the target node.

    Args:
        relations: The T relations that the columns stand for.
        init_std: Spread of the initial logits :math:`\phi`; zero would make all channels learn the same.
    """

    def __init__(
        self, path_length: int, num_channels: int, relations: Sequence[Relation], *, init_std: float = 0.1
    ) -> None:
        super().__init__()
        if path_length < 1 or num_channels < 1:
            raise InputError(
                f"path_length and num_channels must be at least 1, but got {path_length} and {num_channels}."
            )
        if not relations:
            raise InputError("the model needs at least one relation. Pass relations=stack.relations.")
        self.relations = tuple(Relation(*relation) for relation in relations)
        self.logits = nn.Parameter(torch.randn(path_length, num_channels, len(self.relations)) * init_std)
        self.fixed: Tensor | None
        self.register_buffer("fixed", None)

    def fix(self, weights: Tensor) -> None:
        """Use these numbers, of any sign and sum, instead of learned ones; shape [K, C, T]."""
        if weights.shape != self.logits.shape:
            raise InputError(f"filters must have shape {tuple(self.logits.shape)}, but got {tuple(weights.shape)}.")
        self.fixed = weights.detach().to(self.logits.dtype).clone()
        self.logits.requires_grad_(False)

    def forward(self) -> Tensor:
        return self.logits.softmax(-1) if self.fixed is None else self.fixed

    def extra_repr(self) -> str:
        K, C, T = self.logits.shape
        return f"path_length={K}, num_channels={C}, relations={T}" + (", fixed" if self.fixed is not None else "")
