"""Relations in other forms: as edge types of a PyG graph, and as rows of a printed table."""

from collections.abc import Sequence

import torch
from torch_geometric.data import HeteroData

from fastgtn.relations.matrix import RelationMatrix
from fastgtn.relations.operator import Operator
from fastgtn.relations.schema import IDENTITY, Relation


def hetero_of(matrices: Sequence[RelationMatrix], node_types: Sequence[str], node_counts: Sequence[int]) -> HeteroData:
    """One edge type per relation and pair of node types that it connects, with weights.

    Args:
        matrices: The relations without the identity, over the nodes of all types, type after type.
    """
    data = HeteroData()
    for node_type, count in zip(node_types, node_counts, strict=True):
        data[node_type].num_nodes = count
    ends = torch.tensor(node_counts).cumsum(0)
    starts = dict(zip(node_types, (ends - torch.tensor(node_counts)).tolist(), strict=True))
    for matrix in matrices:
        rows, cols, values = matrix.coordinates()
        row_type, col_type = (torch.bucketize(numbers, ends, right=True) for numbers in (rows, cols))
        pairs = row_type * len(starts) + col_type
        for pair in pairs.unique().tolist():
            target, source = (node_types[n] for n in divmod(pair, len(starts)))
            mine = pairs == pair
            store = data[source, matrix.relation.name, target]
            store.edge_index = torch.stack([cols[mine] - starts[source], rows[mine] - starts[target]])
            store.edge_weight = values[mine]
    return data


def relation_rows(relations: Sequence[Relation], operator: Operator) -> list[tuple[str, str, str]]:
    """Ends, name and number of stored edges of each relation."""
    counts = torch.zeros(len(relations), dtype=torch.int64)
    for edges in operator.edges:
        numbers = edges.segments.edge_relations().cpu()
        counts[edges.columns] = torch.bincount(numbers, minlength=edges.segments.num_relations)
    return [
        (f"{r.target} ← {r.source}", r.name, "implicit" if r == IDENTITY else f"{count:,} edges")
        for r, count in zip(relations, counts.tolist(), strict=True)
    ]


def nodes_in_words(node_types: Sequence[str], node_counts: Sequence[int]) -> str:
    """How many nodes there are, in all and of each type."""
    counts = ", ".join(f"{t} {n:,}" for t, n in zip(node_types, node_counts, strict=True))
    return f"{sum(node_counts):,} nodes ({counts})"
