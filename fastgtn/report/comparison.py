"""Several runs side by side: scores, curves and first meta-paths."""

from __future__ import annotations

from collections.abc import Sequence

from fastgtn.data.metrics import headline, title_of
from fastgtn.report.blocks import key_list, metric_axis, table
from fastgtn.report.charts.plain import Line, bar, line_chart
from fastgtn.report.markup import Markup, el
from fastgtn.report.tables import RunTables

FIRST = 8


def score_rows(runs: Sequence[RunTables]) -> list[list[str]]:
    """Heads, then one row per run: its name, model, graph, seeds and test scores in points."""
    names = headline({name for run in runs for name in run.test}, first=runs[0].metric)
    rows = [["run", "model", "graph", "seeds", *(title_of(name) for name in names)]]
    for run in runs:
        scores = [run.test[name].points(len(run.seeds), name) if name in run.test else "" for name in names]
        rows.append([run.title, run.model, run.dataset, str(len(run.seeds)), *scores])
    return rows


def path_rows(runs: Sequence[RunTables]) -> list[list[tuple[str, float]]]:
    """Row k contains the k-th meta-path of every run and its share; the name is empty if a run has fewer paths."""
    longest = min(FIRST, max(len(run.ranking) for run in runs))
    return [
        [(r.paths[k].name, r.paths[k].weight) if k < len(r) else ("", 0.0) for r in (run.ranking for run in runs)]
        for k in range(longest)
    ]


def comparison(runs: Sequence[RunTables]) -> Markup:
    """The section above the runs."""
    curves = el("div", key_list([run.title for run in runs]), _curves(runs))
    return el(
        "section",
        el("h2", "Side by side"),
        _scores(runs),
        el("div", curves, _paths(runs), class_="columns"),
        class_="comparison",
    )


def _scores(runs: Sequence[RunTables]) -> Markup:
    heads, *rows = score_rows(runs)
    body = [
        el(
            "tr",
            el("th", row[0], scope="row"),
            [el("td", w) for w in row[1:4]],
            [el("td", w, class_="num") for w in row[4:]],
        )
        for row in rows
    ]
    return table("Test scores in points, mean ± standard deviation over seeds", heads, body)


def _curves(runs: Sequence[RunTables]) -> Markup | None:
    """The validation scores of all runs that are judged by the same metric as the first."""
    lines = [
        Line(run.title, run.mean_curve, k)
        for k, run in enumerate(runs)
        if run.metric == runs[0].metric and run.mean_curve
    ]
    if not lines:
        return None
    metric = title_of(runs[0].metric)
    unit, factor = metric_axis(runs[0].metric)
    chart = line_chart(f"Validation {metric} of all runs", unit, lines, factor=factor)
    return el("figure", chart, el("figcaption", f"validation {metric}, the mean over seeds"))


def _paths(runs: Sequence[RunTables]) -> Markup | None:
    highest = max((ranked.weight for run in runs for ranked in run.ranking), default=1.0)
    rows = [
        el(
            "tr",
            el("td", str(k), class_="num dim"),
            [_path_cell(name, share / highest, share, c) for c, (name, share) in enumerate(row)],
        )
        for k, row in enumerate(path_rows(runs), 1)
    ]
    if not rows:
        return None
    return table("First meta-paths and their share, %", ("", *(run.title for run in runs)), rows, class_="compare")


def _path_cell(name: str, length: float, share: float, colour: int) -> Markup:
    words = [el("b", name), el("span", f"{100 * share:.1f}", class_="num"), bar(length, colour=colour)] if name else []
    return el("td", el("div", words, class_="path-cell"))
