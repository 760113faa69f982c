"""`fastgtn explain`: the meta-paths that a run has learned, and how much to believe them."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from fastgtn.cli.data_in import Force
from fastgtn.cli.explain_node import explain_one_node
from fastgtn.cli.output import emit_json, emit_table, say, stderr, stdout
from fastgtn.cli.train import AsJson, DataDir
from fastgtn.cli.use_run import RunFolder, Seed
from fastgtn.data import NodeTask, archive
from fastgtn.errors import InputError, nearest
from fastgtn.insight import Faithfulness, Ranking, Stability, faithfulness, rank_metapaths, stability
from fastgtn.insight.export import cypher, is_exportable, learned_hetero, pyg_metapaths, pyg_text, sql
from fastgtn.insight.unrolled import backbone_of
from fastgtn.relations import Relation
from fastgtn.training import results
from fastgtn.training.load_run import SPLITS, load_run

SPARE_PATHS = 200  # ranked beyond the listed ones where runs are compared, so that few weights count as zero


class Format(StrEnum):
    """Where exported paths go."""

    pyg = "pyg"
    cypher = "cypher"
    sql = "sql"


def explain_command(
    run: RunFolder,
    top: Annotated[int, typer.Option(help="How many meta-paths.", min=1)] = 10,
    between_targets: Annotated[bool, typer.Option("--between-targets", help="Only paths back to the type.")] = False,
    channel: Annotated[int | None, typer.Option(help="One channel, not the mean over all.")] = None,
    layer: Annotated[int, typer.Option(help="Which layer of a FastGTN.")] = 0,
    split: Annotated[str | None, typer.Option(help="Only nodes of train, val or test.")] = None,
    of_class: Annotated[
        str | None, typer.Option("--class", help="Only nodes of this class (train, val); with --node: its logit.")
    ] = None,
    with_stability: Annotated[bool, typer.Option("--stability", help="Compare all seeds of the run.")] = False,
    with_faithfulness: Annotated[
        bool, typer.Option("--faithfulness", help="Drop each path, or keep only it, and score validation.")
    ] = False,
    node: Annotated[str | None, typer.Option(help="Give the reasons for one node, by its id or name.")] = None,
    export: Annotated[Format | None, typer.Option(help="Print the paths for another program instead.")] = None,
    graph_out: Annotated[
        Path | None, typer.Option(help="Write the learned meta-path graphs as a graph archive (.npz or a folder).")
    ] = None,
    entries: Annotated[
        int | None, typer.Option(help="With --graph-out: only so many heaviest edges per node.", min=1)
    ] = None,
    force: Force = False,
    seed: Seed = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Rank the meta-paths that a run has learned by their exact share.

    Example: fastgtn explain runs/dblp-fast_gtn-0 --between-targets --stability
    """
    if entries is not None and graph_out is None:
        raise InputError("--entries says how much of the learned graphs is written: give --graph-out, too.")
    if node is not None:
        given = {"--stability": with_stability, "--faithfulness": with_faithfulness, "--split": split,
                 "--export": export, "--graph-out": graph_out, "--channel": channel}  # fmt: skip
        if told := [option for option, value in given.items() if value not in (None, False)]:
            raise InputError(f"{told[0]} is about all nodes, --node about one: give one of them.")
    trained = load_run(run, seed=seed)
    graph, task = trained.load_graph(data_dir=data_dir)
    if node is not None:
        explain_one_node(trained, graph, task, node, of_class=of_class, top=top, as_json=as_json)
        return
    inputs, model = trained.prepare(graph)
    if graph_out is not None:
        learned = learned_hetero(backbone_of(model), inputs.stack, graph, entries=entries)
        archive.write(graph_out, learned, task, overwrite=force)
        stderr.print(
            f"saved {graph_out}: {len(learned.edge_types)} edge types of learned meta-path graphs", markup=False
        )
    chosen = choose_nodes(task, split, of_class)
    options: dict[str, Any] = {"nodes": chosen, "between_targets": between_targets, "channel": channel, "layer": layer}
    ranking = rank_metapaths(model, inputs.stack, task.target, top=top, features=inputs.features, **options)
    result: dict[str, Any] = {"run": str(trained.folder), "dataset": trained.config.dataset, **ranking.to_dict()}
    stable = matters = None
    if with_stability:
        rankings = []
        for number in finished_seeds(run):
            other = load_run(run, seed=number).prepare(graph)[1]
            rankings.append(
                rank_metapaths(
                    other, inputs.stack, task.target, top=top + SPARE_PATHS, features=inputs.features, **options
                )
            )
        stable = stability(rankings, top=top)
        result["stability"] = stable.to_dict()
    if with_faithfulness:
        matters = faithfulness(model, inputs.stack, inputs.features, task, ranking)
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
    if split is not None and split not in SPLITS:
        raise InputError(f'no split "{split}"; {nearest(split, SPLITS)}')
    if of_class is None:
        nodes = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}
        return None if split is None else nodes[split]
    if of_class not in task.class_names:
        raise InputError(f'no class "{of_class}"; {nearest(of_class, task.class_names)}')
    if split == "test":
        raise InputError("--class chooses by label, and test labels stay hidden: use --split train or val.")
    number = task.class_names.index(of_class)
    splits = [part for name, part in (("train", task.train), ("val", task.val)) if split in (None, name)]
    masks = [part.labels[:, number] > 0 if part.labels.dim() == 2 else part.labels == number for part in splits]
    return torch.cat([part.nodes[mask] for part, mask in zip(splits, masks, strict=True)])


def finished_seeds(run: Path) -> list[int]:
    """The seeds of a run folder that can be compared."""
    if (run / "model.safetensors").exists():
        raise InputError(f"{run} is one seed: give the folder of the run, {run.parent}, to compare its seeds.")
    return results.finished_seeds(run)


def exported(ranking: Ranking, form: Format, relations: Iterable[Relation]) -> str:
    """The ranked paths as text for another program; what cannot be said there is noted on stderr."""
    known = tuple(relations)
    usable = [ranked for ranked in ranking if is_exportable(ranked.path)]
    if form is Format.pyg:
        usable = [ranked for ranked in usable if pyg_metapaths([ranked.path])]
    left_out = [ranked.name for ranked in ranking if ranked not in usable]
    if left_out:
        why = "one step is an edge type already, non-local steps have none" if form is Format.pyg else "no stored edges"
        stderr.print(f"note: left out {', '.join(left_out)} ({why}).", markup=False)
    if form is Format.pyg:
        return pyg_text(ranked.path for ranked in usable)
    write, comment = (cypher, "//") if form is Format.cypher else (sql, "--")
    return "\n".join(f"{comment} {r.rank}. {r.name}, share {r.weight:.4f}\n{write(r.path, known)}" for r in usable)


def show(ranking: Ranking, stable: Stability | None, matters: Faithfulness | None) -> None:
    """Tables for people: shares in percent, metrics in points."""
    emit_table(ranking_table(ranking, matters))
    ends = f"; only paths back to {ranking.target}, as shares of all" if ranking.between_targets else ""
    say("mean", f"over {ranking.num_nodes:,} nodes of type {ranking.target}{ends}")
    if ranking.num_without:
        say("", f"{ranking.num_without:,} more start no walk at all and have no shares")
    say("itself", f"{100 * ranking.empty_weight:.1f} % of the learned graph stays at the node (the empty path)")
    say("gamma", f"{100 * ranking.own_share:.1f} % of the layer is the node's own features, apart from the above")
    if matters is not None:
        say("metric", f"{matters.metric} on {matters.split}: {100 * matters.whole:.1f} with all paths, "
                      f"{100 * matters.none:.1f} with none")  # fmt: skip
    if stable is not None:
        emit_table(stability_table(stable))
        say(
            "agree",
            f"Kendall's τ {stable.kendall:.2f} · common among the first three {100 * stable.top3_overlap:.0f} %",
        )
    for warning in [*([ranking.caveat] if ranking.caveat else []), *(stable.warnings if stable else [])]:
        stderr.print(f"warning: {warning}", markup=False, style="yellow")


def ranking_table(ranking: Ranking, matters: Faithfulness | None) -> Table:
    """One line per path: its exact share, the paper's product beside it, and what it is good for."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("meta-path")
    for title in ("share %", "product of α", *(("without", "only") if matters else ())):
        table.add_column(title, justify="right")
    table.add_column("", no_wrap=True)
    effects = {effect.name: effect for effect in matters.paths} if matters else {}
    for ranked in ranking:
        numbers = [f"{100 * ranked.weight:.2f}", f"{ranked.plain_weight:.4f}"]
        if ranked.name in effects:
            numbers += [f"{100 * value:.1f}" for value in (effects[ranked.name].without, effects[ranked.name].only)]
        table.add_row(str(ranked.rank), escape(ranked.name), *numbers, escape(ranking.names.long(ranked.path)))
    return table


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
