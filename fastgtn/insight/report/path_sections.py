"""The sections about meta-paths: which, whether they matter, whether seeds agree, and the filters behind them."""

from __future__ import annotations

from itertools import groupby

from fastgtn.insight.ranking import RankedPath, Ranking
from fastgtn.insight.report.blocks import SPLITS, figure, percent, table
from fastgtn.insight.report.charts import bar, dots, heat_map, hop_chart, scatter
from fastgtn.insight.report.markup import Markup, el
from fastgtn.insight.report.schema_chart import can_draw, path_chart, relation_use, schema_chart
from fastgtn.insight.report.tables import METRICS, RunTables


def meta_paths(run: RunTables) -> Markup:
    ranking = run.ranking
    several = len(run.schema.nodes) > 1
    tables = [_path_table(ranking, f"From {run.target} to anywhere" if several else "From any node")]
    if several:
        tables.append(_path_table(run.back, f"From {run.target} back to {run.target}"))
    own = f" Apart from them, γ gives {percent(ranking.own_share)} of the layer to the node's own features."
    return el(
        "section",
        el("h3", "Learned meta-paths"),
        el(
            "p", "The exact share of each meta-path in what the model computes, the mean over ",
            f"{ranking.num_nodes:,} {run.target + ' ' if several else ''}nodes. Walks that never leave the node have ",
            f"{percent(ranking.empty_weight)}.", own if ranking.own_share else "",
            f" {ranking.caveat}" if ranking.caveat else "", class_="lead",
        ),
        el("p", el("span", el("span", class_="key share"), " effective share"), " ",
           el("span", el("span", class_="key plain"), " the paper's rule, the product of filter weights"),
           class_="legend"),
        el("div", tables, class_="columns"),
        _drawings(run),
    )  # fmt: skip


def _path_table(ranking: Ranking, title: str) -> Markup:
    highest = max((max(r.weight, r.plain_weight) for r in ranking), default=1.0) or 1.0
    rows = [
        el(
            "tr",
            el("td", str(r.rank), class_="num dim"),
            el("th", el("b", r.name), _long_name(r, ranking), scope="row"),
            el("td", bar(r.weight / highest, r.plain_weight / highest), class_="bars"),
            el("td", f"{100 * r.weight:.1f}", class_="num"),
            el("td", f"{100 * r.plain_weight:.1f}", class_="num dim"),
        )
        for r in ranking
    ]
    return table(title, ("", "meta-path", "", "share %", "plain %"), rows, class_="paths")


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
        f"Each path is dropped from the trained model, or kept alone. On {SPLITS[effects.split]}, {metric} is "
        f"{100 * effects.whole:.1f} with all paths and {100 * effects.none:.1f} with none."
    )
    effect_table = table("", ("", "meta-path", "share %", "without", "only"), rows)
    return el(
        "section", el("h3", "Do they matter?"), el("p", lead, class_="lead"),
        el("div", figure(scatter(effects, metric), "Numbers are ranks by share."), effect_table, class_="columns"),
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
        table("", ("meta-path", "each seed, and the mean", "mean %", "", "first in %"), rows, class_="seeds"),
    )  # fmt: skip


def filters(run: RunTables) -> Markup:
    groups = []
    for layer, maps in groupby(run.filters, key=lambda m: m.layer):
        several = run.filters[-1].layer > 0
        figures = [figure(heat_map(m, f"Filters of channel {m.channel + 1}"), f"channel {m.channel + 1}") for m in maps]
        groups.append(
            el("div", el("h4", f"Layer {layer + 1}") if several else None, el("div", *figures, class_="figures wide"))
        )
    return el(
        "section", el("h3", "Filters and reach"),
        el("p", "What each hop attends to: one column per hop, hop 1 next to the target. "
                "Every column of a channel adds up to one.", class_="lead"),
        groups,
        el("h4", "How far it looks"),
        el("p", "Shares of the walks by the steps that they really take, after no-op steps are merged away.",
           class_="caption"),
        figure(hop_chart(run.hop_shares), ""),
    )  # fmt: skip
