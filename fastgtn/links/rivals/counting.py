"""Predictors that count: popularity, common neighbours, Adamic–Adar."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fastgtn.links.edges import Array
from fastgtn.links.joined.supervision import popularity_of
from fastgtn.links.rivals.scorer import Scorer, Union
from fastgtn.links.task import LinkTask, Stage


def popularity(task: LinkTask, seed: int) -> Scorer:  # noqa: ARG001
    """The logarithm of the known links of the target; of both ends where pairs have no direction."""

    def rows(sources: Array, stage: Stage) -> Array:
        counts = popularity_of(task, task.links_at(stage))
        own = counts[sources][:, None] if task.is_within_one_type else np.zeros((len(sources), 1))
        return own + counts

    return Scorer(rows)


def common_neighbors(task: LinkTask, seed: int) -> Scorer:  # noqa: ARG001
    """The number of nodes of any type that are joined to both."""
    return _common(task, lambda degree: np.ones_like(degree))


def adamic_adar(task: LinkTask, seed: int) -> Scorer:  # noqa: ARG001
    """Common neighbours, each weighed by one over the logarithm of its degree."""
    return _common(task, lambda degree: 1 / np.log(np.maximum(degree, 2)))


def _common(task: LinkTask, weight: Any) -> Scorer:
    prepared: dict[Stage, tuple[Any, Any, int, int]] = {}

    def prepare(stage: Stage) -> tuple[Any, Any, int, int]:
        union = Union.of(task, stage)
        row, col = union.edge_index.numpy()
        matrix = sp.csr_matrix((np.ones(len(row)), (row, col)), shape=(union.num_nodes, union.num_nodes))
        matrix.data[:] = 1
        scaled = sp.diags(weight(np.asarray(matrix.sum(1)).ravel())) @ matrix
        return matrix, scaled.tocsc(), union.starts[task.relation.source], union.starts[task.relation.target]

    def rows(sources: Array, stage: Stage) -> Array:
        if stage not in prepared:
            prepared[stage] = prepare(stage)
        matrix, scaled, first, second = prepared[stage]
        product: Array = (matrix[sources + first] @ scaled[:, second : second + task.num_targets]).toarray()
        return product

    return Scorer(rows)
