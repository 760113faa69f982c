"""The report page of a link run: its scores, its joined meta-paths, and recommendations with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fastgtn.data.metrics import title_of
from fastgtn.links.fit import LinkResult
from fastgtn.links.folder import load_links, names_of, texts_by_type, texts_of
from fastgtn.links.joined.explain import LinkReasons
from fastgtn.links.learned.result import LearnedLinks
from fastgtn.report.blocks import figure, table
from fastgtn.report.charts.plain import Line, line_chart
from fastgtn.report.markup import Markup, el, joined
from fastgtn.report.page import check_free, fill
from fastgtn.runs.files import read_json, write_text

MOST_PATHS, MOST_REASONS = 15, 3
PER_SOURCE = 5  # recommendations of each shown source


@dataclass(frozen=True)
class ShownLink:
    """One recommendation with its reasons."""

    source: str
    target: str
    logit: float
    reasons: LinkReasons | None


def write_link_report(
    run: Path,
    out: Path,
    *,
    sources: int = 20,
    graph: str | None = None,
    data_dir: str | Path | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write the page of a run folder; returns the facts of its first seed.

    Args:
        sources: How many sources are shown with their recommendations.
    """
    check_free(out, force=force)
    result = load_links(run, graph=graph, data_dir=data_dir)
    summary = read_json(run / "result.json") if (run / "result.json").is_file() else {}
    facts = result.facts()
    body = el(
        "article",
        _scores(facts, summary),
        _paths(facts["paths"], of_encoders="epoch" in facts),
        _screening(result),
        _training(result),
        _recommended(result, shown_links(result, sources)),
        _split(result),
    )
    heading = f"Links {result.task.relation}"
    what = "joined meta-paths" if isinstance(result, LinkResult) else f"{facts['model']} encoders"
    write_text(out, fill(heading, f"What {what} learned", {"runs": joined(body)}, version=version("fastgtn")))
    return facts


def shown_links(result: LinkResult | LearnedLinks, sources: int) -> list[ShownLink]:
    """The best new partners of the first sources that have links, and why."""
    graph, relation = result.task.graph_at("use"), result.task.relation
    names = names_of(graph, relation.source), texts_of(graph, relation.target)
    active = np.unique(result.task.links_at("use")[0])[:sources]
    if not len(active):
        return []
    found = result.recommend(active, top=PER_SOURCE)
    shown = []
    for source, targets, logits in zip(active, found.targets, found.logits, strict=True):
        for place, (target, logit) in enumerate(zip(targets, logits, strict=True)):
            if target < 0:
                continue
            reasons = (
                result.explain(int(source), int(target), instances=1) if result.sums_paths and place == 0 else None
            )
            shown.append(ShownLink(names[0][source], names[1][target], float(logit), reasons))
    return shown


def _scores(facts: dict[str, Any], summary: dict[str, Any]) -> Markup:
    runs = summary.get("runs", [])
    spread = len(runs) > 1
    cards = []
    for name, value in facts["test"].items():
        text, rest = f"{100 * value:.1f}", None
        if spread:
            seen = summary["test"][name]
            text, rest = f"{100 * seen['mean']:.1f}", el("small", f" ± {100 * seen['std']:.1f}")
        cards.append(el("div", el("span", f"test {title_of(name)}"), el("b", text, rest), class_="card"))
    seeds = f"mean and deviation over {len(runs)} seeds" if spread else "of one seed"
    return el(
        "section",
        el("h2", "Scores ", el("small", f"negatives {facts['negatives']}")),
        el("div", cards, class_="cards"),
        el("p", f"In points, {seeds}. Test links were scored once, on a graph without them.", class_="caption"),
        [el("p", words, class_="note") for words in (facts["learned"]["verdict"], *facts["notes"])],
    )


def _paths(paths: Sequence[dict[str, Any]], *, of_encoders: bool) -> Markup | None:
    if not paths:
        return None
    rows = []
    for path in paths[:MOST_PATHS]:
        p_value = "–" if path["p_value"] is None else f"{path['p_value']:.3f}"
        sign = "−" if path["weight"] < 0 else "+"
        numbers = (
            f"{sign}{path['contribution']:.3f}",
            f"{100 * path['without']:.1f}",
            f"{100 * path['auc']:.1f}",
            p_value,
        )
        words = " → ".join(path["types"])
        rows.append(el("tr", el("th", path["name"], scope="row"), el("td", words), *_numbers(numbers)))
    lost = "AUC lost without" if of_encoders else "score lost without"
    heads = ("joined meta-path", "types", "contribution", lost, "AUC alone", "p-value")
    lead = (
        "These meta-paths predict the links. The contribution is the mean size of a path's part in the "
        "log-odds of validation pairs; a minus marks paths that connect pairs that are not links."
    )
    return el("section", el("h3", "Joined meta-paths"), el("p", lead, class_="lead"), table("", heads, rows))


def _screening(result: LinkResult | LearnedLinks) -> Markup:
    rows = [
        el(
            "tr",
            el("th", path.name, scope="row"),
            *_numbers((f"{100 * path.auc:.1f}", f"{path.p_value:.3f}")),
            el("td", "" if path.chosen is None else str(path.chosen)),
        )
        for path in result.screening.paths[:MOST_PATHS]
    ]
    lead = f"Every path alone, on {result.screening.num_pairs:,} hidden training links and other pairs."
    return el(
        "section",
        el("h3", "Screening"),
        el("p", lead, class_="lead"),
        table("", ("joined meta-path", "AUC alone", "p-value", "chosen"), rows),
    )


def _training(result: LinkResult | LearnedLinks) -> Markup | None:
    if isinstance(result, LinkResult) or not result.history:
        return None
    key = f"val_{result.task.select_by}"
    key = key if key in result.history[0] else "val_roc_auc"
    values = [(number, float(record[key])) for number, record in enumerate(result.history, 1)]
    title = title_of(key.removeprefix("val_"))
    line = Line("validation", values, 0, mark=result.epoch)
    chart = line_chart(f"Validation {title} over epochs", f"{title}, points", [line], factor=100.0)
    return el("section", el("h3", "Training"), figure(chart, f"validation {title}; the dot is the chosen epoch"))


def _recommended(result: LinkResult | LearnedLinks, shown: Sequence[ShownLink]) -> Markup | None:
    if not shown:
        return None
    graph, relation = result.task.graph_at("use"), result.task.relation
    texts = texts_by_type(graph, relation)
    rows, last = [], None
    for link in shown:
        why = _reasons(link.reasons, texts) if link.reasons is not None else None
        name = link.source if link.source != last else ""
        last = link.source
        rows.append(
            el(
                "tr",
                el("th", name, scope="row"),
                el("td", link.target),
                *_numbers((f"{link.logit:+z.2f}",)),
                el("td", why),
            )
        )
    heads = (relation.source, relation.target, "log-odds", "why the first one")
    lead = (
        "New partners, known links left out. The reasons are parts of the log-odds and add up to them. Log-odds "
        "rank the partners: they compare a link with one other pair, so they are not probabilities among all pairs."
    )
    return el("section", el("h3", "Recommendations"), el("p", lead, class_="lead"), table("", heads, rows))


def _reasons(reasons: LinkReasons, texts: dict[str, list[str]]) -> list[Markup]:
    found = []
    for reason in reasons.reasons[:MOST_REASONS]:
        through = ""
        for instance in reason.instances[:1]:
            nodes = zip(reason.types, instance.nodes, strict=True)
            through = ": " + " – ".join(texts[t][n] for t, n in nodes)
        found.append(el("div", f"{reason.contribution:+z.2f} {reason.name}{through}"))
    return found


def _split(result: LinkResult | LearnedLinks) -> Markup:
    task = result.task
    counts = {
        "training links": task.train.shape[1],
        "validation links": task.val.links.shape[1],
        "test links": task.test.links.shape[1],
        f"{task.relation.source} nodes": task.num_sources,
        f"{task.relation.target} nodes": task.num_targets,
    }
    facts = [el("div", el("dt", name), el("dd", f"{count:,}")) for name, count in counts.items()]
    return el("section", el("h3", "Data"), el("dl", facts, class_="facts"))


def _numbers(words: Sequence[str]) -> list[Markup]:
    return [el("td", word, class_="num") for word in words]
