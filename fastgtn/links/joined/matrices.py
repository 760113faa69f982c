"""The relations of a graph as normalised sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.relations import Relation


def normalized_matrix(graph: HeteroData, relation: Relation) -> Any:
    r"""One relation as a sparse matrix :math:`D^{-1/2} A D'^{-1/2}`: row i holds the edges that end at node i.

    The entries of A are :math:`\log(1 + w)` where edges have weights w.
    """
    store = graph[tuple(relation)]
    cols, rows = store.edge_index.numpy()
    weight = store.get("edge_weight")
    values = np.ones(len(rows)) if weight is None else np.log1p(weight.double().numpy().clip(min=-0.5))
    if len(values) and values.min() < 0:
        raise InputError(
            f'the relation "{relation}" has negative weights; joined meta-paths need weights of at least 0.'
        )
    shape = int(graph[relation.target].num_nodes or 0), int(graph[relation.source].num_nodes or 0)
    matrix = sp.csr_matrix((values, (rows, cols)), shape=shape)
    scales = [np.asarray(matrix.sum(axis)).ravel() for axis in (1, 0)]
    left, right = (np.where(total > 0, np.where(total > 0, total, 1.0) ** -0.5, 0.0) for total in scales)
    return (sp.diags(left) @ matrix @ sp.diags(right)).tocsr()


def work_of(first: Any, second: Any) -> int:
    """The multiplications of a product of two sparse matrices, which bound its entries."""
    return int(np.diff(second.indptr)[first.indices].sum())


def mirrors(
    relations: Sequence[Relation], reverses: Mapping[Relation, Relation], matrices: Sequence[Any]
) -> tuple[int | None, ...]:
    """For each relation the number of the one whose matrix is its transpose, exactly; None if there is none.

    A relation of which only most edges are stored in the opposite direction has a reverse, but no mirror.
    """
    number = {relation: t for t, relation in enumerate(relations)}
    found: list[int | None] = []
    for relation, matrix in zip(relations, matrices, strict=True):
        other = number[reverses[relation]]
        found.append(other if _are_equal(matrices[other], matrix.T.tocsr()) else None)
    return tuple(found)


def _are_equal(first: Any, second: Any) -> bool:
    """Whether two sparse matrices are the same up to rounding."""
    for matrix in (first, second):
        matrix.sort_indices()
    return (
        first.shape == second.shape
        and np.array_equal(first.indptr, second.indptr)
        and np.array_equal(first.indices, second.indices)
        and np.allclose(first.data, second.data, rtol=1e-12, atol=0)
    )
