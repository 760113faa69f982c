"""What the entries of a relation are divided by."""

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
