"""`fastgtn bench nodes`, `hgb`, `ablation` and `large`: scores of models on several graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli import complete
from fastgtn.cli.bench.options import (
    Datasets,
    Force,
    Graph,
    Jobs,
    Markdown,
    Out,
    Runs,
    Seed,
    chosen_datasets,
    chosen_models,
    names_of,
)
from fastgtn.cli.bench.output import check_file, command_line, emit, tell
from fastgtn.cli.data.build import step_bar
from fastgtn.cli.options import AsJson, DataDir


def nodes_command(
    datasets: Datasets = None,
    graph: Graph = None,
    models: Annotated[
        str | None,
        typer.Option(help="Comma-separated names of models. Default: all.", autocompletion=complete.several_models),
    ] = None,
    non_local: Annotated[bool, typer.Option("--non-local", help="Also run FastGTN with non-local operations.")] = False,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Ignore tuned configs: every model as it comes on a new graph.")
    ] = False,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Out = Path("runs/bench-nodes"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run every model on every dataset with the tuned configs of the package (tables 3 and 4).

    If a config corrects class frequencies, a further table has the corrected scores of the same trainings.

    Example: fastgtn bench nodes --runs 10 --jobs 2
    """
    check_file(markdown, force=force)
    names = chosen_models(models, non_local=non_local)
    chosen = chosen_datasets(datasets, graph, data_dir)
    from fastgtn.bench.cells import plan, run_cells
    from fastgtn.bench.nodes import nodes_report

    plans = [plan(d, m, runs=runs, seed=seed, tuned=not defaults) for d in chosen for m in names]
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=tell)
    emit(nodes_report(cells, command=command_line(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


def hgb_command(
    models: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated names of models. Default: GTN, FastGTN and four baselines.",
            autocompletion=complete.several_models,
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Number of divisions of the labelled nodes.", min=1)] = 5,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Out = Path("runs/bench-hgb"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run models with defaults by the protocol of HGB, beside published scores.

    Every seed draws another validation split, and settings are chosen on it.

    Example: fastgtn bench hgb --models gtn,fast_gtn,rgcn
    """
    check_file(markdown, force=force)
    from fastgtn.bench import hgb
    from fastgtn.bench.cells import run_cells

    names = list(hgb.MODELS) if models is None else chosen_models(models, non_local=False)
    plans = hgb.hgb_plans(hgb.DATASETS, names, runs=runs, seed=seed)
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=tell)
    emit(hgb.hgb_report(cells, command=command_line(), runs=runs), markdown, as_json=as_json)


def ablation_command(
    datasets: Datasets = None,
    graph: Graph = None,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Out = Path("runs/bench-nodes"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run GTN without the identity and FastGTN with non-local operations (tables 3, 4 and 6).

    Example: fastgtn bench ablation --datasets imdb,cora --runs 3
    """
    check_file(markdown, force=force)
    chosen = chosen_datasets(datasets, graph, data_dir)
    from fastgtn.bench.ablation import ablation_plans, ablation_report
    from fastgtn.bench.cells import run_cells

    plans = ablation_plans(chosen, runs=runs, seed=seed)
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=tell)
    emit(ablation_report(cells, command=command_line(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


def large_command(
    shapes: Annotated[str, typer.Option(help="Comma-separated shapes: oag-nn, oag-ml, oag-cs.")] = "oag-nn",
    scale: Annotated[float, typer.Option(help="Scale factor of the graph sizes.")] = 1.0,
    models: Annotated[
        str | None, typer.Option(help="Comma-separated names of models. Default: those of table 2.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Target nodes per batch.", min=1)] = 512,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every model. Default: as in its config.", min=1)] = None,
    runs: Runs = 1,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder in which graphs and runs are stored.")] = Path(
        "runs/bench-large"
    ),
    markdown: Markdown = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train every model with mini-batches on graphs with the shape of OAG (table 2).

    Example: fastgtn bench large --shapes oag-nn --epochs 10 --jobs 2
    """
    check_file(markdown, force=force)
    from fastgtn.bench import large
    from fastgtn.bench.cells import run_cells
    from fastgtn.data.synthetic.oag import NUM_STEPS

    names = list(large.MODELS) if models is None else chosen_models(models, non_local=True)
    plans = []
    for shape in names_of(shapes, "--shapes"):
        with step_bar(NUM_STEPS) as step:
            graph = large.made_graph(shape, out / "graphs", scale=scale, seed=0, progress=step)
        plans += large.large_plans(shape, graph, names, runs=runs, seed=seed, epochs=epochs, batch_size=batch_size)
    cells = run_cells(plans, out, jobs=jobs, done=tell)
    emit(large.large_report(cells, command=command_line(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)
