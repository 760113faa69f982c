"""Edges of one relation as pairs of numbers, and graphs from which some of them are hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError, nearest
from fastgtn.relations import Relation

Array = np.ndarray[Any, np.dtype[Any]]
NEARLY_ALL = 0.95  # a relation with at least this share of the hidden links may give them away
REVERSE_SHARE = 0.5  # a relation with at least this share of flipped edges is the reverse of another


@dataclass(frozen=True)
class GraphShape:
    """The types of the graph that a link model was trained on, in their order, and the relation that it predicts.

    Args:
        reverses: Which relation is the reverse of which; empty if it was not stored.
    """

    node_types: tuple[str, ...]
    edge_types: tuple[Relation, ...]
    relation: Relation
    reverses: dict[Relation, Relation]

    @staticmethod
    def of(graph: HeteroData, relation: Relation, reverses: Mapping[Relation, Relation]) -> GraphShape:
        edge_types = tuple(Relation(*edge_type) for edge_type in graph.edge_types)
        return GraphShape(tuple(graph.node_types), edge_types, relation, dict(reverses))

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> GraphShape:
        """What :meth:`to_json` wrote."""
        edge_types = tuple(Relation(*map(str, e)) for e in values["edge_types"])
        reverses = {Relation(*map(str, one)): Relation(*map(str, two)) for one, two in values.get("reverses", ())}
        relation = Relation(*map(str, values["relation"]))
        return GraphShape(tuple(map(str, values["node_types"])), edge_types, relation, reverses)

    def to_json(self) -> dict[str, Any]:
        return {
            "node_types": list(self.node_types),
            "edge_types": [list(e) for e in self.edge_types],
            "relation": list(self.relation),
            "reverses": [[list(one), list(other)] for one, other in self.reverses.items()],
        }

    def aligned(self, graph: HeteroData) -> HeteroData:
        """The same graph with its types in this order; a graph with other types is refused."""
        here = {str(Relation(*e)) for e in graph.edge_types} | set(graph.node_types)
        wanted = {*map(str, self.edge_types), *self.node_types}
        if here != wanted:
            raise InputError(
                f"the types of the graph differ from those of the training: missing {sorted(wanted - here) or 'none'}, "
                f"not expected {sorted(here - wanted) or 'none'}."
            )
        ordered = HeteroData()
        for name, value in graph._global_store.items():
            ordered[name] = value
        for kind in (*self.node_types, *map(tuple, self.edge_types)):
            for key, value in graph[kind].items():
                ordered[kind][key] = value
        for node_type in self.node_types:
            ordered[node_type].num_nodes = graph[node_type].num_nodes
        return ordered


def find_relation(graph: HeteroData, relation: str | tuple[str, str, str]) -> Relation:
    """The relation that a name or a triple means; refused where it is unknown or ambiguous."""
    known = [Relation(*edge_type) for edge_type in graph.edge_types]
    if not isinstance(relation, str):
        wanted = Relation(*relation)
        if wanted in known:
            return wanted
        raise InputError(f'no relation "{wanted}"; {nearest(str(wanted), map(str, known))}')
    found = [one for one in known if relation in (one.name, str(one))]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f'several relations are named "{relation}": use one of {", ".join(map(str, found))}.')
    raise InputError(f'no relation "{relation}"; {nearest(relation, {r.name for r in known} | set(map(str, known)))}')


def pair_keys(pairs: Array, width: int) -> Array:
    """One number per pair, so that pairs can be sorted and looked up."""
    keys: Array = pairs[0].astype(np.int64) * max(width, 1) + pairs[1]
    return keys


def contains(sorted_keys: Array, keys: Array) -> Array:
    """Which keys occur among sorted ones."""
    if not len(sorted_keys):
        return np.zeros(len(keys), bool)
    place = np.searchsorted(sorted_keys, keys).clip(max=len(sorted_keys) - 1)
    found: Array = sorted_keys[place] == keys
    return found


def hiding(graph: HeteroData, relation: Relation) -> list[tuple[Relation, bool]]:
    """The relations that hold the links of a relation, and whether they hold them in the opposite direction."""
    every = graph[tuple(relation)].edge_index.numpy()
    found = [(relation, False)]
    for other in (Relation(*edge_type) for edge_type in graph.edge_types):
        could_be = (other.source, other.target) == (relation.target, relation.source)
        if could_be and (other == relation or is_reverse(graph, other, every)):
            found.append((other, True))
    return found


def hidden_from(graph: HeteroData, relation: Relation, pairs: Array) -> HeteroData:
    """A shallow copy of a graph without some pairs of a relation, nor of any relation that is its reverse."""
    kept = graph.__copy__()
    drop: dict[Relation, list[Array]] = {}
    for other, flipped in hiding(graph, relation):
        drop.setdefault(other, []).append(pairs[::-1] if flipped else pairs)
    for other, parts in drop.items():
        _without(kept, graph, other, np.concatenate(parts, axis=1))
    return kept


def with_links(graph: HeteroData, relation: Relation, pairs: Array) -> HeteroData:
    """A shallow copy of a graph with some pairs added to a relation, and to any relation that is its reverse.

    Pairs that are edges already are not added again. Added edges have the median weight and no time.
    """
    wider = graph.__copy__()
    places = [(relation, False), *((r, flipped) for r, flipped in hiding(graph, relation) if r != relation)]
    for other, flipped in places:
        added = pairs[::-1] if flipped else pairs
        width = int(graph[other.target].num_nodes or 0)
        store = graph[tuple(other)]
        new = added[:, ~contains(np.sort(pair_keys(store.edge_index.numpy(), width)), pair_keys(added, width))]
        index = torch.from_numpy(np.ascontiguousarray(new)).to(store.edge_index.dtype)
        wider[tuple(other)].edge_index = torch.cat([store.edge_index, index], 1)
        for name, value in _of_each_edge(store).items():
            has_usual = name == "edge_weight" and len(value) > 0
            if not has_usual and not value.is_floating_point():
                del wider[tuple(other)][name]  # whole numbers have no value that says "not known"
                continue
            fill = value.median().item() if has_usual else float("nan")
            wider[tuple(other)][name] = torch.cat([value, value.new_full((new.shape[1], *value.shape[1:]), fill)])
    return wider


def undirected(graph: HeteroData, relation: Relation) -> HeteroData:
    """A graph in which a relation between nodes of one type has every edge in both directions.

    Its links have no direction, so the one in which they happen to be stored must not matter. Other relations stay.
    """
    if relation.source != relation.target:
        return graph
    store, width = graph[tuple(relation)], int(graph[relation.target].num_nodes or 0)
    edges = store.edge_index.numpy()
    missing = torch.from_numpy(~contains(np.sort(pair_keys(edges, width)), pair_keys(edges[::-1], width)))
    if not missing.any():
        return graph
    both = graph.__copy__()
    both[tuple(relation)].edge_index = torch.cat([store.edge_index, store.edge_index[:, missing].flip(0)], 1)
    for name, value in _of_each_edge(store).items():
        both[tuple(relation)][name] = torch.cat([value, value[missing]])
    return both


def known_before(graph: HeteroData, relation: Relation, moment: float) -> HeteroData:
    """A shallow copy of a graph without the edges of other relations that are not older than a moment.

    Edges without a time stay. The links of the relation itself are split, and hidden, by their order; of a link that is
    older, later edges between the same nodes are left out, such as purchases that are repeated.
    """
    kept, own = graph.__copy__(), {other for other, _ in hiding(graph, relation)}
    for other in (Relation(*edge_type) for edge_type in graph.edge_types if "time" in graph[edge_type]):
        time = graph[tuple(other)].time.numpy()
        is_late = time >= moment
        if other in own:
            is_late &= _first_times(graph, other) < moment
        _keep(kept, graph, other, ~is_late)
    return kept


def still_holding(graph: HeteroData, hidden: Array, relation: Relation) -> list[Relation]:
    """Other relations that hold nearly all of some hidden links [2, E], in either direction."""
    found = []
    for other in (Relation(*edge_type) for edge_type in graph.edge_types):
        for pairs, ends in ((hidden, (other.source, other.target)), (hidden[::-1], (other.target, other.source))):
            if ends != (relation.source, relation.target) or other == relation or not hidden.shape[1]:
                continue
            width = int(graph[other.target].num_nodes or 0)
            edges = np.sort(pair_keys(graph[tuple(other)].edge_index.numpy(), width))
            if contains(edges, pair_keys(pairs, width)).mean() >= NEARLY_ALL:
                found.append(other)
    return list(dict.fromkeys(found))


def is_reverse(graph: HeteroData, other: Relation, edges: Array) -> bool:
    """Whether a relation contains the edges of another one in the opposite direction."""
    mine = graph[tuple(other)].edge_index.numpy()
    if not mine.shape[1] or not edges.shape[1]:
        return False
    width = int(graph[other.target].num_nodes or 0)
    found = contains(np.sort(pair_keys(edges[::-1], width)), pair_keys(mine, width))
    return bool(found.mean() >= REVERSE_SHARE)


def _first_times(graph: HeteroData, relation: Relation) -> Array:
    """For each edge the time of the first edge between the same nodes."""
    store = graph[tuple(relation)]
    keys = pair_keys(store.edge_index.numpy(), int(graph[relation.target].num_nodes or 0))
    distinct, group = np.unique(keys, return_inverse=True)
    first = np.full(len(distinct), np.inf)
    np.fmin.at(first, group, store.time.numpy())
    return first[group]


def _without(kept: HeteroData, graph: HeteroData, relation: Relation, pairs: Array) -> None:
    width = int(graph[relation.target].num_nodes or 0)
    edges = graph[tuple(relation)].edge_index.numpy()
    _keep(kept, graph, relation, ~contains(np.sort(pair_keys(pairs, width)), pair_keys(edges, width)))


def _keep(kept: HeteroData, graph: HeteroData, relation: Relation, stays: Array) -> None:
    """Only some edges of a relation, with what belongs to each of them."""
    store, mask = graph[tuple(relation)], torch.from_numpy(stays)
    kept[tuple(relation)].edge_index = store.edge_index[:, mask]
    for name, value in _of_each_edge(store).items():
        kept[tuple(relation)][name] = value[mask]


def _of_each_edge(store: Any) -> dict[str, torch.Tensor]:
    """What a relation stores for each edge, beside its ends."""
    count = store.edge_index.size(1)
    return {
        name: value
        for name, value in store.items()
        if name != "edge_index" and isinstance(value, torch.Tensor) and value.dim() and value.size(0) == count
    }
