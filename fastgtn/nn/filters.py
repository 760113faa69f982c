"""The filters: the weights of relations for each hop and channel."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.relations import IDENTITY, Relation


class HopFilters(nn.Module):
    r"""Learned weights of relations, :math:`\alpha = \mathrm{softmax}(\phi)`, shape [K, C, T].

    Hops are in product order: index 0 is the leftmost factor, next to the target node.

    Args:
        relations: The T relations of the columns.
        init_std: Standard deviation of the initial logits :math:`\phi`; with zero, all channels learn the same.
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
        self.init_std = init_std
        self.logits = nn.Parameter(torch.randn(path_length, num_channels, len(self.relations)) * init_std)
        self.fixed: Tensor | None
        self.register_buffer("fixed", None)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the logits again; fixed filters stay."""
        self.logits.copy_(torch.randn(self.logits.shape) * self.init_std)

    @property
    def path_length(self) -> int:
        """Hops K."""
        return self.logits.size(0)

    @torch.no_grad()
    def start_from(self, paths: Sequence[Sequence[Relation]], *, share: float = 0.9) -> None:
        """Give each hop of channel c most of its weight on the c-th path; further channels stay as they are.

        Hops that a path does not need stay at their node by the identity; without an identity they stay as they are.

        Args:
            paths: Relations next to the target first, at most as many as there are hops.
            share: Weight of the step within its hop; the other relations share the rest.
        """
        K, C, T = self.logits.shape
        each = share ** (1 / K)
        raised = math.log(each / (1 - each) * max(T - 1, 1))
        for channel, path in enumerate(paths[:C]):
            if len(path) > K:
                raise InputError(f"a path of {len(path)} steps does not fit into {K} hops: raise path_length.")
            for hop in range(K):
                relation = path[hop] if hop < len(path) else IDENTITY
                if relation in self.relations:
                    self.logits[hop, channel, self.relations.index(relation)] += raised
                elif relation != IDENTITY:
                    raise InputError(f"the model has no relation {relation}, so no path along it can be started from.")

    def fix(self, weights: Tensor) -> None:
        """Use fixed weights of any sign and sum instead of learned ones, [K, C, T]."""
        if weights.shape != self.logits.shape:
            raise InputError(f"filters must have shape {tuple(self.logits.shape)}, but got {tuple(weights.shape)}.")
        self.fixed = weights.detach().to(self.logits.dtype).clone()
        self.logits.requires_grad_(False)

    def forward(self) -> Tensor:
        return self.logits.softmax(-1) if self.fixed is None else self.fixed

    def extra_repr(self) -> str:
        K, C, T = self.logits.shape
        return f"path_length={K}, num_channels={C}, relations={T}" + (", fixed" if self.fixed is not None else "")
