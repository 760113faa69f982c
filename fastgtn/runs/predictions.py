"""Predictions as a table: the user's ids, the split, the predicted label, a probability per class."""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.runs.files import write_whole
from fastgtn.runs.schema import Schema, node_ids
from fastgtn.runs.scoring.splits import SPLITS, split_codes

FEW_CLASSES = 200  # with more, only the most probable classes of a node are written
TOP = 10
FORMULA = r"^([=+\-@\t\r])"  # the first characters of a cell that spreadsheets evaluate as a formula


def prediction_table(
    schema: Schema,
    graph: HeteroData,
    logits: Tensor | Iterable[Tensor],
    task: NodeTask | None,
    *,
    nodes: Tensor | None = None,
    splits: np.ndarray | None = None,
) -> pa.Table:
    """One row per node of the target type, or per chosen node.

    Args:
        splits: What :func:`split_codes` gives for the task, if it is known.
    """
    blocks = [logits] if isinstance(logits, Tensor) else logits
    return pa.concat_tables(prediction_tables(schema, graph, blocks, task, nodes=nodes, splits=splits))


def prediction_tables(
    schema: Schema,
    graph: HeteroData,
    logits: Iterable[Tensor],
    task: NodeTask | None,
    *,
    nodes: Tensor | None = None,
    splits: np.ndarray | None = None,
) -> Iterator[pa.Table]:
    """The same table in pieces, one for each block of logits, in the order of the nodes."""
    ids = node_ids(graph, schema.target)
    splits = split_codes(len(ids), task) if splits is None else splits
    if nodes is not None:
        ids, splits = ids[nodes.numpy()], splits[nodes.numpy()]
    start = 0
    for block in logits:
        rows = slice(start, start + len(block))
        yield score_table(schema, block, ids[rows], splits[rows])
        start += len(block)


def score_table(schema: Schema, logits: Tensor, ids: np.ndarray, splits: np.ndarray) -> pa.Table:
    """The rows of some nodes, with their ids and the numbers of their splits."""
    probabilities = schema.probabilities(logits)
    names = np.array(schema.class_names)
    columns = {"node": pa.array(ids), "split": pa.array(SPLITS[splits])}
    if schema.kind == "number":
        several = len(names) > 1
        titles = [f"predicted_{name}" if several else "predicted" for name in names]
        return pa.table(columns | {title: pa.array(probabilities[:, c].numpy()) for c, title in enumerate(titles)})
    if schema.kind == "multi":
        chosen = (probabilities >= schema.threshold).numpy()
        columns["predicted"] = pa.array([names[row].tolist() for row in chosen], pa.list_(pa.string()))
    else:
        columns["predicted"] = pa.array(names[schema.chosen(probabilities).numpy()])
    if len(names) <= FEW_CLASSES:
        columns |= {f"p_{name}": pa.array(probabilities[:, c].numpy()) for c, name in enumerate(names)}
    else:
        top, classes = probabilities.topk(TOP)
        for k in range(TOP):
            columns[f"class_{k + 1}"] = pa.array(names[classes[:, k].numpy()])
            columns[f"p_{k + 1}"] = pa.array(top[:, k].numpy())
    return pa.table(columns)


def write_table(table: pa.Table | Iterable[pa.Table], path: Path) -> None:
    """Write Parquet or CSV, by the ending of the name; several labels of a node are joined by "|" in CSV.

    Args:
        table: One table, or its pieces, which are written one after the other.
    """
    check_format(path)
    pieces = iter([table] if isinstance(table, pa.Table) else table)
    write_whole(path, lambda temporary: _write(pieces, temporary))


def _write(pieces: Iterator[pa.Table], path: Path) -> None:
    if path.suffix == ".csv":
        pieces = map(_without_formulas, map(_joined_labels, pieces))
    first = next(pieces)
    open_writer = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pyarrow.parquet.ParquetWriter
    with open_writer(path, first.schema) as writer:
        for piece in itertools.chain([first], pieces):
            writer.write_table(piece)


def _joined_labels(table: pa.Table) -> pa.Table:
    if "predicted" not in table.column_names or not pa.types.is_list(table.schema.field("predicted").type):
        return table
    joined = pa.array(["|".join(names) for names in table["predicted"].to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index("predicted"), "predicted", joined)


def _without_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before texts that a spreadsheet would evaluate as a formula; Parquet keeps the text."""
    import pyarrow.compute as pc  # here, because a training writes Parquet, which does not need it

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = pc.replace_substring_regex(table[place], FORMULA, r"'\1")
            table = table.set_column(place, field.name, column)
    return table.rename_columns([re.sub(FORMULA, r"'\1", name) for name in table.column_names])


def check_format(path: Path) -> None:
    """Refuse an unknown file ending before any work is done."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"predictions are written as .parquet or .csv, but the name is {path.name}.")
