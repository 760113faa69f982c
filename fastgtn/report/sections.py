"""The sections of the page about one run, from its scores to how to repeat it."""

from __future__ import annotations

from urllib.parse import urlencode

from fastgtn.data.metrics import headline, title_of
from fastgtn.data.number_unit import plain_number
from fastgtn.report.blocks import SPLITS, figure, key_list, metric_axis, table
from fastgtn.report.charts.plain import Line, confusion_chart, line_chart, pair_chart
from fastgtn.report.charts.probability import probability_chart
from fastgtn.report.markup import Markup, el
from fastgtn.report.path_sections import faithful, filters, meta_paths, signal, stable
from fastgtn.report.tables import RunTables, Spread

HIDDEN = "The labels of the test nodes stay hidden; only the scores above have seen them."


def run_article(run: RunTables, number: int) -> Markup:
    """All sections of one run."""
    about_paths = (
        ("Meta-paths", meta_paths(run)),
        ("Do they matter?", faithful(run)),
        ("Signal before training", signal(run)),
        ("Do the seeds agree?", stable(run)),
        ("Filters and reach", filters(run)),
    )
    parts = [
        *(about_paths if run.has_paths else ()),
        ("Training", training(run)),
        ("Predicted and true" if run.kind == "number" else "Right and wrong", judged(run, number)),
        ("Look up a node", look_up(run, number)),
        ("How to repeat it", record(run)),
    ]
    shown = [(f"run-{number}-{k}", title, part) for k, (title, part) in enumerate(parts, 1) if part is not None]
    links = [el("li", el("a", title, href=f"#{place}")) for place, title, _ in shown]
    return el(
        "article",
        summary(run),
        el("nav", el("ul", links), class_="contents", aria_label="Contents"),
        *(el("div", part, id=place, class_="part") for place, _, part in shown),
        class_="run",
        id=f"run-{number}",
        data_run=number,
    )


def summary(run: RunTables) -> Markup:
    cards = [_card("test", name, run.test[name], run) for name in headline(run.test, first=run.metric)]
    cards += [_card("validation", name, run.val[name], run) for name in headline(run.val, first=run.metric)[:1]]
    seeds = f"{len(run.seeds)} seeds" if len(run.seeds) > 1 else f"seed {run.seed}"
    spread = ", mean ± standard deviation in points" if len(run.seeds) > 1 else ", in points"
    facts = [el("div", el("dt", name), el("dd", words)) for name, words in run.facts]
    notes = [el("p", note, class_="note") for note in run.notes]
    return el(
        "section",
        el("h2", run.title, " ", el("small", f"{run.model} on {run.dataset}")),
        el("div", cards, class_="cards"),
        el("p", f"Scores of {seeds}{spread}. ", _whose(run), class_="caption"),
        notes,
        el("dl", facts, class_="facts"),
    )


def training(run: RunTables) -> Markup:
    metric = title_of(run.metric)
    losses = [
        Line(f"seed {curve.seed}, {name.replace('_', ' ')}", curve.series[name], k, dashed=name == "val_loss")
        for k, curve in enumerate(run.curves)
        for name in ("loss", "val_loss")
        if name in curve.series
    ]
    scores = [
        Line(f"seed {curve.seed}", curve.series[f"val_{run.metric}"], k, mark=curve.best_epoch)
        for k, curve in enumerate(run.curves)
        if f"val_{run.metric}" in curve.series
    ]
    charts = [figure(line_chart("Loss over epochs", "loss", losses), "training loss; validation loss dashed")]
    if scores:
        unit, factor = metric_axis(run.metric)
        chart = line_chart(f"Validation {metric} over epochs", unit, scores, factor=factor)
        charts.append(figure(chart, f"validation {metric}; the dot is the chosen epoch"))
    keys = key_list([f"seed {curve.seed}" for curve in run.curves]) if len(run.curves) > 1 else None
    return el("section", el("h3", "Training"), keys, el("div", *charts, class_="columns"))


def judged_numbers(run: RunTables, number: int) -> Markup:
    """For tasks of numbers: predicted against true, and the largest errors."""
    split = SPLITS[run.judged.split]
    chart = figure(pair_chart(run.judged.pairs), f"{split} nodes; the line is a perfect prediction")
    return el(
        "section",
        el("h3", "Predicted and true"),
        el("p", f"Of {run.judged.num_nodes:,} {split} nodes (seed {run.seed}). ", HIDDEN, class_="lead"),
        el("div", chart, el("div", el("h4", "Largest errors"), _mistakes(run, number)), class_="columns"),
    )


def judged(run: RunTables, number: int) -> Markup:
    if run.kind == "number":
        return judged_numbers(run, number)
    found, split = run.judged, SPLITS[run.judged.split]
    rows = [
        el(
            "tr",
            el("th", c.name, scope="row"),
            el("td", f"{c.true:,}", class_="num"),
            *(el("td", f"{100 * value:.1f}", class_="num") for value in (c.precision, c.recall, c.f1)),
        )
        for c in found.classes
    ]
    scores = table("", ("class", "nodes", "precision", "recall", "F1"), rows)
    chart = figure(confusion_chart(found.confusion), f"{split} nodes, counts") if found.confusion else None
    return el(
        "section",
        el("h3", "Right and wrong"),
        el(
            "p",
            f"{found.num_mistakes:,} of {found.num_nodes:,} {split} nodes are wrong (seed {run.seed}). ",
            HIDDEN,
            class_="lead",
        ),
        el("div", chart, scores, class_="columns"),
        el("h4", f"Probabilities of the rarer class, {split} nodes") if found.curves else None,
        el("div", *(figure(probability_chart(n, p), n) for n, p in found.curves.items()), class_="columns"),
        el("h4", "Most confident mistakes") if found.mistakes else None,
        _mistakes(run, number),
    )


def _mistakes(run: RunTables, number: int) -> Markup | None:
    is_number = run.kind == "number"
    links = {node.id: f"#{urlencode({'run': number, 'node': node.id})}" for node in run.nodes}
    has_names = any(m.name not in (None, "", m.id) for m in run.judged.mistakes)
    rows = [
        el(
            "tr",
            el("th", el("a", m.name or m.id, href=links[m.id]) if m.id in links else m.name or m.id, scope="row"),
            el("td", m.id, class_="dim") if has_names else None,
            el("td", m.predicted),
            el("td", m.truth),
            el("td", plain_number(m.confidence) if is_number else f"{100 * m.confidence:.1f}", class_="num"),
        )
        for m in run.judged.mistakes
    ]
    ids = ["id"] if has_names else []
    heads = (run.target, *ids, "predicted", "is", "error" if is_number else "sure %")
    return table("", heads, rows) if rows else None


def look_up(run: RunTables, number: int) -> Markup:
    box = f"node-{number}"
    options = [el("option", node.name if node.name != node.id else None, value=node.id) for node in run.nodes]
    lead = (
        f"{len(run.nodes):,} {run.target} nodes are stored here: the most confident mistakes and a random sample. "
        f"For any other: {run.ask[0]}ID{run.ask[1]}"
    )
    return el(
        "section",
        el("h3", "Look up a node"),
        el("p", lead, class_="lead"),
        el(
            "form",
            el("label", f"Id or name ({run.target})", for_=box),
            el(
                "span",
                el("input", id=box, name="node", list=f"{box}-list", autocomplete="off", spellcheck="false"),
                el("button", "Show", type="submit"),
                class_="field",
            ),
            el("datalist", options, id=f"{box}-list"),
            class_="look-up",
        ),
        el("div", class_="answer", aria_live="polite"),
        class_="nodes",
    )


def record(run: RunTables) -> Markup:
    versions = " · ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [
        ("Run", run.folder or "a result in memory, which was not saved"),
        ("Seeds", ", ".join(map(str, run.seeds))),
        ("Data checksum", run.checksum),
        ("Versions", versions),
    ]
    facts = [el("div", el("dt", name), el("dd", words)) for name, words in lines]
    config = el("details", el("summary", "Config (TOML)"), el("pre", run.config, tabindex=0))
    return el("section", el("h3", "How to repeat it"), el("dl", facts, class_="facts"), config)


def _card(split: str, metric: str, spread: Spread, run: RunTables) -> Markup:
    main, *rest = spread.points(len(run.seeds), metric).split(" ", 1)
    spread_words = el("small", " " + rest[0]) if rest else None
    return el("div", el("span", f"{split} {title_of(metric)}"), el("b", main, spread_words), class_="card")


def _whose(run: RunTables) -> str:
    return f"Everything below is about seed {run.seed}, the best on validation." if len(run.seeds) > 1 else ""
