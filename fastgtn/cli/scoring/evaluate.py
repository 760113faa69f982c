"""`fastgtn evaluate`: the scores of a trained run."""

from typing import Annotated

import typer

from fastgtn.cli.choose import is_link_run
from fastgtn.cli.options import AsJson, DataDir, RunFolder, RunGraph, RunSeed
from fastgtn.cli.output import emit_json, say
from fastgtn.cli.scores import balance_line, before_shift
from fastgtn.errors import InputError, check_run_folder


def evaluate_command(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    at: Annotated[
        int | None,
        typer.Option(help="With a link model: length of the lists for recall, NDCG and hits. Default: 20.", min=1),
    ] = None,
    graph: RunGraph = None,
    seed: RunSeed = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Score a trained model on one split.

    Example: fastgtn evaluate runs/imdb-fast_gtn-0 --split val
    """
    check_run_folder(run)
    if is_link_run(run):
        from fastgtn.cli.links.use import evaluate_link_run

        evaluate_link_run(run, split=split, at=at, seed=seed, graph=graph, data_dir=data_dir, as_json=as_json)
        return
    if at is not None:
        raise InputError(f"--at is the length of lists of recommendations, but {run} is a model of nodes.")
    from fastgtn.data.metrics import headline, shown, title_of
    from fastgtn.runs.load import load_run

    trained = load_run(run, seed=seed, graph=graph, data_dir=data_dir)
    scores = trained.evaluate(split)
    if as_json:
        emit_json({"run": str(trained.folder), "split": split, **scores})
        return
    order = dict.fromkeys([*headline(scores, first=trained.chosen_by), *scores])
    say(split, " · ".join(f"{title_of(name)} {shown(name, scores[name])}" for name in order))
    if (majority := trained.majority(split)) is not None:
        say("balance", balance_line(trained.facts["balance"], majority, split))
    if "val_before_label_shift" in trained.facts:
        words = "these scores are after label shift; the epoch was chosen before it, with val"
        say("shift", f"{words} {before_shift([trained.facts], 'val')}")
