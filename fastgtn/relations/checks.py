"""What the algebra refuses at its door, in the words of the user who knocked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastgtn.errors import InputError


def check_edge_index(edge_index: Tensor, name: str, num_sources: int, num_targets: int) -> None:
    """Refuse anything but integers [2, E] within the node counts."""
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        came = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise InputError(
            f'relation "{name}": edge_index must be a tensor of shape [2, E] = [from; to], but got {came}. '
            "Transpose it if it is [E, 2]."
        )
    if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
        raise InputError(
            f'relation "{name}": edge_index must hold integers, but got {edge_index.dtype}. Use edge_index.long().'
        )
    for row, side, count in ((0, "source", num_sources), (1, "target", num_targets)):
        if not edge_index.size(1):
            continue
        low, high = int(edge_index[row].min()), int(edge_index[row].max())
        if low < 0 or high >= count:
            raise InputError(
                f'relation "{name}": {side} nodes must lie in 0 … {count - 1}, but edge_index[{row}] spans '
                f"{low} … {high}. Check num_nodes and that ids are counted per node type."
            )


def check_edge_weight(weight: Tensor, name: str, num_edges: int) -> None:
    """Refuse weights that do not match the edges or are not finite."""
    if weight.dim() != 1 or weight.numel() != num_edges:
        raise InputError(
            f'relation "{name}": edge_weight must be one number per edge, shape [{num_edges}], '
            f"but got {tuple(weight.shape)}."
        )
    if not torch.isfinite(weight).all():
        raise InputError(f'relation "{name}": edge_weight has NaN or infinite values. Clean them first.')


def check_filters(filters: Tensor, names: Sequence[str]) -> None:
    """Refuse filters that are not [C, T] for the T relations of the stack."""
    if filters.dim() != 2 or filters.size(1) != len(names):
        columns = filters.size(-1) if filters.dim() else 0
        raise InputError(
            f"filters must have shape [C, {len(names)}], one column per relation ({', '.join(names)}), "
            f"but got {tuple(filters.shape)} with {columns} columns. Build the model with relations=stack.relations."
        )


def check_channels(h: Tensor, num_nodes: int, num_channels: int) -> None:
    """Refuse features that are not [N, C, d] for this stack and these filters."""
    if h.dim() != 3 or h.size(0) != num_nodes or h.size(1) != num_channels:
        raise InputError(
            f"features must have shape [N, C, d] = [{num_nodes}, {num_channels}, d], but got {tuple(h.shape)}."
        )


def check_non_negative(smallest: float, why: str) -> None:
    """Refuse negative weights where a degree is needed."""
    if smallest < 0:
        raise InputError(
            f"{why} needs edge weights ≥ 0, but the smallest is {smallest:.4g}. "
            "Drop negative edges, take absolute values, or put them into a relation of their own."
        )


def check_nodes(nodes: Tensor, num_nodes: int) -> None:
    """Refuse node lists that are not distinct integers within the graph."""
    if nodes.dim() != 1 or nodes.is_floating_point() or nodes.dtype == torch.bool:
        raise InputError(f"nodes must be a list of integers, but got {nodes.dtype} of shape {tuple(nodes.shape)}.")
    if nodes.numel() and (int(nodes.min()) < 0 or int(nodes.max()) >= num_nodes):
        raise InputError(
            f"nodes must lie in 0 … {num_nodes - 1}, but they span {int(nodes.min())} … {int(nodes.max())}."
        )
    if nodes.unique().numel() != nodes.numel():
        raise InputError("nodes must be distinct, but some occur twice. Use nodes.unique().")
