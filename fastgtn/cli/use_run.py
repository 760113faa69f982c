"""`fastgtn evaluate` and `fastgtn predict`: what a trained run is good for."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli.output import emit_json, say, stderr
from fastgtn.cli.train import TITLES, AsJson, DataDir
from fastgtn.data import load
from fastgtn.errors import InputError
from fastgtn.training.load_run import load_run
from fastgtn.training.predictions import check_format, write_table

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or the folder of one seed.")]
Seed = Annotated[int | None, typer.Option(help="Which seed of the run; else the best on validation.")]
Graph = Annotated[str | None, typer.Option(help="Another graph of the same schema, seen in training or not.")]


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
    trained = load_run(run, seed=seed)
    if graph is None:
        data, task = trained.load_graph(data_dir=data_dir)
    else:
        data, other = load(graph, data_dir=data_dir, seed=trained.config.split_seed)
        if other is None:
            raise InputError(f"{graph} has no labels to score against: use fastgtn predict.")
        task = other
    scores = trained.evaluate(data, task, split=split)
    if as_json:
        emit_json({"run": str(trained.folder), "split": split, **scores})
    else:
        say(split, " · ".join(f"{TITLES[name]} {100 * value:.2f}" for name, value in scores.items()))


def predict_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write: .parquet or .csv.")],
    graph: Graph = None,
    seed: Seed = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the table if it exists.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write predictions with probabilities for all nodes of the target type.

    Example: fastgtn predict runs/imdb-fast_gtn-0 --graph new.npz --out predictions.csv
    """
    check_format(out)
    if out.exists() and not force:
        raise InputError(f"{out} exists already: choose another name, or allow overwriting (--force).")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: make it first.")
    trained = load_run(run, seed=seed)
    data, task = load(graph or trained.config.dataset, data_dir=data_dir, seed=trained.config.split_seed)
    if task is not None and task.target != trained.schema.target:
        task = None
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        table = trained.predict(data, task)
    for note in notes:
        stderr.print(f"note: {note.message}", markup=False)
    write_table(table, out)
    if as_json:
        emit_json({"run": str(trained.folder), "rows": table.num_rows, "columns": table.column_names, "out": str(out)})
    else:
        say("saved", f"{out} · {table.num_rows:,} nodes of type {trained.schema.target}")
