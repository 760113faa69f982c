"""Labels and split of the target table as a task."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from fastgtn.data.splits import draw_split, split_by_time
from fastgtn.data.tables import columns as table_columns
from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.config import Task
from fastgtn.data.tables.encoders.kinds import are_counts
from fastgtn.data.tables.encoding import Encoding
from fastgtn.data.task import Kind, NodeTask
from fastgtn.errors import InputError, nearest

MOST_WHOLE_CLASSES = 30  # whole numbers with more different values are numbers, unless labels say otherwise
FEW_WHOLE_CLASSES = 10  # up to here they are classes even if they look like counts
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}


def node_task(
    table: pa.Table, task: Task, *, like: Encoding | None = None, times: Array | None = None
) -> NodeTask | None:
    """The task of graph.toml; nodes with an empty label belong to no split.

    Args:
        like: What was fitted on the tables that a model was trained on: the labels are numbered like its classes, and
            there is no task if no node has a label or none is in the training split.
        times: The moments of the rows, or else their times, for a split by time.
    """
    kind = like.task_kind if like is not None and like.task_kind else label_kind(table, task)
    if kind == "number":
        labels, names = _numbers(table, task), task.label_columns
    else:
        labels, names = _classes(table, task, kind)
        if like is not None:
            labels, names = _renumbered(labels, names, like.class_names, task)
    has_label = np.isfinite(labels).all(1) if kind == "number" else labels >= 0 if labels.ndim == 1 else labels.any(1)
    if not has_label.any():
        if like is not None:
            return None
        raise InputError(f'[task]: the label column "{task.label}" is empty in every row.')
    if isinstance(task.split, str):
        train, val, test = _split_column(table[task.split], task.split)
    else:
        fractions = (task.split.train, task.split.val, task.split.test)
        if task.split.by == "time":
            if times is None:
                raise InputError(
                    "[task]: a split by time needs the moments of the nodes: give as_of, or time in the node table."
                )
            train, val, test = split_by_time(times, np.asarray(has_label), fractions, may_be_empty=like is not None)
        else:
            train, val, test = draw_split(
                _tenths(labels) if kind == "number" else labels, fractions, seed=task.split.seed
            )
    if like is not None and not len(train):
        return None  # new rows need no labels to train on
    y = torch.from_numpy(labels)
    try:
        return NodeTask.from_labels(task.target, kind, y, train=train, val=val, test=test, class_names=names)
    except InputError as error:
        raise InputError(f"[task]: {error}") from None


def label_kind(table: pa.Table, task: Task) -> Kind:
    """What is predicted: as stated, or numbers where a column of numbers has fractions or too many values for classes.

    Whole numbers of at most 30 different values are classes, unless there are more than ten that look like counts. All
    text is classes.
    """
    if task.labels != "auto":
        return task.labels
    if isinstance(task.label, list):
        return "number"
    column = table[task.label]
    if table_columns.is_text(column) and table_columns.looks_like_numbers(column):
        column = table_columns.without_missing_words(column).cast(pa.float64())
    if table_columns.is_text(column) or table_columns.is_list(column):
        return "single"
    seen = column.drop_null()
    if pa.types.is_floating(column.type) and not pc.all(pc.equal(seen, pc.trunc(seen))).as_py():
        return "number"
    distinct = pc.count_distinct(seen).as_py()
    if FEW_WHOLE_CLASSES < distinct <= MOST_WHOLE_CLASSES and are_counts(seen):
        warnings.warn(
            f'[task]: the label column "{task.label}" holds whole numbers of {distinct} values that look like counts, '
            'so a number is predicted; labels = "single" makes them classes.',
            stacklevel=2,
        )
        return "number"
    return "number" if distinct > MOST_WHOLE_CLASSES else "single"


def _numbers(table: pa.Table, task: Task) -> Array:
    columns = [
        table_columns.numbers_or_nan(table[name], f'[task]: the label column "{name}"') for name in task.label_columns
    ]
    return np.stack(columns, 1).astype(np.float32)


def _tenths(numbers: Array) -> Array:
    """Ten classes of equal size by the first number, −1 where there is none: every split gets small and large ones."""
    classes = np.full(len(numbers), -1, np.int64)
    seen = np.flatnonzero(np.isfinite(numbers).all(1))
    order = seen[np.argsort(numbers[seen, 0], kind="stable")]
    classes[order] = np.arange(len(order)) * 10 // max(len(order), 1)
    return classes


def _renumbered(labels: Array, names: list[str], class_names: tuple[str, ...], task: Task) -> tuple[Array, list[str]]:
    unknown = [name for name in names if name not in class_names]
    if unknown:
        raise InputError(
            f'[task]: the label column "{task.label}" holds "{unknown[0]}", a class that training did not have; '
            + nearest(unknown[0], class_names)
        )
    place = np.array([class_names.index(name) for name in names], np.int64)
    if labels.ndim == 1:
        return np.where(labels >= 0, place[labels] if len(place) else -1, -1), list(class_names)
    moved = np.zeros((len(labels), len(class_names)), np.float32)
    moved[:, place] = labels
    return moved, list(class_names)


def _classes(table: pa.Table, task: Task, kind: Kind) -> tuple[Array, list[str]]:
    """Class numbers [N], or zeros and ones [N, classes] for several labels per node."""
    if isinstance(task.label, list):
        raise InputError('[task]: several label columns are for numbers: set labels = "number", or name one column.')
    column = table[task.label]
    if kind == "multi":
        rows, number, names = table_columns.items(column)
        labels = np.zeros((len(column), len(names)), np.float32)
        labels[rows, number] = 1
        return labels, names
    if table_columns.is_list(column):
        raise InputError(f'[task]: the label column "{task.label}" holds lists; set labels = "multi".')
    if pa.types.is_floating(column.type):
        values = column.drop_null()
        if not pc.all(pc.equal(values, pc.trunc(values))).as_py():
            raise InputError(
                f'[task]: the label column "{task.label}" holds fractions, which cannot be classes; '
                'set labels = "number", or leave labels out.'
            )
    if table_columns.is_text(column):
        column = table_columns.without_missing_words(column)
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
