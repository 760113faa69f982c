"""The scores of a result on one split of its graph, or of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_geometric.data import Data, HeteroData

from fastgtn.data import NodeTask
from fastgtn.errors import InputError, nearest
from fastgtn.runs.schema import Schema

if TYPE_CHECKING:
    from fastgtn.runs.result import Result

SPLITS = ("train", "val", "test")


def score_split(result: Result, split: str, graph: HeteroData | Data | None, task: NodeTask | None) -> dict[str, float]:
    """Scores as fractions; without a graph on that of the training, without a task by the labels of the graph."""
    if split not in SPLITS:
        raise InputError(f'no split "{split}"; {nearest(split, SPLITS)}')
    known = result.schema
    if graph is not None and task is None:
        task = NodeTask.from_hetero(graph, known.target, kind=known.kind, class_names=known.class_names)
    there = result.own if graph is None else result.on(graph, task)
    task = result.task if task is None else task
    _require_comparable(known, task)
    task = task.with_outcome(known.decision, known.largest)
    nodes = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}[split]
    if not len(nodes):
        raise InputError(f"the {split} split of this graph is empty, so it cannot be scored.")
    if split == "test":
        return task.score_test(there.logit_blocks(nodes))
    return task.metrics(there.logit_blocks(nodes), (task.train if split == "train" else task.val).labels)


def _require_comparable(known: Schema, task: NodeTask) -> None:
    if (task.target, task.kind, task.class_names) != (known.target, known.kind, known.class_names):
        raise InputError(
            f"the run predicts {len(known.class_names)} classes of {known.target} ({known.kind}), but the graph's "
            f"task has {task.num_classes} of {task.target} ({task.kind}), or other class names, so it cannot be scored."
        )
