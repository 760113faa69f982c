"""What was predicted, against the labels of a split that may be looked at: validation, or training without it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.data import NodeTask, Split
from fastgtn.insight.report.names import Names, shortened
from fastgtn.insight.report.tables import ClassScore, Confusion, Judged, Mistake

MOST_CLASSES = 15
MOST_MISTAKES = 20
OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Predictions:
    """Probabilities [n, classes] of all target nodes and the labels given to them."""

    task: NodeTask
    probabilities: Tensor
    threshold: float

    @staticmethod
    def of(task: NodeTask, logits: Tensor) -> Predictions:
        return Predictions(task, task.probabilities(logits), task.threshold)

    def given(self, nodes: Tensor) -> Tensor:
        """Class numbers [B], or a mask [B, classes] where a node may have several."""
        rows = self.probabilities[nodes]
        return rows >= self.threshold if self.task.kind == "multi" else rows.argmax(1)

    def words(self, label: Tensor) -> str:
        """One label, or several."""
        names = self.task.class_names
        if label.dim() == 0:
            return shortened(names[int(label)])
        return shortened(", ".join(names[c] for c in label.nonzero().flatten().tolist()) or "none")


def open_split(task: NodeTask) -> tuple[str, Split]:
    """The split whose labels are shown: those of the test split stay with the task."""
    return ("val", task.val) if len(task.val) else ("train", task.train)


def judge(predictions: Predictions, names: Names) -> Judged:
    """Classes, confusions and the most confident mistakes."""
    task = predictions.task
    split, part = open_split(task)
    given = predictions.given(part.nodes)
    truth = part.labels.bool() if task.kind == "multi" else part.labels
    wrong, confidence = _wrong(predictions, part.nodes, given, truth)
    order = wrong.nonzero().flatten()
    order = order[confidence[order].argsort(descending=True, stable=True)][:MOST_MISTAKES]
    mistakes = tuple(
        Mistake(
            node, names.id(node), names.name(node), predictions.words(truth[row]), predictions.words(given[row]),
            round(float(confidence[row]), 6),
        )
        for row, node in zip(order.tolist(), part.nodes[order].tolist(), strict=True)
    )  # fmt: skip
    scores = class_scores(task, truth, given)
    confusion = None if task.kind == "multi" else confusion_of(task, truth, given)
    return Judged(split, len(part), int(wrong.sum()), scores, confusion, mistakes)


def _wrong(predictions: Predictions, nodes: Tensor, given: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Which nodes are wrong, and how sure the model was of the worst wrong decision of each."""
    rows = predictions.probabilities[nodes]
    if given.dim() == 1:
        return given != truth, rows.amax(1)
    sure = torch.where(given, rows, 1 - rows) * (given != truth)
    return (given != truth).any(1), sure.amax(1)


def class_scores(task: NodeTask, truth: Tensor, given: Tensor) -> tuple[ClassScore, ...]:
    """The most frequent classes, in the order of the task."""
    count = task.num_classes
    if given.dim() == 2:
        true, got, right = (mask.sum(0) for mask in (truth, given, truth & given))
    else:
        true, got, right = (torch.bincount(t, minlength=count) for t in (truth, given, truth[truth == given]))
    return tuple(
        ClassScore(shortened(task.class_names[c], 40), int(true[c]), int(got[c]), int(right[c])) for c in _shown(true)
    )


def confusion_of(task: NodeTask, truth: Tensor, given: Tensor) -> Confusion:
    """Counts of (true, predicted); where there are many classes, the less frequent ones are one."""
    shown = _shown(torch.bincount(truth, minlength=task.num_classes))
    place = torch.full((task.num_classes,), len(shown))
    place[torch.tensor(shown)] = torch.arange(len(shown))
    size = len(shown) + (len(shown) < task.num_classes)
    counts = torch.bincount(place[truth] * size + place[given], minlength=size * size).reshape(size, size)
    names = [shortened(task.class_names[c], 40) for c in shown] + [OTHERS] * (size - len(shown))
    return Confusion(tuple(names), tuple(tuple(row) for row in counts.tolist()))


def _shown(true: Tensor) -> list[int]:
    return sorted(true.argsort(descending=True, stable=True)[:MOST_CLASSES].tolist())
