"""Both directions of every relation: which relation is the reverse of which, found in the whole graph of a task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.links.edges import REVERSE_SHARE, Array, contains, pair_keys
from fastgtn.relations import Relation
from fastgtn.relations.paths.metapath import MetaPath

Reverses = Mapping[Relation, Relation]


def find_reverses(graph: HeteroData) -> dict[Relation, Relation]:
    """The reverse of every relation: one that is stored, the relation itself, or one that has to be added.

    Two relations are reverses of each other if each has most edges of the other in the opposite direction. Those
    that agree best are matched first, so that every relation has one reverse.
    """
    relations = [Relation(*edge_type) for edge_type in graph.edge_types]
    agree = [
        (-share, relations.index(one), relations.index(other))
        for one, other in _opposite(relations)
        if (share := _agreement(graph, one, other)) >= REVERSE_SHARE
    ]
    matched: dict[Relation, Relation] = {}
    for _, first, second in sorted(agree):
        one, other = relations[first], relations[second]
        if one not in matched and other not in matched:
            matched[one], matched[other] = other, one
    taken = set(relations)
    added: dict[Relation, Relation] = {}
    for relation in relations:
        if relation not in matched:
            name = f"rev_{relation.name}"
            while (reverse := Relation(relation.target, name, relation.source)) in taken:
                name = f"rev_{name}"
            taken.add(reverse)
            matched[relation], added[reverse] = reverse, relation
    return {relation: matched[relation] for relation in relations} | added


def both_directions(graph: HeteroData, reverses: Reverses | None = None) -> tuple[HeteroData, Reverses]:
    """A shallow copy in which every relation has a reverse, and which relation is the reverse of which.

    Args:
        reverses: Those of another graph with the same relations. Graphs of one task must have the same relations in
            the same order, whatever edges are left in them.
    """
    both, found = graph.__copy__(), find_reverses(graph) if reverses is None else reverses
    for edge_type in graph.edge_types:
        reverse = tuple(found[Relation(*edge_type)])
        if reverse not in graph.edge_types:
            both[reverse].edge_index = graph[edge_type].edge_index.flip(0)
            if "edge_weight" in graph[edge_type]:
                both[reverse].edge_weight = graph[edge_type].edge_weight
    return both, found


def walked(path: MetaPath, reverses: Reverses) -> MetaPath:
    """The same path, whose steps are named as they are walked: away from the source, against the messages."""
    return MetaPath(tuple(reverses.get(step, step) for step in path.relations), path.types)


def _opposite(relations: list[Relation]) -> list[tuple[Relation, Relation]]:
    """Pairs of relations that connect the same types in opposite directions; a relation within a type is one too."""
    return [
        (one, other)
        for number, one in enumerate(relations)
        for other in relations[number:]
        if (one.source, one.target) == (other.target, other.source)
    ]


def _agreement(graph: HeteroData, one: Relation, other: Relation) -> float:
    """The share of edges that the other relation has in the opposite direction, of the relation with the lower share.

    Two relations without edges agree if their names say so.
    """
    width = int(graph[one.target].num_nodes or 0)
    mine, flipped = _keys(graph, one, width), _keys(graph, other, width, flipped=True)
    if not len(mine) and not len(flipped):
        return float(other.name == f"rev_{one.name}" or one.name == f"rev_{other.name}")
    if not len(mine) or not len(flipped):
        return 0.0
    return float(min(contains(flipped, mine).mean(), contains(mine, flipped).mean()))


def _keys(graph: HeteroData, relation: Relation, width: int, *, flipped: bool = False) -> Array:
    edges = graph[tuple(relation)].edge_index.numpy()
    keys: Array = np.sort(pair_keys(edges[::-1] if flipped else edges, width))
    return keys
