"""Accuracy and F1. A few lines of torch: importing torchmetrics takes seconds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.data.metrics.metric import Answers, Kind, Metric, register


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts of correct predictions, for rows and for each class.

    Args:
        right: Rows whose label, or whole set of labels, was predicted.
        hits: Right predictions of each class, [num_classes].
        predicted: Predictions of each class, [num_classes].
        true: Labels of each class, [num_classes].
        has_sets: Whether a row may have several labels.
        asked: Of two classes, the one that precision and recall are about; None for the mean over classes.
    """

    rows: int
    right: int
    hits: Tensor
    predicted: Tensor
    true: Tensor
    has_sets: bool
    asked: int | None = None

    @property
    def total(self) -> Tensor:
        """Predictions and labels of each class together."""
        return self.predicted + self.true

    def __add__(self, other: ClassCounts) -> ClassCounts:
        return ClassCounts(
            self.rows + other.rows,
            self.right + other.right,
            self.hits + other.hits,
            self.predicted + other.predicted,
            self.true + other.true,
            self.has_sets,
            self.asked,
        )


def class_counts(answers: Answers) -> ClassCounts:
    """Count the answers, of one class per row or of a set of classes."""
    chosen, labels = answers.chosen, answers.labels
    if answers.kind == "multi":
        labels = labels.bool()
        right = int((chosen == labels).all(1).sum())
        return ClassCounts(len(labels), right, (chosen & labels).sum(0), chosen.sum(0), labels.sum(0), True)
    size = answers.num_classes
    hits = torch.bincount(labels[chosen == labels], minlength=size)
    predicted, true = (torch.bincount(each, minlength=size) for each in (chosen, labels))
    asked = answers.positive if size == 2 else None
    return ClassCounts(len(labels), int(hits.sum()), hits, predicted, true, False, asked)


def accuracy(counts: ClassCounts) -> float:
    """The share of rows whose label, or whole set of labels, is right."""
    return counts.right / max(counts.rows, 1)


def micro_f1(counts: ClassCounts) -> float:
    """F1 of all answers together. With one label per row it equals the accuracy: a wrong answer is wrong twice."""
    return float(2 * counts.hits.sum().double() / counts.total.sum().clamp(min=1))


def macro_f1(counts: ClassCounts) -> float:
    """The mean F1 of the classes.

    With one label per row, a class that is neither true nor predicted is ignored; with several, every class counts.
    """
    f1 = 2 * counts.hits.double() / counts.total.clamp(min=1)
    return float(f1.mean() if counts.has_sets else f1[counts.total > 0].mean())


def precision(counts: ClassCounts) -> float:
    """The share of right ones among the predictions of the rarer of two classes, else the mean of the classes."""
    return _of_asked(counts, counts.hits.double() / counts.predicted.clamp(min=1))


def recall(counts: ClassCounts) -> float:
    """The share of nodes of the rarer of two classes that were found, else the mean of the classes."""
    return _of_asked(counts, counts.hits.double() / counts.true.clamp(min=1))


def _of_asked(counts: ClassCounts, shares: Tensor) -> float:
    if counts.asked is not None:
        return float(shares[counts.asked])
    return float(shares.mean() if counts.has_sets else shares[counts.total > 0].mean())


CLASSES: tuple[Kind, ...] = ("single", "multi")
MICRO_F1 = register(Metric("micro_f1", "micro-F1", class_counts, micro_f1, main_of=CLASSES, headline_of=CLASSES))
MACRO_F1 = register(Metric("macro_f1", "macro-F1", class_counts, macro_f1, headline_of=CLASSES))
# with one label per row it equals micro-F1, so it is not shown twice
ACCURACY = register(Metric("accuracy", "accuracy", class_counts, accuracy, headline_of=()))
PRECISION = register(Metric("precision", "precision", class_counts, precision, kinds=CLASSES, headline_of=()))
RECALL = register(Metric("recall", "recall", class_counts, recall, kinds=CLASSES, headline_of=()))
