"""Building blocks of the sections of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastgtn.data.metrics import registered, title_of
from fastgtn.report.charts.plain import COLOURS
from fastgtn.report.markup import Child, Markup, el

SPLITS = {"val": "validation", "train": "training", "test": "test"}
NUMERIC = {
    "share %",
    "plain %",
    "without",
    "only",
    "mean %",
    "first in %",
    "nodes",
    "precision",
    "recall",
    "F1",
    "sure %",
    "error",
    "contribution",
    "score lost without",
    "AUC lost without",
    "AUC alone",
    "p-value",
    "log-odds",
}


def table(title: str, heads: Iterable[str], rows: Iterable[Markup], **attributes: str) -> Markup:
    """A table that scrolls if it is wider than the page."""
    titles = {metric.title for metric in registered().values()}
    cells = [el("th", head, scope="col", class_="num" if head in NUMERIC | titles else None) for head in heads]
    inner = el("table", el("thead", el("tr", cells)), el("tbody", list(rows)), **attributes)
    box = el("div", inner, class_="scroll", tabindex=0, role="region", aria_label=title or "table")
    return el("div", el("p", title, class_="table-title"), box) if title else box


def figure(chart: Child, caption: str) -> Markup:
    """A drawing with its caption."""
    return el("figure", chart, el("figcaption", caption) if caption else None)


def key_list(names: Sequence[str]) -> Markup:
    """A legend of colours."""
    return el(
        "p",
        [el("span", el("span", class_=f"key c{k % COLOURS}"), f" {n}  ") for k, n in enumerate(names)],
        class_="legend",
    )


def metric_axis(name: str) -> tuple[str, float]:
    """The axis label of a metric and the factor of its values: percent, or the user's unit."""
    is_fraction = name not in registered() or registered()[name].is_fraction
    return (f"{title_of(name)}, points", 100.0) if is_fraction else (title_of(name), 1.0)


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f} %"
