"""Metrics of probabilities: how well they order nodes, and whether they can be believed.

With two classes they are about the rarer class of the training nodes, with more they are means over the classes. They
are a few lines of torch, equal to scikit-learn's: importing torchmetrics takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastgtn.data.metrics.metric import Answers, Kind, Metric, register

TOP = 100  # of precision and recall among the first nodes
BINS = 15
CLASSES: tuple[Kind, ...] = ("single", "multi")


@dataclass(frozen=True, eq=False)
class ProbabilityRows:
    """Probabilities and truth (0 or 1) of each row: [B, 1] for two classes, else [B, classes]."""

    probabilities: Tensor
    truth: Tensor
    has_one_class: bool  # whether exactly one of several classes is true in each row

    def __add__(self, other: ProbabilityRows) -> ProbabilityRows:
        return ProbabilityRows(
            torch.cat([self.probabilities, other.probabilities]),
            torch.cat([self.truth, other.truth]),
            self.has_one_class,
        )


def probability_rows(answers: Answers) -> ProbabilityRows:
    """Probabilities in double precision beside the truth."""
    logits = answers.logits.double()
    if answers.kind == "multi":
        return ProbabilityRows(logits.sigmoid(), answers.labels.double(), False)
    p = logits.softmax(1)
    truth = torch.nn.functional.one_hot(answers.labels, logits.size(1)).double()
    if logits.size(1) != 2:
        return ProbabilityRows(p, truth, True)
    column = slice(answers.positive, answers.positive + 1)
    return ProbabilityRows(p[:, column], truth[:, column], False)


def roc_auc(rows: ProbabilityRows) -> float:
    """The area under the ROC curve: how often a positive node is ranked above a negative one."""

    def area(p: Tensor, y: Tensor) -> Tensor:
        hits, false, _ = threshold_counts(p, y)
        zero = hits.new_zeros(1)
        return torch.trapezoid(torch.cat([zero, hits]), torch.cat([zero, false])) / (hits[-1] * false[-1])

    return _mean_over_classes(rows, area)


def average_precision(rows: ProbabilityRows) -> float:
    """The mean precision over the recall levels, without interpolation."""

    def area(p: Tensor, y: Tensor) -> Tensor:
        hits, false, _ = threshold_counts(p, y)
        recall = hits / hits[-1]
        return (torch.diff(recall, prepend=recall.new_zeros(1)) * hits / (hits + false)).sum()

    return _mean_over_classes(rows, area)


def precision_at_k(rows: ProbabilityRows) -> float:
    """The share of positives among the 100 nodes with the highest probability."""
    return _mean_over_classes(rows, lambda p, y: y[p.argsort(descending=True, stable=True)[:TOP]].mean())


def recall_at_k(rows: ProbabilityRows) -> float:
    """The share of all positives that are among the 100 nodes with the highest probability."""
    return _mean_over_classes(rows, lambda p, y: y[p.argsort(descending=True, stable=True)[:TOP]].sum() / y.sum())


def log_loss(rows: ProbabilityRows) -> float:
    """The mean negative logarithm of the probability of the truth."""
    p, y = rows.probabilities.clamp(1e-15, 1 - 1e-15), rows.truth
    if rows.has_one_class:
        return float(-(y * p.log()).sum(1).mean())
    return float(-(y * p.log() + (1 - y) * (1 - p).log()).mean())


def brier(rows: ProbabilityRows) -> float:
    """The mean squared difference of probability and truth; with more than two classes summed over them."""
    squares = (rows.probabilities - rows.truth).square()
    return float(squares.sum(1).mean() if rows.has_one_class else squares.mean())


def ece(rows: ProbabilityRows) -> float:
    """The expected calibration error: how far probabilities are from frequencies, over 15 bins of equal width.

    With more than two classes it is about the probability of the predicted one.
    """
    p, y = rows.probabilities, rows.truth
    if rows.has_one_class:
        top = p.argmax(1, keepdim=True)
        p, y = p.gather(1, top), y.gather(1, top)
    p, y = p.flatten(), y.flatten()
    which = (p * BINS).long().clamp(max=BINS - 1)
    zero = p.new_zeros(BINS)
    return float((zero.index_add(0, which, p) - zero.index_add(0, which, y)).abs().sum() / len(p))


def threshold_counts(p: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Positives and negatives above or at each distinct probability, the highest first, and these probabilities."""
    order = p.argsort(descending=True, stable=True)
    p, y = p[order], y[order]
    last = torch.cat([p[1:] != p[:-1], torch.ones(1, dtype=torch.bool)])
    return y.cumsum(0)[last], (1 - y).cumsum(0)[last], p[last]


def _mean_over_classes(rows: ProbabilityRows, score: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Over the classes that some but not all rows have; 0 where there is none."""
    pairs = zip(rows.probabilities.unbind(1), rows.truth.unbind(1), strict=True)
    values = [score(p, y) for p, y in pairs if 0 < float(y.sum()) < len(y)]
    return float(torch.stack(values).mean()) if values else 0.0


def _register(name: str, title: str, score: Callable[[ProbabilityRows], float], **options: Any) -> Metric:
    return register(
        Metric(name, title, probability_rows, score, kinds=CLASSES, headline_of=(), is_costly=True, **options)
    )


AVERAGE_PRECISION = _register("average_precision", "average precision", average_precision)
ROC_AUC = _register("roc_auc", "ROC-AUC", roc_auc)
PRECISION_AT_K = _register("precision_at_k", f"precision at {TOP}", precision_at_k)
RECALL_AT_K = _register("recall_at_k", f"recall at {TOP}", recall_at_k)
LOG_LOSS = _register("log_loss", "log loss", log_loss, higher_is_better=False, is_fraction=False)
BRIER = _register("brier", "Brier score", brier, higher_is_better=False, is_fraction=False)
ECE = _register("ece", "calibration error", ece, higher_is_better=False)
