"""What the entries of a relation are divided by, and the divided entries."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastgtn.relations.operator import Edges


def row_sums(edges: Edges) -> Tensor:
    """For each edge, the sum of its row in its relation."""
    return edges.segments.degrees(edges.values)[edges.segments.edge_segments]


def column_sums(edges: Edges) -> Tensor:
    """For each edge, the sum of its column in its relation."""
    segments = edges.segments
    places = segments.edge_relations() * segments.num_cols + segments.col.long()
    sums = torch.zeros(segments.num_relations * segments.num_cols, dtype=torch.float64, device=places.device)
    return sums.index_add(0, places, edges.values.double())[places]


def row_divided(edges: Edges) -> Edges:
    """Entries over the sum of their row in their relation."""
    return edges.divided(row_sums(edges))


def log_divided(edges: Edges) -> Edges:
    """Entries over the sum of their row, times the logarithm of one plus that sum."""
    sums = row_sums(edges)
    return edges.divided(sums / sums.log1p())


def symmetrically_divided(edges: Edges) -> Edges:
    """Entries over the roots of the sums of their row and their column in their relation."""
    return edges.divided((row_sums(edges) * column_sums(edges)).sqrt())


def jointly_divided(edges: Sequence[Edges], num_nodes: int) -> list[Edges]:
    """Entries over the roots of the row sum and the column sum of their nodes in all relations, and one for itself."""
    rows, columns = (torch.ones(num_nodes, dtype=torch.float64) for _ in range(2))
    for some in edges:
        values = some.values.double()
        rows = rows.to(values.device).index_add(0, some.segments.edge_rows(), values)
        columns = columns.to(values.device).index_add(0, some.segments.col.long(), values)
    roots = [(rows[some.segments.edge_rows()] * columns[some.segments.col.long()]).sqrt() for some in edges]
    return [some.divided(root) for some, root in zip(edges, roots, strict=True)]
