"""Predictions compared with the labels of a split that may be shown: validation, or training if there is none."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.data import NodeTask, Split
from fastgtn.data.number_unit import plain_number
from fastgtn.report.charts.probability import probability_curves
from fastgtn.report.names import Names, shortened
from fastgtn.report.tables import ClassScore, Confusion, Judged, Mistake

MOST_CLASSES = 15
MOST_MISTAKES = 20
MOST_PAIRS = 500
OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Predictions:
    """Probabilities [n, classes] of all target nodes and the labels given to them."""

    task: NodeTask
    probabilities: Tensor

    @staticmethod
    def of(task: NodeTask, logits: Tensor) -> Predictions:
        return Predictions(task, task.probabilities(logits))

    def given(self, nodes: Tensor) -> Tensor:
        """Class numbers [B], a mask [B, classes] if a node may have several labels, or numbers [B, outputs]."""
        return self.task.chosen(self.probabilities[nodes])

    def words(self, label: Tensor) -> str:
        """One label, or several, or numbers."""
        names = self.task.class_names
        if self.task.kind == "number":
            values = [plain_number(value) for value in label.tolist()]
            listed = [f"{name} {value}" for name, value in zip(names, values, strict=True)]
            return values[0] if len(values) == 1 else ", ".join(listed)
        if label.dim() == 0:
            return shortened(names[int(label)])
        return shortened(", ".join(names[c] for c in label.nonzero().flatten().tolist()) or "none")


def open_split(task: NodeTask) -> tuple[str, Split]:
    """The split whose labels are shown: those of the test split stay with the task."""
    return ("val", task.val) if len(task.val) else ("train", task.train)


def judge(predictions: Predictions, names: Names) -> Judged:
    """Classes, confusions and the most confident mistakes; of numbers the largest errors."""
    task = predictions.task
    if task.kind == "number":
        return judge_numbers(predictions, names)
    split, part = open_split(task)
    given = predictions.given(part.nodes)
    truth = part.labels.bool() if task.kind == "multi" else part.labels
    wrong, confidence = _wrong(predictions, part.nodes, given, truth)
    order = wrong.nonzero().flatten()
    order = order[confidence[order].argsort(descending=True, stable=True)][:MOST_MISTAKES]
    mistakes = tuple(
        Mistake(
            node,
            names.id(node),
            names.name(node),
            predictions.words(truth[row]),
            predictions.words(given[row]),
            round(float(confidence[row]), 6),
        )
        for row, node in zip(order.tolist(), part.nodes[order].tolist(), strict=True)
    )
    scores = class_scores(task, truth, given)
    confusion = None if task.kind == "multi" else confusion_of(task, truth, given)
    curves = {}
    if task.kind == "single" and task.num_classes == 2:
        curves = probability_curves(predictions.probabilities[part.nodes, task.positive], truth == task.positive)
    return Judged(split, len(part), int(wrong.sum()), scores, confusion, mistakes, curves=curves)


def judge_numbers(predictions: Predictions, names: Names) -> Judged:
    """The largest errors, in deviations where a node has several numbers, and pairs of the first number to draw."""
    task = predictions.task
    split, part = open_split(task)
    given = predictions.probabilities[part.nodes]
    deviation = part.labels.std(0, correction=0).clamp(min=1e-30)
    errors = ((given - part.labels).abs() / deviation).amax(1)
    order = errors.argsort(descending=True, stable=True)[:MOST_MISTAKES]
    shown = errors * deviation if task.num_classes == 1 else errors
    mistakes = tuple(
        Mistake(
            node,
            names.id(node),
            names.name(node),
            predictions.words(part.labels[row]),
            predictions.words(given[row]),
            float(shown[row]),
        )
        for row, node in zip(order.tolist(), part.nodes[order].tolist(), strict=True)
    )
    drawn = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:MOST_PAIRS]
    pairs = tuple(zip(part.labels[drawn, 0].tolist(), given[drawn, 0].tolist(), strict=True))
    return Judged(split, len(part), 0, (), None, mistakes, pairs)


def _wrong(predictions: Predictions, nodes: Tensor, given: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Which nodes are wrong, and how sure the model was of the worst wrong decision of each."""
    rows = predictions.probabilities[nodes]
    if given.dim() == 1:
        return given != truth, rows.gather(1, given[:, None]).squeeze(1)
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
        ClassScore(shortened(task.class_names[c]), int(true[c]), int(got[c]), int(right[c])) for c in _shown(true)
    )


def confusion_of(task: NodeTask, truth: Tensor, given: Tensor) -> Confusion:
    """Counts of (true, predicted). If there are many classes, the less frequent ones are merged."""
    shown = _shown(torch.bincount(truth, minlength=task.num_classes))
    place = torch.full((task.num_classes,), len(shown))
    place[torch.tensor(shown)] = torch.arange(len(shown))
    size = len(shown) + (len(shown) < task.num_classes)
    counts = torch.bincount(place[truth] * size + place[given], minlength=size * size).reshape(size, size)
    names = [shortened(task.class_names[c]) for c in shown] + [OTHERS] * (size - len(shown))
    return Confusion(tuple(names), tuple(tuple(row) for row in counts.tolist()))


def _shown(true: Tensor) -> list[int]:
    return sorted(true.argsort(descending=True, stable=True)[:MOST_CLASSES].tolist())
