"""From edge lists to the parts of a stack."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from fastgtn.errors import InputError, nearest
from fastgtn.relations.checks import check_counts, check_edge_index, check_edge_weight
from fastgtn.relations.layout.diagonal import Diagonal
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.schema import IDENTITY, Relation
from fastgtn.relations.times import Times

EdgeList = Tensor | tuple[Tensor, Tensor | None]  # edge_index [2, E] = [from; to], or with edge_weight [E]


class Parts(NamedTuple):
    """The parts of a stack."""

    node_types: tuple[str, ...]
    node_counts: tuple[int, ...]
    relations: tuple[Relation, ...]
    operator: Operator


def edges_of_hetero(data: HeteroData) -> tuple[dict[Relation, EdgeList], dict[str, int]]:
    """Read edge lists and node counts; the graph itself is left as it is."""
    counts: dict[str, int] = {}
    for node_type in data.node_types:
        count = data[node_type].num_nodes
        if count is None:
            raise InputError(
                f'node type "{node_type}" has neither features nor num_nodes. Set data["{node_type}"].num_nodes.'
            )
        counts[node_type] = int(count)
    edges: dict[Relation, EdgeList] = {}
    for edge_type in data.edge_types:
        store = data[edge_type]
        if "edge_index" not in store:
            raise InputError(f"edge type {edge_type} has no edge_index. Convert adj_t or add edge_index [2, E].")
        _refuse_attributes(store, str(Relation(*edge_type)))
        edges[Relation(*edge_type)] = (store.edge_index, store.get("edge_weight"))
    return edges, counts


def edges_of_data(data: Data) -> tuple[dict[Relation, EdgeList], dict[str, int]]:
    """A homogeneous graph is one relation over one node type."""
    if data.edge_index is None or data.num_nodes is None:
        raise InputError("the graph needs edge_index [2, E] and features or num_nodes.")
    _refuse_attributes(data, "edge")
    return {Relation("node", "edge", "node"): (data.edge_index, data.get("edge_weight"))}, {"node": data.num_nodes}


def _refuse_attributes(store: Any, name: str) -> None:
    """Attributes of edges are never ignored: the user says what they mean."""
    if store.get("edge_attr") is not None:
        raise InputError(
            f'the edges of "{name}" have edge_attr, which models do not read. Summarise them to the nodes with '
            "fastgtn.data.with_edge_features(graph), use one column as edge_weight, or delete edge_attr."
        )


def assemble(
    edges: Mapping[Relation, EdgeList],
    num_nodes: Mapping[str, int],
    *,
    identity: bool,
    reverse: bool,
    binarize: bool,
    dtype: torch.dtype,
    times: Times | None = None,
) -> Parts:
    """Check, number the nodes type after type, and sort the edges of all relations into one structure."""
    check_counts(num_nodes)
    lists = {relation: _checked(relation, value, num_nodes) for relation, value in edges.items()}
    reverses = _reverses(lists) if reverse else {}
    lists |= {new: (lists[old][0].flip(0), lists[old][1]) for new, old in reverses.items()}
    starts = dict(zip(num_nodes, torch.tensor([0, *num_nodes.values()]).cumsum(0).tolist(), strict=False))
    rows, cols, values, numbers, moments = [], [], [], [], []
    for t, (relation, (edge_index, weight)) in enumerate(lists.items()):
        # a weight of zero is no edge: it adds nothing, and a row of zeros has no degree to divide by
        kept = edge_index if weight is None else edge_index[:, weight != 0]
        ones = torch.ones(kept.size(1), dtype=dtype)
        rows.append(kept[1] + starts[relation.target])
        cols.append(kept[0] + starts[relation.source])
        values.append(ones if weight is None or binarize else weight[weight != 0].to(dtype))
        numbers.append(torch.full((kept.size(1),), t))
        if times:
            own = times.edges.get(reverses.get(relation, relation))
            when = times.of_edges(relation, edge_index[0], own)
            moments.append(when if weight is None else when[weight != 0])
    total = sum(num_nodes.values())
    segments, order = Segments.build(
        *(torch.cat([torch.empty(0, dtype=torch.int64), *parts]) for parts in (rows, cols, numbers)),
        shape=(total, total),
        num_relations=len(lists),
    )
    stored = Edges(segments, torch.cat([torch.empty(0, dtype=dtype), *values])[order])
    if moments:
        stored = replace(stored, times=torch.cat(moments)[order])
    relations = (*lists, *((IDENTITY,) if identity else ()))
    diagonal = Diagonal.identity(total, len(relations)) if identity else None
    operator = Operator(total, total, len(relations), (stored,), diagonal)
    return Parts(tuple(num_nodes), tuple(int(n) for n in num_nodes.values()), relations, operator)


def _checked(relation: Relation, value: EdgeList, num_nodes: Mapping[str, int]) -> tuple[Tensor, Tensor | None]:
    for node_type in (relation.source, relation.target):
        if node_type not in num_nodes:
            raise InputError(
                f'relation "{relation}" connects the node type "{node_type}", which has no node count; '
                f"{nearest(node_type, num_nodes)}"
            )
    edge_index, weight = value if isinstance(value, tuple) else (value, None)
    check_edge_index(edge_index, relation.name, num_nodes[relation.source], num_nodes[relation.target])
    if weight is not None:
        check_edge_weight(weight, relation.name, edge_index.size(1))
        weight = weight.detach().cpu()
    return edge_index.detach().cpu().long(), weight


def _reverses(lists: Mapping[Relation, tuple[Tensor, Tensor | None]]) -> dict[Relation, Relation]:
    """The names of the reverses of all relations that are not symmetric, and what they are the reverse of."""
    return {
        Relation(relation.target, f"rev_{relation.name}", relation.source): relation
        for relation, (edge_index, weight) in lists.items()
        if relation.source != relation.target or not _is_symmetric(edge_index, weight)
    }


def _is_symmetric(edge_index: Tensor, weight: Tensor | None) -> bool:
    size = int(edge_index.max()) + 1 if edge_index.numel() else 0
    weight = torch.ones(edge_index.size(1)) if weight is None else weight
    sums = []
    for row, col in (edge_index, edge_index.flip(0)):
        place, index = (row * size + col).unique(return_inverse=True)
        sums.append((place, torch.zeros(place.numel(), dtype=weight.dtype).index_add(0, index, weight)))
    return all(torch.equal(there, back) for there, back in zip(*sums, strict=True))
