"""The sections about meta-paths: which, whether they matter, whether seeds agree, and the filters behind them."""

from __future__ import annotations

from itertools import groupby

from fastgtn.data.metrics import shown, title_of
from fastgtn.explain.ranking import RankedPath, Ranking
from fastgtn.report.blocks import SPLITS, figure, percent, table
from fastgtn.report.charts.plain import bar, dots, heat_map, hop_chart, scatter
from fastgtn.report.charts.schema import can_draw, path_chart, relation_use, schema_chart
from fastgtn.report.markup import Markup, el
from fastgtn.report.tables import RunTables

SCREENED = 12  # paths of the screening that are listed


def meta_paths(run: RunTables) -> Markup:
    ranking = run.ranking
    several = len(run.schema.nodes) > 1
    tables = [_path_table(ranking, f"From {run.target} to anywhere" if several else "From any node")]
    if several:
        tables.append(_path_table(run.back, f"From {run.target} back to {run.target}"))
    own = f" In addition, {percent(ranking.own_share)} of the layer comes from the node's own features (γ)."
    return el(
        "section",
        el("h3", "Learned meta-paths"),
        _verdict(ranking),
        el(
            "p",
            "Paths are ordered by their contribution: the mean size of their part of the predictions, over ",
            f"{ranking.num_nodes:,} {run.target + ' ' if several else ''}nodes. The share is exact, and the lift ",
            "compares it with the share that uniform filters, that is the graph alone, would give. “Without” is the ",
            "change of the validation score when the path is dropped. Walks that never leave the node have ",
            f"{percent(ranking.empty_weight)} of the weight.",
            own if ranking.own_share else "",
            f" {ranking.caveat}" if ranking.caveat else "",
            class_="lead",
        ),
        el(
            "p",
            el("span", el("span", class_="key share"), " share in the learned graph"),
            " ",
            el("span", el("span", class_="key plain"), " share under uniform filters"),
            class_="legend",
        ),
        el("div", tables, class_="columns wide"),
        _drawings(run),
    )


def _verdict(ranking: Ranking) -> Markup | None:
    return None if ranking.learned is None else el("p", el("b", ranking.learned.verdict), class_="lead verdict")


def _path_table(ranking: Ranking, title: str) -> Markup:
    if ranking.learned is not None and ranking.learned.found_nothing:
        return el("p", "No path is listed.", class_="note")
    highest = max((max(r.weight, r.uniform_share or 0.0) for r in ranking), default=1.0) or 1.0
    rows = [
        el(
            "tr",
            el("td", str(r.rank), class_="num dim"),
            el("th", el("b", r.name), _long_name(r, ranking), scope="row"),
            el("td", _shown(r.contribution, ".3f"), class_="num"),
            el("td", bar(r.weight / highest, (r.uniform_share or 0.0) / highest), class_="bars"),
            el("td", f"{100 * r.weight:.1f}", class_="num"),
            el("td", _shown(r.lift, ".1f"), class_="num dim"),
            el("td", "–" if r.without is None else f"{100 * r.without:+z.1f}", class_="num"),
            el("td", _shown(r.p_value, ".2f"), class_="num dim"),
        )
        for r in ranking
    ]
    head = ("", "meta-path", "contribution", "", "share %", "lift", "without", "p-value")
    return table(title, head, rows, class_="paths")


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def signal(run: RunTables) -> Markup | None:
    """What screening found before training."""
    found = run.screening
    if found is None:
        return None
    rows = [
        el(
            "tr",
            el("th", path.name, scope="row"),
            el("td", f"{path.r_squared:.3f}", class_="num"),
            el("td", f"{path.p_value:.2f}", class_="num"),
            el("td", f"{path.added:.3f}" if path.chosen else "–", class_="num"),
            el("td", str(path.chosen or "–"), class_="num"),
        )
        for path in found.paths[:SCREENED]
    ]
    lead = (
        f"{found.verdict} Each path was tested alone on {found.num_nodes:,} training nodes: R² is the share of the "
        "labels' variance that its features predict at nodes left out of the fit."
    )
    return el(
        "section",
        el("h3", "Signal before training"),
        el("p", lead, class_="lead"),
        el("p", f"There are many paths: {found.first_look}.", class_="note") if found.first_look else None,
        [el("p", f"Not tested: {words}.", class_="note") for words in found.unseen],
        table("", ("meta-path", "R²", "p-value", "R² added", "chosen"), rows),
    )


def _long_name(ranked: RankedPath, ranking: Ranking) -> Markup | None:
    words = ranking.names.long(ranked.path)
    return el("small", words) if words != ranked.name else None


def _drawings(run: RunTables) -> Markup | None:
    if not can_draw(run.schema):
        return None
    every = schema_chart(run.schema, "All listed paths", relation_use(run.ranking), run.target)
    figures = [figure(path_chart(run.schema, r), f"{r.name} · {percent(r.weight)}") for r in run.ranking.paths[:3]]
    every = figure(every, "all listed paths together")
    return el(
        "div",
        el("h4", "On the schema"),
        el(
            "p",
            "Messages follow the arrows to the filled circle; steps are counted from it outwards, "
            "and thicker arrows carry more.",
            class_="caption",
        ),
        el("div", *figures, every, class_="figures"),
    )


def faithful(run: RunTables) -> Markup | None:
    effects = run.faithfulness
    if effects is None:
        return None
    metric = title_of(effects.metric)
    rows = [
        el(
            "tr",
            el("td", str(rank), class_="num dim"),
            el("th", e.name, scope="row"),
            el("td", f"{100 * e.weight:.1f}", class_="num"),
            *(el("td", shown(effects.metric, value), class_="num") for value in (e.without, e.only)),
        )
        for rank, e in enumerate(effects.paths, 1)
    ]
    lead = (
        f"Each path is dropped from the trained model, or kept alone. On {SPLITS[effects.split]}, {metric} is "
        f"{shown(effects.metric, effects.whole)} with all paths and {shown(effects.metric, effects.none)} with none."
    )
    effect_table = table("", ("", "meta-path", "share %", "without", "only"), rows)
    return el(
        "section",
        el("h3", "Do they matter?"),
        el("p", lead, class_="lead"),
        el(
            "div",
            figure(scatter(effects, metric), "Numbers are ranks in the table."),
            effect_table,
            class_="columns",
        ),
    )


def stable(run: RunTables) -> Markup | None:
    found = run.stability
    if found is None:
        return None
    highest = max((max(weights) for weights in run.seed_weights.values()), default=1.0)
    rows = [
        el(
            "tr",
            el("th", p.name, scope="row"),
            el("td", dots(run.seed_weights[p.name], p.mean, highest), class_="bars"),
            el("td", f"{100 * p.mean:.1f}", class_="num"),
            el("td", f"± {100 * p.std:.1f}", class_="num dim"),
            el("td", f"{100 * p.first_in:.0f}", class_="num"),
        )
        for p in found.paths
    ]
    agreement = (
        f"Over {found.num_runs} seeds, Kendall's τ between their rankings is {found.kendall:.2f}, and "
        f"{100 * found.top3_overlap:.0f} % of the first three paths are the same."
    )
    return el(
        "section",
        el("h3", "Do the seeds agree?"),
        el("p", agreement, class_="lead"),
        [el("p", f"{w[:1].upper()}{w[1:]}", class_="note") for w in found.warnings],
        table("", ("meta-path", "each seed, and the mean", "mean %", "", "first in %"), rows, class_="seeds"),
    )


def filters(run: RunTables) -> Markup:
    groups = []
    for layer, maps in groupby(run.filters, key=lambda m: m.layer):
        several = run.filters[-1].layer > 0
        figures = [figure(heat_map(m, f"Filters of channel {m.channel + 1}"), f"channel {m.channel + 1}") for m in maps]
        groups.append(
            el("div", el("h4", f"Layer {layer + 1}") if several else None, el("div", *figures, class_="figures wide"))
        )
    return el(
        "section",
        el("h3", "Filters and reach"),
        el(
            "p",
            "What each hop attends to: one column per hop, hop 1 next to the target. "
            "Every column of a channel adds up to one.",
            class_="lead",
        ),
        groups,
        el("h4", "How far the model looks"),
        el(
            "p",
            "Shares of walks by the number of steps that really move.",
            class_="caption",
        ),
        figure(hop_chart(run.hop_shares), ""),
    )
