"""Checks of the user's input to the algebra of relations."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.layout.valid import LARGEST


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
            f'relation "{name}": edge_index must contain integers, but got {edge_index.dtype}. Use edge_index.long().'
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


def check_counts(num_nodes: Mapping[str, int]) -> None:
    """Refuse node counts that are not whole numbers from 0 on, and more nodes than an int32 can number."""
    for node_type, count in num_nodes.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise InputError(f'num_nodes of "{node_type}" must be a whole number, at least 0, but got {count!r}.')
    if sum(num_nodes.values()) > LARGEST:
        raise InputError(f"a stack can have at most {LARGEST:,} nodes, but got {sum(num_nodes.values()):,}.")


def check_hop(h: Tensor, filters: Tensor, num_cols: int, num_relations: int) -> None:
    """Refuse features and filters that do not fit the matrices of a hop."""
    if h.dim() != 3 or h.size(0) != num_cols or filters.shape != (h.size(1), num_relations):
        raise InputError(
            f"a hop over {num_cols} nodes and {num_relations} relations takes features [{num_cols}, C, d] and filters "
            f"[C, {num_relations}], but got {tuple(h.shape)} and {tuple(filters.shape)}."
        )


def check_shape(num_rows: int, num_cols: int, num_relations: int) -> None:
    """Refuse sizes that no matrix has."""
    if not (0 <= num_rows <= LARGEST and 0 <= num_cols <= LARGEST and 0 <= num_relations <= LARGEST):
        raise InputError(
            f"an operator has 0 … {LARGEST:,} rows, columns and relations, but got {num_rows}, {num_cols} and "
            f"{num_relations}."
        )


def check_part(shape: tuple[int, int], relations: int, expected: tuple[int, int, int], *, loops: bool = False) -> None:
    """Refuse edges or self-loops that belong to an operator of another size."""
    num_rows, num_cols, num_relations = expected
    fits = relations == num_relations and num_rows <= num_cols if loops else relations <= num_relations
    if shape != (num_rows, num_cols) or not fits:
        raise InputError(
            f"an operator of {num_rows} rows, {num_cols} columns and {num_relations} relations got "
            f"{'self-loops' if loops else 'edges'} of {shape[0]} rows, {shape[1]} columns and {relations} relations."
        )


def check_values(values: Tensor, num_edges: int, first: int) -> None:
    """Refuse weights that are not one real number per edge."""
    if values.shape != (num_edges,) or not values.is_floating_point() or first < 0:
        raise InputError(
            f"edges need one real number each, shape [{num_edges}], and a first relation of at least 0, but got "
            f"{values.dtype} {tuple(values.shape)} and {first}."
        )


def check_times(times: Tensor, num_edges: int) -> None:
    """Refuse times that are not one number of double precision per edge."""
    if times.shape != (num_edges,) or times.dtype != torch.float64:
        raise InputError(
            f"edges need one float64 time each, shape [{num_edges}], NaN for edges that are always there, but got "
            f"{times.dtype} {tuple(times.shape)}."
        )


def check_non_negative(smallest: float, why: str) -> None:
    """Refuse negative weights where a degree is needed."""
    if smallest < 0:
        raise InputError(
            f"{why} needs edge weights ≥ 0, but the smallest is {smallest:.4g}. "
            "Drop negative edges, take absolute values, or move them into a separate relation."
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
