"""The command `fastgtn evaluate`, and the arguments of all commands that use a trained run."""

from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli import complete
from fastgtn.cli.output import emit_json, say
from fastgtn.cli.train import AsJson, DataDir, balance_line, before_shift
from fastgtn.errors import InputError

RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run folder, or the folder of one seed.", autocompletion=complete.run_folders),
]
Seed = Annotated[int | None, typer.Option(help="A seed of the run. Default: the best one on validation.")]
Graph = Annotated[
    str | None, typer.Option(help="Another graph of the same schema, or the graph of the training in its new place.")
]


def check_folder(run: Path) -> None:
    """Refuse a mistyped run folder before torch is imported."""
    if not run.is_dir():
        raise InputError(f"the run folder {run} does not exist.")


def is_link_run(run: Path) -> bool:
    """Whether a run folder holds a link model, decided by its files before anything heavy is imported."""
    return (run / "link.json").is_file() or any(run.glob("seed-*/link.json"))


def evaluate_command(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    graph: Graph = None,
    seed: Seed = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Score a trained model on one split.

    Example: fastgtn evaluate runs/imdb-fast_gtn-0 --split val
    """
    check_folder(run)
    if is_link_run(run):
        from fastgtn.cli.links.use import evaluate_link_run

        evaluate_link_run(run, split=split, seed=seed, graph=graph, data_dir=data_dir, as_json=as_json)
        return
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
        say("shift", f"{words} {before_shift([trained.facts])}")
