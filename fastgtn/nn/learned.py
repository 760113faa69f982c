"""Meta-path graphs written out as edges, whole or only their heaviest."""

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations import RelationStack
from fastgtn.relations.products import heaviest_entries

_BYTES_PER_EDGE = 40  # row, column, relation and value of an explicit edge, and its sorted copy


def learned_graphs(
    stack: RelationStack, filters: Tensor, *, normalize: bool, top: int | None, max_memory: float
) -> RelationStack:
    r"""The graphs :math:`F_{1c} ⋯ F_{Kc}`, one relation per channel, with rows divided by their sums if asked.

    Whole graphs carry gradients for the filters. With `top`, rows are computed one at a time, and only
    their largest entries are ever held.
    """
    K, C, _ = filters.shape
    if top is not None:
        if top < 1:
            raise InputError(f"top must be at least 1, but got {top}.")
        _refuse_beyond(C * stack.num_nodes * min(top, stack.num_nodes), max_memory, "a smaller top")
        return stack.with_channels(heaviest_entries(stack.operator, filters.detach(), top, normalize=normalize))
    _refuse_beyond(C * _expected_entries(stack, K), max_memory, "top=n for the n largest entries per row")
    product = stack.mix(filters[0])
    for hop in filters[1:]:
        product = product.compose(stack.mix(hop))
        if normalize:  # after each product, to stay in range
            product = product.row_normalized("zero")
    return product


def _refuse_beyond(entries: float, max_memory: float, instead: str) -> None:
    if entries * _BYTES_PER_EDGE > max_memory:
        raise InputError(
            f"the learned graphs have up to {entries:,.0f} entries, about {entries * _BYTES_PER_EDGE / 1e9:.1f} GB, "
            f"and max_memory is {max_memory / 1e9:.1f} GB. Ask for {instead}, or raise max_memory."
        )


def _expected_entries(stack: RelationStack, path_length: int) -> float:
    """An upper bound of the entries of one channel: the paths of the union graph, at most N per row."""
    ends = torch.ones(stack.num_nodes, 1, 1, dtype=torch.float64)
    union = stack.binarized()
    filters = torch.ones(1, len(stack), dtype=torch.float64)
    for _ in range(path_length):
        ends = union.operator.apply(ends, filters).clamp(max=stack.num_nodes)
    return float(ends.sum())
