"""Predictions as a table: the user's ids, the split, the predicted label, a probability per class."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training.files import write_whole
from fastgtn.training.schema import Schema, node_ids

FEW_CLASSES = 200  # with more, only the most probable classes of a node are written
TOP = 10


def prediction_table(schema: Schema, graph: HeteroData, logits: Tensor, task: NodeTask | None) -> pa.Table:
    """One row per node of the target type."""
    probabilities = schema.probabilities(logits)
    names = np.array(schema.class_names)
    columns = {"node": pa.array(node_ids(graph, schema.target)), "split": pa.array(_splits(len(logits), task))}
    if schema.kind == "multi":
        chosen = (probabilities >= schema.threshold).numpy()
        columns["predicted"] = pa.array([names[row].tolist() for row in chosen])
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


def write_table(table: pa.Table, path: Path) -> None:
    """Write Parquet or CSV, by the ending of the name; several labels of a node are joined by "|" in CSV."""
    if path.suffix == ".parquet":
        write_whole(path, lambda temporary: pyarrow.parquet.write_table(table, temporary))
        return
    check_format(path)
    place = table.schema.get_field_index("predicted")
    if pa.types.is_list(table.schema.field("predicted").type):
        joined = pa.array(["|".join(names) for names in table["predicted"].to_pylist()])
        table = table.set_column(place, "predicted", joined)
    write_whole(path, lambda temporary: pyarrow.csv.write_csv(table, temporary))


def check_format(path: Path) -> None:
    """Refuse an ending that says no format, before any work is done."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"predictions are written as .parquet or .csv, but the name is {path.name}.")


def _splits(count: int, task: NodeTask | None) -> list[str]:
    codes = torch.zeros(count, dtype=torch.int64)
    if task is not None:
        for code, nodes in enumerate((task.train.nodes, task.val.nodes, task.test_nodes), 1):
            codes[nodes] = code
    words = ["none", "train", "val", "test"]
    return [words[code] for code in codes.tolist()]
