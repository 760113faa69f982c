"""`fastgtn explain`: rank the meta-paths that a run has learned, explain one node, or write the learned graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastgtn.cli.choose import is_link_run
from fastgtn.cli.data.build import Force
from fastgtn.cli.explain.question import Format, Question, answer_question
from fastgtn.cli.options import AsJson, DataDir, RunFolder, RunGraph, RunSeed
from fastgtn.cli.output import stderr
from fastgtn.errors import InputError, check_run_folder

if TYPE_CHECKING:
    from fastgtn.runs import Result


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
    check_run_folder(run)
    if is_link_run(run):
        _refuse_for_links({"--node": node, "--class": of_class, "--between-targets": between_targets, **of_rankings})
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
    question = Question(
        top=top,
        between_targets=between_targets,
        channel=channel,
        layer=layer,
        split=split,
        of_class=of_class,
        by_share=by_share,
        control=with_control,
        stability=with_stability,
        faithfulness=with_faithfulness,
    )
    answer_question(trained, run, question, export=export, as_json=as_json)


def _refuse_beside_node(options: Mapping[str, object]) -> None:
    if given := [option for option, value in options.items() if value not in (None, False)]:
        raise InputError(
            f"{given[0]} applies to all nodes and --node to one, so they cannot be combined: give only one of them."
        )


def _refuse_for_links(options: Mapping[str, object]) -> None:
    if given := [option for option, value in options.items() if value not in (None, False)]:
        raise InputError(
            f"{given[0]} is a question about nodes, but this is a link model: explain one pair with --link SOURCE "
            "TARGET, or rank its meta-paths without this option."
        )


def write_learned_graphs(trained: Result, out: Path, *, entries: int | None, force: bool) -> None:
    """Write the learned meta-path graphs as an archive."""
    from fastgtn.data import archive
    from fastgtn.explain.export import learned_hetero
    from fastgtn.explain.walks import backbone_of

    learned = learned_hetero(backbone_of(trained.own.model), trained.inputs.stack, trained.graph, entries=entries)
    archive.write(out, learned, trained.own.task, overwrite=force)
    stderr.print(f"saved {out}: {len(learned.edge_types)} edge types of learned meta-path graphs", markup=False)
