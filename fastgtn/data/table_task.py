"""Labels and split of the target table as a task."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from fastgtn.data import table_columns
from fastgtn.data.splits import draw_split
from fastgtn.data.table_columns import Array
from fastgtn.data.table_config import Task
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError, nearest

SPLIT_NAMES = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val",
    "test": "test", "testing": "test",
}  # fmt: skip


def node_task(table: pa.Table, task: Task) -> NodeTask:
    """The task of graph.toml; nodes with an empty label belong to no split."""
    labels, names = _labels(table[task.label], task)
    if not names:
        raise InputError(f'[task]: the label column "{task.label}" is empty in every row.')
    if isinstance(task.split, str):
        train, val, test = _split_column(table[task.split], task.split)
    else:
        fractions = (task.split.train, task.split.val, task.split.test)
        train, val, test = draw_split(labels, fractions, seed=task.split.seed)
    y = torch.from_numpy(labels)
    try:
        return NodeTask.from_labels(task.target, task.labels, y, train=train, val=val, test=test, class_names=names)
    except InputError as error:
        raise InputError(f"[task]: {error}") from None


def _labels(column: pa.ChunkedArray, task: Task) -> tuple[Array, list[str]]:
    """Class numbers [N], or zeros and ones [N, classes] for several labels per node."""
    if task.labels == "multi":
        rows, number, names = table_columns.items(column)
        labels = np.zeros((len(column), len(names)), np.float32)
        labels[rows, number] = 1
        return labels, names
    if table_columns.is_list(column):
        raise InputError(f'[task]: the label column "{task.label}" holds lists; set labels = "multi".')
    if pa.types.is_floating(column.type):
        values = column.drop_null()
        if not pc.all(pc.equal(values, pc.trunc(values))).as_py():
            raise InputError(f'[task]: the label column "{task.label}" holds fractions; classes are needed.')
    return table_columns.codes(column)


def _split_column(column: pa.ChunkedArray, name: str) -> tuple[Tensor, Tensor | None, Tensor]:
    code, names = table_columns.codes(column)
    parts = [SPLIT_NAMES.get(value.strip().lower()) for value in names]
    for value, part in zip(names, parts, strict=True):
        if part is None:
            raise InputError(f'[task]: the split column "{name}" holds "{value}"; {nearest(value, SPLIT_NAMES)}')
    split = np.array([*parts, ""])[code]  # −1, an empty cell, takes the last
    train, val, test = (torch.from_numpy(np.flatnonzero(split == part)) for part in ("train", "val", "test"))
    return train, val if len(val) else None, test
