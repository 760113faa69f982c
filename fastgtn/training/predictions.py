"""Predictions as a table: the user's ids, the split, the predicted label, a probability per class."""

import itertools
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
from fastgtn.training.files import write_whole
from fastgtn.training.schema import Schema, node_ids

FEW_CLASSES = 200  # with more, only the most probable classes of a node are written
TOP = 10
SPLITS = np.array(["none", "train", "val", "test"])


def prediction_table(
    schema: Schema, graph: HeteroData, logits: Tensor | Iterable[Tensor], task: NodeTask | None
) -> pa.Table:
    """One row per node of the target type."""
    return pa.concat_tables(prediction_tables(schema, graph, [logits] if isinstance(logits, Tensor) else logits, task))


def prediction_tables(
    schema: Schema, graph: HeteroData, logits: Iterable[Tensor], task: NodeTask | None
) -> Iterator[pa.Table]:
    """The same in pieces: one table for each block of logits, which follow each other in the order of the nodes."""
    ids = node_ids(graph, schema.target)
    splits = _splits(len(ids), task)
    start = 0
    for block in logits:
        rows = slice(start, start + len(block))
        yield _table(schema, block, ids[rows], splits[rows])
        start += len(block)


def _table(schema: Schema, logits: Tensor, ids: np.ndarray, splits: np.ndarray) -> pa.Table:
    probabilities = schema.probabilities(logits)
    names = np.array(schema.class_names)
    columns = {"node": pa.array(ids), "split": pa.array(SPLITS[splits])}
    if schema.kind == "multi":
        chosen = (probabilities >= schema.threshold).numpy()
        columns["predicted"] = pa.array([names[row].tolist() for row in chosen], pa.list_(pa.string()))
    else:
        columns["predicted"] = pa.array(names[logits.argmax(1).numpy()])
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
        pieces = map(_joined_labels, pieces)
    first = next(pieces)
    open_writer = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pyarrow.parquet.ParquetWriter
    with open_writer(path, first.schema) as writer:
        for piece in itertools.chain([first], pieces):
            writer.write_table(piece)


def _joined_labels(table: pa.Table) -> pa.Table:
    if not pa.types.is_list(table.schema.field("predicted").type):
        return table
    joined = pa.array(["|".join(names) for names in table["predicted"].to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index("predicted"), "predicted", joined)


def check_format(path: Path) -> None:
    """Refuse an ending that says no format, before any work is done."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"predictions are written as .parquet or .csv, but the name is {path.name}.")


def _splits(count: int, task: NodeTask | None) -> np.ndarray:
    """For each node, its place in `SPLITS`."""
    codes = np.zeros(count, np.int8)
    if task is not None:
        for code, nodes in enumerate((task.train.nodes, task.val.nodes, task.test_nodes), 1):
            codes[nodes.numpy()] = code
    return codes
