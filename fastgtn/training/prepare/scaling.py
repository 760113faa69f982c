"""Bring the features of a node type to a scale at which a model can read them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fastgtn.config import FeatureOptions
from fastgtn.errors import InputError, nearest
from fastgtn.nn.inputs.columns import Scaling, column_statistics, has_long_tail
from fastgtn.nn.inputs.features import Features, Matrix, SparseMatrix

LOOKED_AT = 1 << 22  # numbers that decide what a matrix holds
FEWEST_COUNTS, FEWEST_ZEROS = 8, 0.1  # columns, and share of zeros, of whole numbers that count something
ONE_UNIT = 30.0  # columns whose deviations differ by a larger factor are in different units


def scaled(features: Features, how: Scaling | Mapping[str, Scaling]) -> Features:
    """Rows are divided and logarithms are taken here; models scale columns and keep their means and deviations.

    Args:
        how: One way for all node types that have features, or one for each.
    """
    blocks = {block.key: block.matrix for block in features.blocks if block.matrix is not None}
    chosen = chosen_scaling(features, how)
    changed = {key: _by_row(matrix, chosen[key]) for key, matrix in blocks.items() if chosen[key] in ("row", "count")}
    changed |= {key: _logarithms(matrix) for key, matrix in blocks.items() if chosen[key] == "log"}
    return features.map(changed).with_scaling(chosen)


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
    """What the numbers ask for.

    Counts, such as those of words, are compared within their row. Zeros and ones stay as they are, and so do sparse
    numbers, because subtracting a mean would fill all their zeros. Where amounts have a long tail, logarithms are
    taken. Other columns are brought to one size together, or each to its own where they are so different that they must
    be in different units.
    """
    values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
    values = values.flatten()[:: 1 + values.numel() // LOOKED_AT]
    is_zero = values == 0
    if bool((is_zero | (values == 1)).all()):
        return "none"
    is_whole = bool(((values >= 0) & (values == values.round())).all())
    has_zeros = isinstance(matrix, SparseMatrix) or float(is_zero.float().mean()) >= FEWEST_ZEROS
    if is_whole and has_zeros and matrix.shape[1] >= FEWEST_COUNTS:
        return "count"
    if isinstance(matrix, SparseMatrix):
        return "none"
    deviation = column_statistics(matrix)[1]
    deviation = deviation[deviation > 0]
    if not len(deviation):
        return "none"
    if has_long_tail(matrix):
        return "log"
    return "scale" if float(deviation.max() / deviation.min()) <= ONE_UNIT else "standard"


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


def _logarithms(matrix: Matrix) -> Matrix:
    """The logarithms of magnitudes, with the signs of the numbers: small numbers hardly change, large ones shrink."""
    values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
    shrunk = values.abs().log1p_().copysign_(values)
    return matrix.with_values(shrunk) if isinstance(matrix, SparseMatrix) else shrunk
