"""What was fitted on the tables of a graph: it is stored with the graph and the run, and applied to new tables."""

import json
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pydantic import Field, ValidationError
from torch import Tensor

from fastgtn.data.feature_matrix import feature_tensor, laid_out_tensor
from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.edge_features import EdgeEncoding, is_total
from fastgtn.data.tables.encoders import Encoded, Encoder, fit_encoder
from fastgtn.data.tables.encoders.kinds import infer_kind
from fastgtn.data.tables.problems import Problems
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


def fit_columns(
    table: pa.Table, columns: Mapping[str, Feature], problems: Problems, *, where: str
) -> tuple[tuple[ColumnEncoding, ...], list[Encoded]]:
    """Fit an encoder to every feature column of a table, and encode the table with them."""
    fitted, encoded = [], []
    for name, feature in columns.items():
        what = f'[{where}]: feature column "{name}"'
        with problems.collected():
            kind, why = (feature.kind, "stated") if feature.kind else infer_kind(name, table[name], what)
            encoder = fit_encoder(table[name], feature.model_copy(update={"kind": kind}), what)
            block = encoder.encode(table[name], what)
            if getattr(encoder, "is_log", False):
                why += ", logarithm: a long tail" if feature.log is None else ", logarithm"
            fitted.append(
                ColumnEncoding(
                    column=name, stored_as=stored_as(table[name]), why=why, missing=block.missing, encoder=encoder
                )
            )
            encoded.append(block)
            if block.missing and kind == "number" and feature.fill is None:
                warnings.warn(
                    f"{what}: {block.missing:,} of {table.num_rows:,} values are missing; they take the median, and a "
                    f'column "{name}=missing" says where (fill = "median", "mean" or a number settles it).',
                    stacklevel=2,
                )
    return tuple(fitted), encoded


def fit_summaries(found: Mapping[str, Mapping[str, Array]], *, where: str) -> list[tuple[ColumnEncoding, Encoded]]:
    """Encoders for summaries, by relation and column: nodes without rows get 0 for totals, else the median."""
    fitted = []
    for relation, columns in found.items():
        for name, values in columns.items():
            what = f'[{where}]: summary "{relation}.{name}"'
            column = pa.chunked_array([pa.array(values, from_pandas=True)])
            if column.null_count == len(column):
                continue
            encoder = fit_encoder(column, Feature(kind="number", fill=0.0 if is_total(name) else "median"), what)
            encoded = encoder.encode(column, what)
            why = "summary of edges" + (", logarithm: a long tail" if getattr(encoder, "is_log", False) else "")
            each = ColumnEncoding(
                column=f"{relation}.{name}",
                stored_as="number",
                why=why,
                missing=encoded.missing,
                encoder=encoder,
                relation=relation,
            )
            fitted.append((each, encoded))
    return fitted


def apply_summaries(
    columns: tuple[ColumnEncoding, ...], found: Mapping[str, Mapping[str, Array]], num_nodes: int, *, where: str
) -> list[Encoded]:
    """The summaries of new edges with encoders that were fitted on others; a relation without rows counts zero."""
    encoded = []
    for column in columns:
        assert column.relation is not None
        name = column.column.removeprefix(f"{column.relation}.")
        values = found.get(column.relation, {}).get(name)
        values = np.full(num_nodes, np.nan) if values is None else values
        array = pa.chunked_array([pa.array(values, from_pandas=True)])
        encoded.append(column.encoder.encode(array, f'[{where}]: summary "{column.column}"'))
    return encoded


def apply_columns(
    table: pa.Table, columns: tuple[ColumnEncoding, ...], problems: Problems, *, where: str
) -> list[Encoded]:
    """Encode the columns of new tables with fitted values; a note counts unknown values."""
    encoded = []
    for column in columns:
        what = f'[{where}]: feature column "{column.column}"'
        with problems.collected():
            block = column.encoder.encode(table[column.column], what)
            encoded.append(block)
            if block.unknown:
                warnings.warn(
                    f"{what}: {block.unknown:,} of {table.num_rows:,} rows have a value that the encoding does not "
                    f'know, such as "{block.example}"; it is encoded as zeros.',
                    stacklevel=2,
                )
            if block.missing and column.encoder.kind == "number" and not column.encoder.has_missing:
                warnings.warn(
                    f"{what}: {block.missing:,} of {table.num_rows:,} values are missing, which did not happen in "
                    f"training; they take the value {column.encoder.fill:g}.",
                    stacklevel=2,
                )
    return encoded


def joined(encoded: list[Encoded], *, what: str, is_sparse: bool | None = None) -> Tensor:
    """The blocks side by side as one feature matrix.

    Args:
        is_sparse: The layout; None lets the share of zeros decide.
    """
    blocks = [each.block for each in encoded]
    matrix = sp.hstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.hstack(blocks)
    if is_sparse is None:
        return feature_tensor(matrix, what=what)
    return laid_out_tensor(matrix, what=what, is_sparse=is_sparse)


def stored_as(column: pa.ChunkedArray) -> StoredAs:
    """The type of a column in the few words that a CSV reader needs to read it alike again."""
    if table_columns.is_list(column):
        return "list"
    if table_columns.is_text(column):
        return "text"
    return "integer" if pa.types.is_integer(column.type) else "number"


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
