"""What was fitted on the tables of a graph: it is stored with the graph and the run, and applied to new tables."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from fastgtn.data.tables.edge_features import EdgeEncoding
from fastgtn.data.tables.encoders import Encoder
from fastgtn.data.tables.encoders.difference import Difference
from fastgtn.data.tables.relations import SplitEncoding
from fastgtn.data.task import Kind
from fastgtn.errors import InputError
from fastgtn.options import Section

VERSION = 1
StoredAs = Literal["integer", "number", "text", "list"]


class ColumnEncoding(Section):
    """One column of a table: how it was stored, which kind it is and why, and its fitted encoder."""

    column: str
    stored_as: StoredAs
    why: str
    missing: int
    encoder: Encoder
    relation: str | None = None  # for a summary of the edges of this relation
    difference: Difference | None = None  # for the days between two columns of dates

    @property
    def names(self) -> list[str]:
        """Names of the columns that it becomes."""
        return [f"{self.column}={name}" if name else self.column for name in self.encoder.names]


class TypeEncoding(Section):
    """All feature columns of one node type, and whether their matrix is sparse."""

    id_type: Literal["integer", "text"]
    is_sparse: bool
    columns: tuple[ColumnEncoding, ...]

    @property
    def names(self) -> list[str]:
        return [name for column in self.columns for name in column.names]

    @property
    def own(self) -> tuple[ColumnEncoding, ...]:
        """What the node table alone says: its columns, and the days between two of them."""
        return tuple(column for column in self.columns if column.relation is None)

    @property
    def in_table(self) -> tuple[ColumnEncoding, ...]:
        """The columns that the node table must have."""
        return tuple(column for column in self.own if column.difference is None)

    @property
    def of_edges(self) -> tuple[ColumnEncoding, ...]:
        """The summaries of relations."""
        return tuple(column for column in self.columns if column.relation is not None)


class Encoding(Section):
    """Everything that was fitted on the tables of one graph.

    Args:
        edges, splits: By relation, what was fitted on the tables of edges.
        task_kind: What is predicted; None without a task.
        class_names: The classes of the label column, or the names of the columns of numbers.
    """

    version: int = VERSION
    nodes: dict[str, TypeEncoding]
    edges: dict[str, EdgeEncoding] = Field(default_factory=dict)
    splits: dict[str, SplitEncoding] = Field(default_factory=dict)
    task_kind: Kind | None = None
    class_names: tuple[str, ...] = ()

    @staticmethod
    def from_json(values: Mapping[str, Any], *, where: str) -> "Encoding":
        """Read what :meth:`to_json` wrote.

        Args:
            where: Names the file in messages.
        """
        version = values.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise InputError(
                f"{where}: the stored encoding has version {version}; this fastgtn reads up to {VERSION}: update it."
            )
        try:
            return Encoding.model_validate_json(json.dumps(values))  # as JSON, where a list may become a tuple
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{where}: the stored encoding is damaged ({place}: {first['msg']}).") from None

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, texts and lists."""
        return self.model_dump(mode="json")

    def differences(self, other: "Encoding") -> list[str]:
        """In words, where another encoding would give other numbers; empty where it gives the same."""
        found = []
        for node_type, mine in self.nodes.items():
            theirs = other.nodes.get(node_type)
            if theirs is None:
                continue  # the schema check reports another node type
            known = {column.column: column.encoder for column in theirs.columns}
            for column in mine.columns:
                if column.column not in known:
                    found.append(f'"{node_type}" lacks the column "{column.column}"')
                elif known[column.column] != column.encoder:
                    found.append(f'"{node_type}.{column.column}" {_difference(column.encoder, known[column.column])}')
            extra = known.keys() - {column.column for column in mine.columns}
            found += [f'"{node_type}" has the unexpected column "{name}"' for name in sorted(extra)]
            if mine.names != theirs.names and not found:
                found.append(f'"{node_type}" has its columns in another order')
        for relation in self.edges.keys() & other.edges.keys():
            if self.edges[relation] != other.edges[relation]:
                found.append(f'the edge features of "{relation}" were fitted on other values or another latest date')
        found += [f'"{r}" is split otherwise' for r in self.splits if self.splits[r] != other.splits.get(r)]
        return found


def _difference(mine: Encoder, other: Encoder) -> str:
    if mine.kind != other.kind:
        return f'is of kind "{other.kind}" instead of "{mine.kind}"'
    if mine.names != other.names:
        new = [name for name in other.names if name not in mine.names][:3]
        lost = [name for name in mine.names if name not in other.names][:3]
        words = [f"has {len(other.names)} values instead of {len(mine.names)}"]
        words += [f"new: {', '.join(new)}"] if new else []
        words += [f"not there: {', '.join(lost)}"] if lost else []
        return "; ".join(words)
    before, now = mine.model_dump(), other.model_dump()
    changed = [key for key in before if before[key] != now[key]]
    return "has " + ", ".join(f"{key} {_short(now[key])} instead of {_short(before[key])}" for key in changed)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
