"""Export meta-paths: arguments of PyG's AddMetaPaths, Cypher and SQL queries, and learned graphs."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch_geometric.data import HeteroData

from fastgtn.nn import MetaPathModel
from fastgtn.relations import ANY, IDENTITY, Relation, RelationStack
from fastgtn.relations.paths.metapath import MetaPath

REVERSE = "rev_"  # prefix of relations that a stack or PyG's ToUndirected has added


class _Stored(NamedTuple):
    relation: Relation
    against: bool  # whether the path follows the reverse of the stored relation


def pyg_metapaths(paths: Iterable[MetaPath]) -> list[list[tuple[str, str, str]]]:
    """The `metapaths` of ``torch_geometric.transforms.AddMetaPaths``, which follows edges towards the target.

    Paths of one step are edge types already, and non-local steps have no edge type. Both are omitted.
    """
    return [
        [(source, name, target) for source, name, target in reversed(path.relations)]
        for path in paths
        if len(path) > 1 and _has_edges(path)
    ]


def pyg_text(paths: Iterable[MetaPath]) -> str:
    """Python source that adds the paths to a `HeteroData` object as edge types ``metapath_0``, ``metapath_1`` …"""
    metapaths = pyg_metapaths(paths)
    lines = ["from torch_geometric.transforms import AddMetaPaths", ""]
    if any(name.startswith(REVERSE) for path in metapaths for _, name, _ in path):
        lines[1:] = ["from torch_geometric.transforms import ToUndirected", "", "graph = ToUndirected()(graph)"]
    rows = [f"    [{', '.join(map(repr, path))}]," for path in metapaths]
    return "\n".join([*lines, "metapaths = [", *rows, "]", "graph = AddMetaPaths(metapaths, weighted=True)(graph)", ""])


def learned_hetero(
    model: MetaPathModel, stack: RelationStack, graph: HeteroData, *, entries: int | None = None
) -> HeteroData:
    """The nodes of a graph with the learned meta-path graphs as edges, one edge type per channel and pair of types.

    Args:
        entries: Keep only this many largest entries per row; without it, whole graphs of up to 2 GB.
    """
    with torch.no_grad():
        learned = model.learned_graphs(stack, top=entries).to_hetero()
    out = copy.copy(graph)
    for edge_type in list(graph.edge_types):
        del out[edge_type]
    for edge_type in learned.edge_types:
        out[edge_type].edge_index = learned[edge_type].edge_index
        out[edge_type].edge_weight = learned[edge_type].edge_weight
    return out


def cypher(path: MetaPath, relations: Sequence[Relation] = ()) -> str:
    """A query for both ends of a path and the number of its instances; node labels are the node types.

    Args:
        relations: The relations of the stack, to distinguish added reverses from stored relations.
    """
    pattern = f"(n0:{_cypher_name(path.types[0])})"
    for k, ((relation, against), kind) in enumerate(zip(_stored(path, relations), path.types[1:], strict=True), 1):
        arrow = "-[:{}]->" if against else "<-[:{}]-"
        pattern += arrow.format(_cypher_name(relation.name)) + f"(n{k}:{_cypher_name(kind)})"
    return f"MATCH {pattern}\nRETURN n0, n{len(path)}, count(*) AS paths;\n"


def sql(path: MetaPath, relations: Sequence[Relation] = ()) -> str:
    """The same as SQL over one table per relation, with the columns ``source`` and ``target``.

    A table has the name of its relation, or ``source_name_target`` if two relations have the same name.
    """
    if not path.relations:
        raise ValueError("the empty path has no tables.")
    names = Counter(relation.name for relation in {*relations, *path.relations})
    joins: list[str] = []
    first = before = ""
    for k, (relation, against) in enumerate(_stored(path, relations), 1):
        table = relation.name if names[relation.name] == 1 else "_".join(relation)
        near, far = ("source", "target") if against else ("target", "source")
        joined = f"FROM {_sql_name(table)} AS e{k}" if k == 1 else f"JOIN {_sql_name(table)} AS e{k} ON e{k}.{near} = "
        joins.append(joined + before)
        first = first or f"e1.{near}"
        before = f"e{k}.{far}"
    ends = f"SELECT {first} AS n0, {before} AS n{len(path)}, count(*) AS paths"
    return "\n".join([ends, *joins, f"GROUP BY {first}, {before};", ""])


def is_exportable(path: MetaPath) -> bool:
    """Whether the edges of a path exist outside the model; non-local edges do not."""
    return bool(path.relations) and _has_edges(path)


def _has_edges(path: MetaPath) -> bool:
    return all(ANY not in (r.source, r.target) for r in path.relations)


def _stored(path: MetaPath, relations: Sequence[Relation]) -> list[_Stored]:
    known = {*relations} - {IDENTITY}
    found = []
    for relation in path.relations:
        source, name, target = relation
        forward = Relation(target, name.removeprefix(REVERSE), source)
        found.append(_Stored(forward, True) if forward in known and forward.name != name else _Stored(relation, False))
    return found


def _cypher_name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
