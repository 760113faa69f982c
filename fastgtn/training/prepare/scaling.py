"""Bring the features of a node type to a scale at which a model can read them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fastgtn.config import FeatureOptions
from fastgtn.errors import InputError, nearest
from fastgtn.nn.inputs.features import Features, Matrix, Scaling, SparseMatrix, column_statistics

LOOKED_AT = 1 << 22  # numbers that decide what a matrix holds
ORDINARY = (0.2, 5.0)  # deviations of columns that are left alone


def scaled(features: Features, how: Scaling | Mapping[str, Scaling]) -> Features:
    """Rows are divided here; columns are standardised by the model, which keeps their means and deviations.

    Args:
        how: One way for all node types that have features, or one for each.
    """
    blocks = {block.key: block.matrix for block in features.blocks if block.matrix is not None}
    chosen = chosen_scaling(features, how)
    by_row = {key: _by_row(matrix, chosen[key]) for key, matrix in blocks.items() if chosen[key] in ("row", "count")}
    return features.map(by_row).with_scaling(chosen)


def chosen_scaling(features: Features, how: Scaling | Mapping[str, Scaling]) -> dict[str, Scaling]:
    """What is done to the features of each node type that has any."""
    matrices = {block.key: block.matrix for block in features.blocks if block.matrix is not None}
    if not isinstance(how, str):
        return {key: how.get(key, "none") for key in matrices}
    return {key: suitable(matrix) if how == "auto" else how for key, matrix in matrices.items()}


def settled_scaling(features: Features, options: FeatureOptions) -> Scaling | dict[str, Scaling]:
    """The same without "auto", so that another graph is scaled as the graph of the training was."""
    chosen = {block.key: block.scaling for block in features.blocks if block.matrix is not None}
    if options.normalize != "auto":
        for key in () if isinstance(options.normalize, str) else options.normalize:
            if key not in chosen:
                raise InputError(f'features.normalize has "{key}"; {nearest(key, chosen)}')
        return options.normalize
    return chosen if len(set(chosen.values())) > 1 else next(iter(chosen.values()), "none")


def suitable(matrix: Matrix) -> Scaling:
    """What the numbers ask for: counts are compared within their row, zeros and ones stay, others get deviation 1.

    Numbers of ordinary size stay, too, and so do sparse numbers that are not counts: taking off a mean would fill
    all their zeros.
    """
    values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
    values = values.flatten()[:: 1 + values.numel() // LOOKED_AT]
    if bool(((values == 0) | (values == 1)).all()):
        return "none"
    is_whole = bool(((values >= 0) & (values == values.round())).all())
    if is_whole and matrix.shape[1] > 1:
        return "count"
    return "none" if isinstance(matrix, SparseMatrix) or _is_ordinary(matrix) else "standard"


def _is_ordinary(matrix: Matrix) -> bool:
    """Whether dense columns have deviations around 1 already, so that their sizes may mean something."""
    assert not isinstance(matrix, SparseMatrix)
    mean, deviation = column_statistics(matrix)
    usual = bool(((deviation >= ORDINARY[0]) & (deviation <= ORDINARY[1])).all())
    return usual and bool((mean.abs() <= ORDINARY[1]).all())


def _by_row(matrix: Matrix, how: Scaling) -> Matrix:
    """Rows divided by the sum of their magnitudes, or by the mean of those that are not zero; empty rows stay empty."""
    if isinstance(matrix, SparseMatrix):
        segments = matrix.operator.edges[0].segments
        rows, sizes = segments.edge_rows(), matrix.values.double().abs()
        total = torch.zeros(matrix.shape[0], dtype=torch.float64).index_add_(0, rows, sizes)
        if how == "count":
            total /= torch.zeros_like(total).index_add_(0, rows, (sizes > 0).double()).clamp(min=1)
        return matrix.with_values((matrix.values / total[rows].clamp(min=1e-12)).to(matrix.values.dtype))
    total = matrix.abs().sum(1, keepdim=True)
    if how == "count":
        total = total / (matrix != 0).sum(1, keepdim=True).clamp(min=1)
    return matrix / total.clamp(min=1e-12)
