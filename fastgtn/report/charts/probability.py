"""Curves of the probability of the rarer of two classes: ROC, precision and recall, reliability."""

from __future__ import annotations

import torch
from torch import Tensor

from fastgtn.data.metrics.probabilities import threshold_counts
from fastgtn.report.charts.axes import Scale, grid
from fastgtn.report.charts.plain import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from fastgtn.report.markup import Markup, el, number, svg

MOST_POINTS = 200
BINS = 10
Points = tuple[tuple[float, float], ...]
TITLES = {
    "ROC": ("false positive rate", "true positive rate"),
    "precision and recall": ("recall", "precision"),
    "reliability": ("predicted probability", "observed frequency"),
}


def probability_curves(probabilities: Tensor, truth: Tensor) -> dict[str, Points]:
    """The points of the three curves; nothing where only one class occurs.

    Args:
        probabilities: Of the class, [B].
        truth: 1 for the nodes that have it, [B].
    """
    p, y = probabilities.double(), truth.double()
    if not 0 < float(y.sum()) < len(y):
        return {}
    hits, false, _ = threshold_counts(p, y)
    recall, precision = hits / hits[-1], hits / (hits + false)
    some = torch.linspace(0, len(hits) - 1, min(MOST_POINTS, len(hits))).round().long()
    roc = _points((false / false[-1])[some], recall[some])
    bins = (p * BINS).long().clamp(max=BINS - 1)
    filled = [bins == b for b in range(BINS) if bool((bins == b).any())]
    reliable = tuple((float(p[b].mean()), float(y[b].mean())) for b in filled)
    return {
        "ROC": ((0.0, 0.0), *roc),
        "precision and recall": _points(recall[some], precision[some]),
        "reliability": reliable,
    }


def probability_chart(title: str, points: Points) -> Markup:
    """One curve in the unit square; the diagonal is chance for ROC, and perfect for reliability."""
    x, y = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT), Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    parts = grid(x, y, *TITLES[title])
    if title != "precision and recall":
        parts.append(el("line", x1=x(0), y1=y(0), x2=x(1), y2=y(1), class_="base"))
    path = " ".join(f"{'L' if k else 'M'}{number(x(a))} {number(y(b))}" for k, (a, b) in enumerate(points))
    parts.append(el("path", el("title", title), d=path, class_="line c0"))
    if title == "reliability":
        parts += [el("circle", cx=x(a), cy=y(b), r=3.5, class_="dot c0") for a, b in points]
    return svg(WIDTH, HEIGHT, title, parts, desc=f"{title}, {len(points)} points", class_="chart curves")


def _points(first: Tensor, second: Tensor) -> Points:
    return tuple(zip(first.tolist(), second.tolist(), strict=True))
