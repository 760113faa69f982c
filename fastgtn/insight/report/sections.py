"""The sections of the page about one run: headings, tables and where the drawings go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from fastgtn.insight.ranking import Ranking
from fastgtn.insight.report.charts import (
    COLOURS, Line, bar, confusion_chart, dots, heat_map, hop_chart, line_chart, scatter,
)  # fmt: skip
from fastgtn.insight.report.markup import Child, Markup, el
from fastgtn.insight.report.schema_chart import can_draw, path_chart, relation_use, schema_chart
from fastgtn.insight.report.tables import METRICS, RunTables, Spread

SPLITS = {"val": "validation", "train": "training", "test": "test"}
HIDDEN = "The labels of the test nodes stay hidden; only the scores above have seen them."


def run_article(run: RunTables, number: int) -> Markup:
    """All sections of one run."""
    parts = (summary, meta_paths, faithful, stable, filters, training, judged)
    sections = [section(run) for section in parts]
    return el("article", *sections, look_up(run, number), record(run), class_="run", id=f"run-{number}", data_run=number)


def summary(run: RunTables) -> Markup:
    cards = [_card(f"test {METRICS.get(name, name)}", run.test[name], run) for name in _headline(run.test)]
    cards += [_card(f"validation {METRICS.get(name, name)}", run.val[name], run) for name in _headline(run.val)[:1]]
    seeds = f"{len(run.seeds)} seeds" if len(run.seeds) > 1 else f"seed {run.seed}"
    spread = ", mean ± standard deviation in points" if len(run.seeds) > 1 else ", in points"
    facts = [el("div", el("dt", name), el("dd", words)) for name, words in run.facts]
    notes = [el("p", note, class_="note") for note in run.notes]
    return el(
        "section",
        el("h2", run.title, " ", el("small", f"{run.model} on {run.dataset}")),
        el("div", cards, class_="cards"),
        el("p", f"Scores over {seeds}{spread}. ", _whose(run), class_="caption"),
        notes,
        el("dl", facts, class_="facts"),
    )


def meta_paths(run: RunTables) -> Markup:
    ranking = run.ranking
    tables = [_path_table(ranking, f"From {run.target} to anywhere")]
    if len(run.schema.nodes) > 1:
        tables.append(_path_table(run.back, f"From {run.target} back to {run.target}"))
    own = f" Apart from them, γ gives {_percent(ranking.own_share)} of the layer to the node's own features."
    return el(
        "section",
        el("h3", "Learned meta-paths"),
        el(
            "p", "The exact share of each meta-path in what the model computes, the mean over ",
            f"{ranking.num_nodes:,} {run.target} nodes. Walks that never leave the node have ",
            f"{_percent(ranking.empty_weight)}.", own if ranking.own_share else "", class_="lead",
        ),
        el("p", el("span", class_="key share"), " effective share  ", el("span", class_="key plain"),
           " the paper's rule, the product of filter weights", class_="legend"),
        el("div", tables, class_="columns"),
        _drawings(run),
    )  # fmt: skip


def _path_table(ranking: Ranking, title: str) -> Markup:
    highest = max((max(r.weight, r.plain_weight) for r in ranking), default=1.0) or 1.0
    rows = [
        el(
            "tr",
            el("td", str(r.rank), class_="num dim"),
            el("th", el("b", r.name), el("small", ranking.names.long(r.path)), scope="row"),
            el("td", bar(r.weight / highest, r.plain_weight / highest), class_="bars"),
            el("td", f"{100 * r.weight:.1f}", class_="num"),
            el("td", f"{100 * r.plain_weight:.1f}", class_="num dim"),
        )
        for r in ranking
    ]
    return _table(title, ("", "meta-path", "", "share %", "plain %"), rows, class_="paths")


def _drawings(run: RunTables) -> Markup | None:
    if not can_draw(run.schema):
        return None
    every = schema_chart(run.schema, "All listed paths", relation_use(run.ranking))
    figures = [_figure(path_chart(run.schema, r), f"{r.name} · {_percent(r.weight)}") for r in run.ranking.paths[:3]]
    every = _figure(every, "all listed paths together")
    return el(
        "div",
        el("h4", "On the schema"),
        el("p", "Messages follow the arrows to the filled circle; steps are counted from it outwards, "
                "and thicker arrows carry more.", class_="caption"),
        el("div", *figures, every, class_="figures"),
    )  # fmt: skip


def faithful(run: RunTables) -> Markup | None:
    effects = run.faithfulness
    if effects is None:
        return None
    metric = METRICS.get(effects.metric, effects.metric)
    rows = [
        el(
            "tr", el("td", str(rank), class_="num dim"), el("th", e.name, scope="row"),
            *(el("td", f"{100 * value:.1f}", class_="num") for value in (e.weight, e.without, e.only)),
        )
        for rank, e in enumerate(effects.paths, 1)
    ]  # fmt: skip
    lead = (
        f"Each path is dropped from the trained model, or kept alone. {metric} on {SPLITS[effects.split]} is "
        f"{100 * effects.whole:.1f} with all paths and {100 * effects.none:.1f} with none."
    )
    table = _table("", ("", "meta-path", "share %", "without", "only"), rows)
    return el(
        "section", el("h3", "Do they matter?"), el("p", lead, class_="lead"),
        el("div", _figure(scatter(effects, metric), "Numbers are ranks by share."), table, class_="columns"),
    )  # fmt: skip


def stable(run: RunTables) -> Markup | None:
    found = run.stability
    if found is None:
        return None
    highest = max((max(weights) for weights in run.seed_weights.values()), default=1.0)
    rows = [
        el(
            "tr", el("th", p.name, scope="row"),
            el("td", dots(run.seed_weights[p.name], p.mean, highest), class_="bars"),
            el("td", f"{100 * p.mean:.1f}", class_="num"), el("td", f"± {100 * p.std:.1f}", class_="num dim"),
            el("td", f"{100 * p.first_in:.0f}", class_="num"),
        )
        for p in found.paths
    ]  # fmt: skip
    agreement = (
        f"Over {found.num_runs} seeds, Kendall's τ between their rankings is {found.kendall:.2f}, and "
        f"{100 * found.top3_overlap:.0f} % of the first three paths are the same."
    )
    return el(
        "section", el("h3", "Do the seeds agree?"), el("p", agreement, class_="lead"),
        [el("p", f"{w[:1].upper()}{w[1:]}", class_="note") for w in found.warnings],
        _table("", ("meta-path", "each seed, and the mean", "mean %", "", "first in %"), rows, class_="seeds"),
    )  # fmt: skip


def filters(run: RunTables) -> Markup:
    groups = []
    for layer, maps in groupby(run.filters, key=lambda m: m.layer):
        several = run.filters[-1].layer > 0
        figures = [
            _figure(heat_map(m, f"Filters of channel {m.channel + 1}"), f"channel {m.channel + 1}") for m in maps
        ]
        groups.append(el("div", el("h4", f"Layer {layer + 1}") if several else None, el("div", *figures, class_="figures")))
    return el(
        "section", el("h3", "Filters and reach"),
        el("p", "What each hop attends to: one column per hop, hop 1 next to the target. "
                "Every column of a channel adds up to one.", class_="lead"),
        groups,
        el("h4", "How far it looks"),
        el("p", "Shares of the walks by the steps that they really take, after no-op steps are merged away.",
           class_="caption"),
        _figure(hop_chart(run.hop_shares), ""),
    )  # fmt: skip


def training(run: RunTables) -> Markup:
    metric = METRICS.get(run.metric, run.metric)
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
    charts = [_figure(line_chart("Loss over epochs", "loss", losses), "training loss; validation loss dashed")]
    if scores:
        chart = line_chart(f"Validation {metric} over epochs", f"{metric}, points", scores, factor=100)
        charts.append(_figure(chart, f"validation {metric}; the dot is the chosen epoch"))
    keys = key_list([f"seed {curve.seed}" for curve in run.curves]) if len(run.curves) > 1 else None
    return el("section", el("h3", "Training"), keys, el("div", *charts, class_="columns"))


def judged(run: RunTables) -> Markup:
    found, split = run.judged, SPLITS[run.judged.split]
    rows = [
        el(
            "tr", el("th", c.name, scope="row"), el("td", f"{c.true:,}", class_="num"),
            *(el("td", f"{100 * value:.1f}", class_="num") for value in (c.precision, c.recall, c.f1)),
        )
        for c in found.classes
    ]  # fmt: skip
    table = _table("", ("class", "nodes", "precision", "recall", "F1"), rows)
    chart = _figure(confusion_chart(found.confusion), f"{split} nodes, counts") if found.confusion else None
    return el(
        "section", el("h3", "Right and wrong"),
        el("p", f"{found.num_mistakes:,} of {found.num_nodes:,} {split} nodes are wrong (seed {run.seed}). ", HIDDEN,
           class_="lead"),
        el("div", chart, table, class_="columns"),
        el("h4", "Most confident mistakes") if found.mistakes else None,
        _mistakes(run),
    )  # fmt: skip


def _mistakes(run: RunTables) -> Markup | None:
    stored = {node.id for node in run.nodes}
    rows = [
        el(
            "tr",
            el("th", el("a", m.name or m.id, href="#", data_node=m.id) if m.id in stored else m.name or m.id, scope="row"),
            el("td", m.id, class_="dim"), el("td", m.predicted), el("td", m.truth),
            el("td", f"{100 * m.confidence:.1f}", class_="num"),
        )
        for m in run.judged.mistakes
    ]  # fmt: skip
    return _table("", (run.target, "id", "predicted", "is", "sure %"), rows) if rows else None


def look_up(run: RunTables, number: int) -> Markup:
    box = f"node-{number}"
    options = [el("option", node.name if node.name != node.id else None, value=node.id) for node in run.nodes]
    lead = (
        f"{len(run.nodes):,} {run.target} nodes are stored here: the most confident mistakes and a random sample. "
        f"For any other: fastgtn explain {run.folder} --node ID."
    )
    return el(
        "section", el("h3", "Look up a node"), el("p", lead, class_="lead"),
        el(
            "form", el("label", f"Id or name of a {run.target}", for_=box),
            el("span", el("input", id=box, name="node", list=f"{box}-list", autocomplete="off", spellcheck="false"),
               el("button", "Show", type="submit"), class_="field"),
            el("datalist", options, id=f"{box}-list"), class_="look-up",
        ),
        el("div", class_="answer", aria_live="polite"),
        class_="nodes",
    )  # fmt: skip


def record(run: RunTables) -> Markup:
    versions = " · ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [("Run", run.folder), ("Seeds", ", ".join(map(str, run.seeds))), ("Data checksum", run.checksum), ("Versions", versions)]
    facts = [el("div", el("dt", name), el("dd", words)) for name, words in lines]
    config = el("details", el("summary", "Config (TOML)"), el("pre", run.config, tabindex=0))
    return el("section", el("h3", "How to repeat it"), el("dl", facts, class_="facts"), config)


def key_list(names: Sequence[str]) -> Markup:
    """Colours and what they stand for."""
    return el("p", [el("span", el("span", class_=f"key c{k % COLOURS}"), f" {n}  ") for k, n in enumerate(names)], class_="legend")


def table(title: str, heads: Iterable[str], rows: Iterable[Markup], **attributes: str) -> Markup:
    """A table that scrolls in its own box where it is wider than the page."""
    return _table(title, heads, rows, **attributes)


def _table(title: str, heads: Iterable[str], rows: Iterable[Markup], **attributes: str) -> Markup:
    numeric = {"share %", "plain %", "without", "only", "mean %", "first in %", "nodes", "precision", "recall", "F1", "sure %"}
    cells = [el("th", head, scope="col", class_="num" if head in numeric else None) for head in heads]
    caption = el("caption", title) if title else None
    inner = el("table", caption, el("thead", el("tr", cells)), el("tbody", list(rows)), **attributes)
    return el("div", inner, class_="scroll", tabindex=0, role="region", aria_label=title or "table")


def _figure(chart: Child, caption: str) -> Markup:
    return el("figure", chart, el("figcaption", caption) if caption else None)


def _card(name: str, spread: Spread, run: RunTables) -> Markup:
    main, *rest = spread.points(len(run.seeds)).split(" ", 1)
    return el("div", el("span", name), el("b", main, el("small", " " + rest[0]) if rest else None), class_="card")


def _headline(scores: dict[str, Spread]) -> list[str]:
    """Accuracy equals micro-F1 where a node has one label: it is not said twice."""
    names = [name for name in ("ndcg", "mrr", "micro_f1", "macro_f1") if name in scores]
    return names or list(scores)


def _whose(run: RunTables) -> str:
    return f"Everything below is about seed {run.seed}, the best on validation." if len(run.seeds) > 1 else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
