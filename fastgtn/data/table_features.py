"""Feature columns of a table as one matrix: numbers, categories, bags of words, lists and vectors side by side."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from torch import Tensor

from fastgtn.data import table_columns
from fastgtn.data.feature_matrix import feature_tensor
from fastgtn.data.table_config import Feature, FeatureKind
from fastgtn.errors import InputError

MIN_WORD_ROWS, MAX_WORDS = 2, 1000  # defaults of a text column
TEXT_FROM_WORDS = 3.0  # on average per value; fewer are a category
MANY_CATEGORIES = 100


def feature_matrix(table: pa.Table, columns: dict[str, Feature], where: str) -> tuple[Tensor, list[str]]:
    """All feature columns of one node type, and the name of each column of the result."""
    blocks: list[Any] = []
    names: list[str] = []
    for column, feature in columns.items():
        what = f'[{where}]: feature column "{column}"'
        block, block_names = _block(table[column], feature, what)
        blocks.append(block)
        names += [f"{column}={name}" if name else column for name in block_names]
    if any(sp.issparse(block) for block in blocks):
        return feature_tensor(sp.hstack(blocks, format="csr"), what=f"[{where}]: features"), names
    return feature_tensor(np.hstack(blocks), what=f"[{where}]: features"), names


def infer_kind(column: pa.ChunkedArray, what: str) -> FeatureKind:
    """Numbers, lists and vectors by their type; text of more than three words on average is text, else a category."""
    if table_columns.is_list(column):
        return "vector" if table_columns.holds_number_lists(column) else "list"
    if not table_columns.is_text(column):
        return "number"
    words = pc.mean(pc.count_substring_regex(column, table_columns.WORD)).as_py() or 0
    if words > TEXT_FROM_WORDS:
        return "text"
    distinct = pc.count_distinct(column).as_py()
    if distinct > max(MANY_CATEGORIES, len(column) / 2):
        raise InputError(
            f"{what} has {distinct} different values in {len(column)} rows: it looks like a name, not a feature. "
            'Leave it out, or state its kind: features = { column = "category" } or "text".'
        )
    return "category"


def _block(column: pa.ChunkedArray, feature: Feature, what: str) -> tuple[Any, list[str]]:
    kind = feature.kind or infer_kind(column, what)
    if kind == "number":
        values = table_columns.numbers(column, what)
        return (_standardized(values) if feature.standardize else values)[:, None].astype(np.float32), [""]
    if kind == "vector":
        matrix = table_columns.vectors(column, what).astype(np.float32)
        return matrix, [str(i) for i in range(matrix.shape[1])]
    if kind == "category":
        return _category(column, what)
    rows, number, names = table_columns.items(column, words=kind == "text")
    min_count = feature.min_count or (MIN_WORD_ROWS if kind == "text" else 1)
    most = feature.max_words or (MAX_WORDS if kind == "text" else None)
    table, names = table_columns.counts(len(column), rows, number, names, min_count=min_count, most=most)
    if kind == "list":
        table.data[:] = 1  # an item is there or not; words count
    if not names:
        raise InputError(f"{what} has no item that {min_count} rows share; lower min_count or leave it out.")
    return table, names


def _standardized(values: Any) -> Any:
    """Mean zero and standard deviation one; a constant column becomes zero."""
    deviation = values.std()
    return (values - values.mean()) / (deviation if deviation > 0 else 1.0)


def _category(column: pa.ChunkedArray, what: str) -> tuple[Any, list[str]]:
    """One column per value; a missing value is a row of zeros."""
    if table_columns.is_list(column):
        raise InputError(f'{what} holds lists; its kind is "list" or "vector".')
    code, names = table_columns.codes(column)
    rows = np.flatnonzero(code >= 0)
    shape = (len(code), len(names))
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, code[rows])), shape=shape), names
