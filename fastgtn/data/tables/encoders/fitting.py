"""Fit encoders to the columns of tables, and apply fitted ones to new tables."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from torch import Tensor

from fastgtn.data.feature_matrix import feature_tensor, laid_out_tensor
from fastgtn.data.number_unit import plain_number
from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.edge_features import is_total
from fastgtn.data.tables.encoders import Encoded, Encoder, fit_encoder
from fastgtn.data.tables.encoders.difference import find_differences
from fastgtn.data.tables.encoders.kinds import infer_kind
from fastgtn.data.tables.encoders.number import LONG_TAIL as LONG_TAIL_FROM
from fastgtn.data.tables.encoders.number import NumberEncoder
from fastgtn.data.tables.encoding import ColumnEncoding, StoredAs
from fastgtn.data.tables.problems import Problems

FAR_BELOW = 1.0  # deviations that the mean number of rows may fall, twice as many for a single node
LONG_TAIL = ", logarithm: a long tail"  # why the logarithm of a number is taken unasked


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
            if _is_log(encoder):
                why += LONG_TAIL if feature.log is None else ", logarithm"
            fitted.append(
                ColumnEncoding(
                    column=name, stored_as=stored_as(table[name]), why=why, missing=block.missing, encoder=encoder
                )
            )
            encoded.append(block)
            if block.missing and kind == "number" and feature.fill is None:
                warnings.warn(
                    f"{what}: {block.missing:,} of {table.num_rows:,} values are missing; they take the median, and a "
                    f'column "{name}=missing" marks them (set fill = "median", "mean" or a number to decide it).',
                    stacklevel=2,
                )
    between = fit_differences(table, fitted, where=where)
    return (*fitted, *(column for column, _ in between)), encoded + [block for _, block in between]


def fit_differences(
    table: pa.Table, columns: Sequence[ColumnEncoding], *, where: str
) -> list[tuple[ColumnEncoding, Encoded]]:
    """Encoders for the days between the date columns of a table."""
    dates = {column.column: column.encoder.format for column in columns if column.encoder.kind == "date"}
    fitted = []
    for pair in find_differences(table, dates, where):
        what, days = f'[{where}]: "{pair.name}"', pair.days(table, where)
        encoder = fit_encoder(days, Feature(kind="number"), what)
        encoded = encoder.encode(days, what)
        column = ColumnEncoding(
            column=pair.name,
            stored_as="number",
            why="days between two dates" + LONG_TAIL * _is_log(encoder),
            missing=encoded.missing,
            encoder=encoder,
            difference=pair,
        )
        fitted.append((column, encoded))
    return fitted


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
            why = "summary of edges" + LONG_TAIL * _is_log(encoder)
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


def note_missing_rows(
    columns: tuple[ColumnEncoding, ...], found: Mapping[str, Mapping[str, Array]], *, where: str
) -> None:
    """Warn where nodes have far fewer rows than in training: tables of new rows alone lack those around them."""
    for column in columns:
        counts, encoder = found.get(column.relation or "", {}).get("count"), column.encoder
        if counts is None or column.column != f"{column.relation}.count" or encoder.kind != "number" or not len(counts):
            continue
        below = -float(encoder.encode(pa.chunked_array([pa.array(counts)]), where).block[:, 0].mean())
        if below > FAR_BELOW * (1 + 1 / np.sqrt(len(counts))):
            usual = np.expm1(encoder.mean) if encoder.is_log else encoder.mean
            warnings.warn(
                f'[{where}]: a node has {counts.mean():.3g} rows of "{column.relation}" here, and {usual:.3g} in the '
                "tables of the training, so its sums are not comparable. Add the other rows of these nodes to the "
                "tables, not only the new ones.",
                stacklevel=2,
            )


def apply_columns(
    table: pa.Table, columns: tuple[ColumnEncoding, ...], problems: Problems, *, where: str
) -> list[Encoded]:
    """Encode the columns of new tables with fitted values; a note counts unknown values."""
    encoded = []
    for column in columns:
        what = f'[{where}]: feature column "{column.column}"'
        with problems.collected():
            values = table[column.column] if column.difference is None else column.difference.days(table, where)
            block = column.encoder.encode(values, what)
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
            if column.encoder.kind == "number":
                _note_far_values(column.encoder, values, what)
    return encoded


def _note_far_values(encoder: NumberEncoder, column: pa.ChunkedArray, what: str) -> None:
    """Warn of numbers that are far from those of the training: they may be in another unit."""
    values = table_columns.numbers_or_nan(column, what)
    deviations = np.abs(encoder.scaled(values))
    far = np.flatnonzero(deviations > LONG_TAIL_FROM)
    if not encoder.is_standard or not far.size:
        return
    centre = np.sign(encoder.mean) * np.expm1(abs(encoder.mean)) if encoder.is_log else encoder.mean
    warnings.warn(
        f"{what}: {far.size:,} of {len(values):,} rows have a number more than {LONG_TAIL_FROM:g} standard deviations "
        f"from the mean of the training tables, such as {plain_number(float(values[far[0]]))} where the mean is "
        f"{plain_number(float(centre))}. Check the unit of the column.",
        stacklevel=3,
    )


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


def _is_log(encoder: Encoder) -> bool:
    return encoder.kind == "number" and encoder.is_log
