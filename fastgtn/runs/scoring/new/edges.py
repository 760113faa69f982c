"""The edges of new nodes: which relation, which stored node, and what the edge table says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.encoding import Encoding
from fastgtn.data.tables.relations import parts_of
from fastgtn.errors import InputError, nearest
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.schema import IDENTITY
from fastgtn.runs.scoring.new.columns import table_of
from fastgtn.runs.scoring.new.request import NewEdge, NewNode
from fastgtn.runs.scoring.node_names import NodeNames

REVERSE = "rev_"


class EdgeRows(NamedTuple):
    """All edges that a request has under one name."""

    name: str
    relation: Relation
    new: Array  # which of the new nodes
    other: Array  # the number of the stored node within its type
    is_source: Array  # whether the edge leads away from the new node
    weight: Array
    table: pa.Table


class NewEdges(NamedTuple):
    """Edges of the stack. Stored nodes have their numbers; new ones follow them."""

    relation: Tensor
    rows: Tensor
    cols: Tensor
    values: Tensor


@dataclass(frozen=True, eq=False)
class EdgeReader:
    """Finds relations and nodes that requests name."""

    raw: RelationStack
    graph: HeteroData
    target: str
    encoding: Encoding | None
    names: Mapping[str, NodeNames]
    is_binary: bool

    def read(self, nodes: Sequence[NewNode]) -> list[EdgeRows]:
        """The edges of all nodes, by the name of their relation."""
        keys = dict.fromkeys(key for node in nodes for key in node.edges)
        return [self._rows(key, nodes) for key in keys]

    def in_stack(self, found: Sequence[EdgeRows]) -> NewEdges:
        """As edges of the stack, in both directions where the graph has each edge of a relation in both.

        Rows that repeat a pair are one edge; where edges have weights, these are added.
        """
        edges: dict[tuple[int, int, int], float] = {}
        for rows in found:
            for t, row, col, weight in zip(*self._ends(rows), rows.weight.tolist(), strict=True):
                if t >= 0:
                    before = edges.get((t, row, col), 0.0)
                    edges[t, row, col] = before + weight if self._has_weights(self.raw.relations[t]) else 1.0
        for (t, row, col), weight in list(edges.items()):
            if t in self.mirrors:
                edges.setdefault((self.mirrors[t], col, row), weight)
        relation, rows_of, cols_of = torch.tensor(list(edges), dtype=torch.int64).reshape(-1, 3).T
        return NewEdges(relation, rows_of, cols_of, torch.tensor(list(edges.values()), dtype=self.raw.dtype))

    @cached_property
    def mirrors(self) -> dict[int, int]:
        """For each relation that has a reverse, possibly itself, the number of the reverse."""
        found: dict[int, int] = {}
        relations = self.raw.relations
        keys: dict[int, Tensor] = {}

        def places(t: int, *, turned: bool) -> Tensor:
            rows, cols, _ = self.raw[t].coordinates()
            return (cols * self.raw.num_nodes + rows if turned else rows * self.raw.num_nodes + cols).sort()[0]

        for t, relation in enumerate(relations):
            for u, other in enumerate(relations):
                if IDENTITY in (relation, other) or (other.target, other.source) != (relation.source, relation.target):
                    continue
                is_named = REVERSE + relation.name == other.name or REVERSE + other.name == relation.name
                if not is_named:
                    keys.setdefault(t, places(t, turned=False))
                    mine, theirs = keys[t], places(u, turned=True)
                    is_named = bool(len(mine)) and torch.equal(mine, theirs)
                if is_named:
                    found[t] = u
                    break
        return found

    def _rows(self, key: str, nodes: Sequence[NewNode]) -> EdgeRows:
        relation = self._relation(key)
        sent = [(n, edge) for n, node in enumerate(nodes) if key in node.edges for edge in node.edges_of(key)]
        is_source = np.array([self._leads_away(key, relation, edge) for _, edge in sent], bool)
        is_weighted = self._has_weights(relation)
        for n, edge in sent:
            if is_weighted and edge.weight is None:
                raise InputError(f'node "{nodes[n].id}": edges of "{key}" have weights; give "weight" with each.')
            if edge.weight is not None and not is_weighted and not self.is_binary:
                raise InputError(f'node "{nodes[n].id}": edges of "{key}" have no weights; leave out "weight".')
        ends = [relation.target if away else relation.source for away in is_source]
        other = [
            self._number(end, str(edge.node), f'node "{nodes[n].id}": "{key}"')
            for end, (n, edge) in zip(ends, sent, strict=True)
        ]
        names = [f'node "{nodes[n].id}"' for n, _ in sent]
        table = table_of(
            [edge.columns for _, edge in sent], dict.fromkeys(self._columns(key)), names, what=f'edges of "{key}"'
        )
        weight = np.array([1.0 if edge.weight is None else edge.weight for _, edge in sent])
        new = np.array([n for n, _ in sent], np.int64)
        return EdgeRows(key, relation, new, np.array(other, np.int64), is_source, weight, table)

    def _ends(self, rows: EdgeRows) -> tuple[list[int], list[int], list[int]]:
        """Relation, row and column of each edge in the stack; relation −1 for an edge that belongs to none."""
        split = None if self.encoding is None else self.encoding.splits.get(rows.name)
        numbers = [self.raw.relations.index(rows.relation)] * len(rows.new)
        if split is not None:
            names = [f"{rows.name} {part}" for part in split.names]
            parts = [self.raw.relations.index(rows.relation._replace(name=name)) for name in names]
            places = parts_of(rows.table, split, f"relations.{rows.name}").tolist() if len(rows.new) else []
            numbers = [parts[place] if place >= 0 else -1 for place in places]
        new = rows.new + self.raw.num_nodes
        types = [rows.relation.target if away else rows.relation.source for away in rows.is_source]
        starts = np.array([self.raw.nodes_of(node_type).start for node_type in types], np.int64)
        stored = rows.other + starts
        targets, sources = np.where(rows.is_source, stored, new), np.where(rows.is_source, new, stored)
        return numbers, targets.tolist(), sources.tolist()

    def _relation(self, key: str) -> Relation:
        """The relation of this name; of a relation that was split, any of its parts."""
        splits = {} if self.encoding is None else self.encoding.splits
        name = f"{key} {splits[key].names[0]}" if key in splits else key
        found = [relation for relation in self.relations if name in (relation.name, str(relation))]
        if self.encoding is not None and key not in splits and not any(r.name in self._table_names for r in found):
            found = []
        if len(found) == 1:
            return found[0]
        known = [*self._table_names, *splits]
        hint = f"several have this name: use one of {', '.join(map(str, found))}" if found else nearest(key, known)
        raise InputError(f'no relation "{key}" of {self.target} nodes; {hint}')

    @cached_property
    def relations(self) -> list[Relation]:
        """Those with an end at the type of the new nodes."""
        return [r for r in self.raw.relations if r != IDENTITY and self.target in (r.source, r.target)]

    @cached_property
    def _table_names(self) -> list[str]:
        """Names that a request may use: of a graph from tables, not the reverse relations and parts that were made."""
        names = [relation.name for relation in self.relations]
        if self.encoding is None:
            return names
        parts = {f"{name} {part}" for name, split in self.encoding.splits.items() for part in split.names}
        return [n for n in names if n not in parts and not (n.startswith(REVERSE) and n.removeprefix(REVERSE) in names)]

    def _leads_away(self, key: str, relation: Relation, edge: NewEdge) -> bool:
        if relation.source == relation.target:
            return not edge.incoming
        if edge.incoming:
            raise InputError(f'"incoming" is only for relations between nodes of one type, not for "{key}".')
        return relation.source == self.target

    def _number(self, node_type: str, name: str, where: str) -> int:
        try:
            return self.names[node_type].number(name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def _columns(self, key: str) -> list[str]:
        """The columns of the edge table that the encoding reads."""
        if self.encoding is None:
            return []
        edges, split = self.encoding.edges.get(key), self.encoding.splits.get(key)
        edges = None if edges is None or edges.many is not None else edges  # those are columns of nodes
        names = [] if edges is None else [*(c.column for c in edges.in_table), *([edges.time] if edges.time else [])]
        return list(dict.fromkeys([*names, *([split.column] if split else [])]))

    def _has_weights(self, relation: Relation) -> bool:
        if self.is_binary:
            return False
        turned = Relation(relation.target, relation.name.removeprefix(REVERSE), relation.source)
        return any(
            tuple(each) in self.graph.edge_types and "edge_weight" in self.graph[tuple(each)]
            for each in (relation, turned)
        )
