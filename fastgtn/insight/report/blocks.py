"""Blocks that the sections of the page are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastgtn.insight.report.charts import COLOURS
from fastgtn.insight.report.markup import Child, Markup, el
from fastgtn.insight.report.tables import METRICS

SPLITS = {"val": "validation", "train": "training", "test": "test"}
NUMERIC = {
    "share %", "plain %", "without", "only", "mean %", "first in %", "nodes", "precision", "recall", "F1", "sure %",
    *METRICS.values(),
}  # fmt: skip


def table(title: str, heads: Iterable[str], rows: Iterable[Markup], **attributes: str) -> Markup:
    """A table that scrolls in its own box where it is wider than the page."""
    cells = [el("th", head, scope="col", class_="num" if head in NUMERIC else None) for head in heads]
    inner = el("table", el("thead", el("tr", cells)), el("tbody", list(rows)), **attributes)
    box = el("div", inner, class_="scroll", tabindex=0, role="region", aria_label=title or "table")
    return el("div", el("p", title, class_="table-title"), box) if title else box


def figure(chart: Child, caption: str) -> Markup:
    """A drawing and what it shows."""
    return el("figure", chart, el("figcaption", caption) if caption else None)


def key_list(names: Sequence[str]) -> Markup:
    """Colours and what they stand for."""
    return el(
        "p",
        [el("span", el("span", class_=f"key c{k % COLOURS}"), f" {n}  ") for k, n in enumerate(names)],
        class_="legend",
    )


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.1f} %"
