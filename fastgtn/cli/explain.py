"""`fastgtn explain`: rank the meta-paths that a run has learned, and check how reliable the ranking is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fastgtn.cli.data.build import Force
from fastgtn.cli.output import emit_json, emit_table, say, stderr, stdout
from fastgtn.cli.train import AsJson, DataDir
from fastgtn.cli.use_run import Graph, RunFolder, Seed, check_folder, is_link_run
from fastgtn.errors import InputError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from fastgtn.data import NodeTask
    from fastgtn.explain import Faithfulness, Ranking, Stability
    from fastgtn.relations import Relation

SPARE_PATHS = 200  # when runs are compared, rank this many additional paths, so that few weights count as zero


class Format(StrEnum):
    """The export formats."""

    pyg = "pyg"
    cypher = "cypher"
    sql = "sql"


def explain_command(
    run: RunFolder,
    top: Annotated[int, typer.Option(help="Number of meta-paths to list.", min=1)] = 10,
    between_targets: Annotated[
        bool, typer.Option("--between-targets", help="List only paths back to the target type.")
    ] = False,
    channel: Annotated[int | None, typer.Option(help="Rank one channel instead of the mean over all.")] = None,
    layer: Annotated[int, typer.Option(help="The layer of a FastGTN.")] = 0,
    split: Annotated[str | None, typer.Option(help="Use only the nodes of train, val or test.")] = None,
    of_class: Annotated[
        str | None,
        typer.Option("--class", help="Use only train and val nodes of this class; with --node: explain its logit."),
    ] = None,
    with_stability: Annotated[bool, typer.Option("--stability", help="Compare all seeds of the run.")] = False,
    with_faithfulness: Annotated[
        bool,
        typer.Option("--faithfulness", help="Score the validation nodes without each path, and with only that path."),
    ] = False,
    with_control: Annotated[
        bool,
        typer.Option("--control", help="Train the same model with uniform filters, to see what the choice is worth."),
    ] = False,
    by_share: Annotated[
        bool, typer.Option("--by-share", help="Rank by the share of the learned graph instead of the contribution.")
    ] = False,
    node: Annotated[str | None, typer.Option(help="Explain the prediction of one node, given its id or name.")] = None,
    link: Annotated[
        tuple[str, str] | None, typer.Option(metavar="SOURCE TARGET", help="Of a link model: the reasons for one pair.")
    ] = None,
    export: Annotated[Format | None, typer.Option(help="Print the paths in the syntax of another program.")] = None,
    graph_out: Annotated[
        Path | None, typer.Option(help="Write the learned meta-path graphs as a graph archive (.npz or a folder).")
    ] = None,
    entries: Annotated[
        int | None, typer.Option(help="With --graph-out: keep only this many heaviest edges per node.", min=1)
    ] = None,
    force: Force = False,
    graph: Graph = None,
    seed: Seed = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Rank the meta-paths that a run has learned by what they contribute to its predictions, with the evidence.

    Example: fastgtn explain runs/dblp-fast_gtn-0 --between-targets --stability
    """
    if entries is not None and graph_out is None:
        raise InputError("--entries limits what --graph-out writes: give --graph-out, too.")
    if node is not None:
        given = {
            "--stability": with_stability,
            "--faithfulness": with_faithfulness,
            "--split": split,
            "--export": export,
            "--graph-out": graph_out,
            "--channel": channel,
            "--control": with_control,
            "--by-share": by_share,
        }
        if told := [option for option, value in given.items() if value not in (None, False)]:
            raise InputError(
                f"{told[0]} applies to all nodes and --node to one, so they cannot be combined: give only one of them."
            )
    check_folder(run)
    if is_link_run(run):
        from fastgtn.cli.links.use import explain_link_run

        explain_link_run(run, pair=link, top=top, seed=seed, graph=graph, data_dir=data_dir, as_json=as_json)
        return
    if link is not None:
        raise InputError(f"{run} is a model of nodes: explain one of them with --node.")
    from fastgtn.cli.explain_node import explain_one_node
    from fastgtn.data import archive
    from fastgtn.explain import faithfulness, stability
    from fastgtn.explain.export import learned_hetero
    from fastgtn.explain.walks import backbone_of
    from fastgtn.runs.load import load_run, seeds_of

    trained = load_run(run, seed=seed, graph=graph, data_dir=data_dir)
    if node is not None:
        explain_one_node(trained, node, of_class=of_class, top=top, as_json=as_json)
        return
    inputs, model = trained.inputs, trained.own.model
    if graph_out is not None:
        learned = learned_hetero(backbone_of(model), inputs.stack, trained.graph, entries=entries)
        archive.write(graph_out, learned, trained.own.task, overwrite=force)
        stderr.print(
            f"saved {graph_out}: {len(learned.edge_types)} edge types of learned meta-path graphs", markup=False
        )
    chosen = None if split is None and of_class is None else choose_nodes(trained.task, split, of_class)
    options: dict[str, Any] = {"nodes": chosen, "between_targets": between_targets, "channel": channel, "layer": layer}
    if with_control:
        with stderr.status("training the control with uniform filters"):
            trained.control()
    ranking = trained.metapaths(top, by="share" if by_share else "contribution", **options)
    if by_share:
        ranking = replace(ranking, learned=trained.learned)
    result: dict[str, Any] = {"run": str(trained.folder), "dataset": trained.config.dataset, **ranking.to_dict()}
    stable = matters = None
    if with_stability:
        rankings = [
            other.metapaths(top + SPARE_PATHS, by="share", **options)
            for other in seeds_of(trained, finished_seeds(run), run)
        ]
        stable = stability(rankings, top=top)
        result["stability"] = stable.to_dict()
    if with_faithfulness:
        seen, _ = trained.own.seen
        task = trained.own.seen_task(trained.task)
        matters = faithfulness(model, seen.stack, seen.features, task, ranking, metric=trained.chosen_by)
        result["faithfulness"] = matters.to_dict()
    if export is not None:
        result["export"] = exported(ranking, export, inputs.stack.relations)
    if as_json:
        emit_json(result)
    elif export is not None:
        stdout.print(result["export"], markup=False, end="")
    else:
        show(ranking, stable, matters)


def choose_nodes(task: NodeTask, split: str | None, of_class: str | None) -> Tensor | None:
    """Nodes of a split, of a class, or of both."""
    import torch

    from fastgtn.runs.result import SPLITS

    if split is not None and split not in SPLITS:
        raise InputError(f'no split "{split}"; {nearest(split, SPLITS)}')
    if of_class is None:
        nodes = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}
        return None if split is None else nodes[split]
    if of_class not in task.class_names:
        raise InputError(f'no class "{of_class}"; {nearest(of_class, task.class_names)}')
    if split == "test":
        raise InputError(
            "--class selects nodes by label, and test labels are hidden: use --split train or --split val."
        )
    number = task.class_names.index(of_class)
    splits = [part for name, part in (("train", task.train), ("val", task.val)) if split in (None, name)]
    masks = [part.labels[:, number] > 0 if part.labels.dim() == 2 else part.labels == number for part in splits]
    return torch.cat([part.nodes[mask] for part, mask in zip(splits, masks, strict=True)])


def finished_seeds(run: Path) -> list[int]:
    """The seeds of a run folder."""
    if (run / "model.safetensors").exists():
        raise InputError(
            f"{run} is the folder of one seed: give the folder of the run, {run.parent}, to compare its seeds."
        )
    from fastgtn.runs import records

    return records.finished_seeds(run)


def exported(ranking: Ranking, form: Format, relations: Iterable[Relation]) -> str:
    """The ranked paths in the syntax of another program; a note on stderr lists paths that it cannot express."""
    from fastgtn.explain.export import cypher, is_exportable, pyg_metapaths, pyg_text, sql

    known = tuple(relations)
    usable = [ranked for ranked in ranking if is_exportable(ranked.path)]
    if form is Format.pyg:
        usable = [ranked for ranked in usable if pyg_metapaths([ranked.path])]
    left_out = [ranked.name for ranked in ranking if ranked not in usable]
    if left_out:
        why = (
            "paths of one step are edge types already, and non-local steps have no edge type"
            if form is Format.pyg
            else "no stored edges"
        )
        stderr.print(f"note: these paths are omitted: {', '.join(left_out)} ({why}).", markup=False)
    if form is Format.pyg:
        return pyg_text(ranked.path for ranked in usable)
    write, comment = (cypher, "//") if form is Format.cypher else (sql, "--")
    return "\n".join(f"{comment} {r.rank}. {r.name}, share {r.weight:.4f}\n{write(r.path, known)}" for r in usable)


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
            numbers.append("–" if ranked.without is None else f"{100 * ranked.without:+.2f}")
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
