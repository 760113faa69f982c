"""A ranking of meta-paths as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from fastgtn.cli.output import emit_table, say, stderr

if TYPE_CHECKING:
    from fastgtn.explain import Faithfulness, Ranking, Stability


def show(ranking: Ranking, stable: Stability | None, matters: Faithfulness | None) -> None:
    """Tables for people: shares in percent, metrics in points."""
    from fastgtn.data.metrics import shown, title_of

    if ranking.learned is not None:
        say("learned", ranking.learned.verdict)
        if ranking.learned.found_nothing:
            return
    emit_table(ranking_table(ranking, matters))
    ends = f"; only paths back to {ranking.target}, as shares of all" if ranking.between_targets else ""
    say("mean", f"over {ranking.num_nodes:,} nodes of type {ranking.target}{ends}")
    if ranking.num_without:
        say("", f"{ranking.num_without:,} further nodes start no walk and have no shares")
    say("itself", f"{100 * ranking.empty_weight:.1f} % of the weight stays at the node itself (the empty path)")
    say("gamma", f"{100 * ranking.own_share:.1f} % of the layer comes from the node's own features, beside these paths")
    if matters is not None:
        say(
            "metric",
            f"{title_of(matters.metric)} on {matters.split}: {shown(matters.metric, matters.whole)} with all paths, "
            f"{shown(matters.metric, matters.none)} with none",
        )
    if stable is not None:
        emit_table(stability_table(stable))
        say(
            "agree",
            f"Kendall's τ {stable.kendall:.2f} · common among the first three {100 * stable.top3_overlap:.0f} %",
        )
    for warning in [*([ranking.caveat] if ranking.caveat else []), *(stable.warnings if stable else [])]:
        stderr.print(f"warning: {warning}", markup=False, style="yellow")


def ranking_table(ranking: Ranking, matters: Faithfulness | None) -> Table:
    """One line per path: its contribution and share, what the graph alone gives, and what happens without it."""
    from fastgtn.data.metrics import shown

    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("meta-path")
    judged = any(ranked.contribution is not None for ranked in ranking)
    titles = [
        *(("contribution",) if judged else ()),
        "share %",
        "lift",
        *(("without",) if judged and matters is None else ()),
        *(("without", "only") if matters else ()),
        "p-value",
        "product of α",
    ]
    for title in titles:
        table.add_column(title, justify="right")
    table.add_column("")
    effects = {effect.name: effect for effect in matters.paths} if matters else {}
    for ranked in ranking:
        numbers = [_number(ranked.contribution, ".3f")] if judged else []
        numbers += [f"{100 * ranked.weight:.2f}", _number(ranked.lift, ".2f")]
        if matters is not None:
            effect = effects[ranked.name]
            numbers += [shown(matters.metric, value) for value in (effect.without, effect.only)]
        elif judged:
            numbers.append("–" if ranked.without is None else f"{100 * ranked.without:+z.2f}")
        numbers += [_number(ranked.p_value, ".2f"), f"{ranked.plain_weight:.4f}"]
        table.add_row(str(ranked.rank), escape(ranked.name), *numbers, escape(ranking.names.long(ranked.path)))
    return table


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def stability_table(stable: Stability) -> Table:
    """One line per path: mean and spread over runs, and its ranks."""
    table = Table(box=None, pad_edge=False, title=f"over {stable.num_runs} runs", title_justify="left")
    table.add_column("meta-path")
    for title in ("mean %", "± %", "first in %"):
        table.add_column(title, justify="right")
    table.add_column("ranks")
    for path in stable.paths:
        ranks = " ".join(map(str, path.ranks))
        numbers = [f"{100 * value:.2f}" for value in (path.mean, path.std)]
        table.add_row(escape(path.name), *numbers, f"{100 * path.first_in:.0f}", ranks)
    return table
