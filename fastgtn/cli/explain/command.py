"""`fastgtn explain`: rank the meta-paths that a run has learned, and check how reliable the ranking is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli.choose import check_folder, is_link_run
from fastgtn.cli.data.build import Force
from fastgtn.cli.explain.tables import show
from fastgtn.cli.options import AsJson, DataDir, RunFolder, RunGraph, RunSeed
from fastgtn.cli.output import emit_json, say, stderr, stdout
from fastgtn.errors import InputError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from fastgtn.data import NodeTask
    from fastgtn.explain import Faithfulness, Ranking, Stability
    from fastgtn.relations import Relation
    from fastgtn.runs import Result

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
        tuple[str, str] | None, typer.Option(metavar="SOURCE TARGET", help="With a link model: explain one pair.")
    ] = None,
    export: Annotated[Format | None, typer.Option(help="Print the paths in the syntax of another program.")] = None,
    graph_out: Annotated[
        Path | None, typer.Option(help="Write the learned meta-path graphs as a graph archive (.npz or a folder).")
    ] = None,
    entries: Annotated[
        int | None, typer.Option(help="With --graph-out: keep only this many heaviest edges per node.", min=1)
    ] = None,
    force: Force = False,
    graph: RunGraph = None,
    seed: RunSeed = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Rank the meta-paths that a run has learned by what they contribute to its predictions, with the evidence.

    Example: fastgtn explain runs/dblp-fast_gtn-0 --between-targets --stability
    """
    if entries is not None and graph_out is None:
        raise InputError("--entries limits what --graph-out writes: give --graph-out, too.")
    of_rankings = {
        "--stability": with_stability,
        "--faithfulness": with_faithfulness,
        "--split": split,
        "--export": export,
        "--graph-out": graph_out,
        "--channel": channel,
        "--control": with_control,
        "--by-share": by_share,
    }
    if node is not None:
        _refuse_beside_node(of_rankings)
    check_folder(run)
    if is_link_run(run):
        from fastgtn.cli.links.use import explain_link_run

        explain_link_run(run, pair=link, top=top, seed=seed, graph=graph, data_dir=data_dir, as_json=as_json)
        return
    if link is not None:
        raise InputError(f"{run} is a model of nodes: explain one of them with --node.")
    from fastgtn.runs.load import load_run

    trained = load_run(run, seed=seed, graph=graph, data_dir=data_dir)
    if node is not None:
        from fastgtn.cli.explain.node import explain_one_node

        explain_one_node(trained, node, of_class=of_class, top=top, as_json=as_json)
        return
    if graph_out is not None:
        write_learned_graphs(trained, graph_out, entries=entries, force=force)
    chosen = None if split is None and of_class is None else choose_nodes(trained.task, split, of_class)
    options: dict[str, Any] = {"nodes": chosen, "between_targets": between_targets, "channel": channel, "layer": layer}
    if with_control:
        with stderr.status("training the control with uniform filters"):
            trained.control()
    ranking = trained.metapaths(top, by="share" if by_share else "contribution", **options)
    if by_share:
        ranking = replace(ranking, learned=trained.learned)
    stable = agreement(trained, run, top, options) if with_stability else None
    matters = path_effects(trained, ranking) if with_faithfulness else None
    text = None if export is None else exported(ranking, export, trained.inputs.stack.relations)
    if as_json:
        answer = {"run": str(trained.folder), "dataset": trained.config.dataset, **ranking.to_dict()}
        checked = {"stability": stable, "faithfulness": matters}
        answer |= {name: part.to_dict() for name, part in checked.items() if part is not None}
        emit_json(answer | ({} if text is None else {"export": text}))
    elif text is not None:
        stdout.print(text, markup=False, end="")
    else:
        show(ranking, stable, matters)
        _say_next(run, ranking)


def _say_next(run: Path, ranking: Ranking) -> None:
    """Suggest the next step: the control if there is none, else the reasons for one node."""
    learned = ranking.learned
    if learned is not None and learned.control is None and not learned.found_nothing:
        say("next", f"fastgtn explain {run} --control    what the choice of paths is worth")
    else:
        say("next", f"fastgtn explain {run} --node ID    why one node got its prediction")


def _refuse_beside_node(options: Mapping[str, object]) -> None:
    if given := [option for option, value in options.items() if value not in (None, False)]:
        raise InputError(
            f"{given[0]} applies to all nodes and --node to one, so they cannot be combined: give only one of them."
        )


def write_learned_graphs(trained: Result, out: Path, *, entries: int | None, force: bool) -> None:
    """Write the learned meta-path graphs as an archive."""
    from fastgtn.data import archive
    from fastgtn.explain.export import learned_hetero
    from fastgtn.explain.walks import backbone_of

    learned = learned_hetero(backbone_of(trained.own.model), trained.inputs.stack, trained.graph, entries=entries)
    archive.write(out, learned, trained.own.task, overwrite=force)
    stderr.print(f"saved {out}: {len(learned.edge_types)} edge types of learned meta-path graphs", markup=False)


def agreement(trained: Result, run: Path, top: int, options: dict[str, Any]) -> Stability:
    """How far the seeds of a run agree about their paths."""
    from fastgtn.explain import stability
    from fastgtn.runs.load import seeds_of

    seeds = seeds_of(trained, finished_seeds(run), run)
    return stability([one.metapaths(top + SPARE_PATHS, by="share", **options) for one in seeds], top=top)


def path_effects(trained: Result, ranking: Ranking) -> Faithfulness:
    """The validation score without each path, and with only that path."""
    from fastgtn.explain import faithfulness

    own, (seen, _) = trained.own, trained.own.seen
    task = own.seen_task(trained.task)
    return faithfulness(own.model, seen.stack, seen.features, task, ranking, metric=trained.chosen_by)


def choose_nodes(task: NodeTask, split: str | None, of_class: str | None) -> Tensor | None:
    """Nodes of a split, of a class, or of both."""
    import torch

    from fastgtn.runs.scoring.evaluate import SPLITS

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
