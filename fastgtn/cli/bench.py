"""`fastgtn bench`: the paper's tables, with our numbers beside its own."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fastgtn.bench import large, paper
from fastgtn.bench.ablation import ablation_plans, ablation_report
from fastgtn.bench.cells import Cell, dataset_name, plan, run_cells
from fastgtn.bench.efficiency import Sizes, efficiency_cells, efficiency_report
from fastgtn.bench.exactness import exactness_cases, exactness_report
from fastgtn.bench.nodes import nodes_report
from fastgtn.bench.table import Report
from fastgtn.cli.data_in import step_bar
from fastgtn.cli.output import emit_json, stderr, stdout
from fastgtn.cli.progress import main_metric
from fastgtn.cli.train import AsJson, DataDir
from fastgtn.data.catalog import PAPER, locate
from fastgtn.data.oag import NUM_STEPS
from fastgtn.errors import InputError
from fastgtn.training.config import is_path
from fastgtn.training.files import write_text
from fastgtn.training.recipes import MODELS, model_values

app = typer.Typer(help="The paper's tables, with our numbers beside its own.", no_args_is_help=True)

Datasets = Annotated[str | None, typer.Option(help="Datasets by name, with commas; else the paper's.")]
Graph = Annotated[Path | None, typer.Option(help="Your own graph archive instead.")]
Runs = Annotated[int, typer.Option(help="How many seeds.", min=1)]
Seed = Annotated[int, typer.Option(help="The first seed.", min=0)]
Jobs = Annotated[int, typer.Option(help="Processes of one thread each; 1: all in this one, with all threads.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Also write the tables to this file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace that file if it exists.")]


@app.command("nodes")
def nodes_command(
    datasets: Datasets = None,
    graph: Graph = None,
    models: Annotated[str | None, typer.Option(help="Models with commas; else all.")] = None,
    non_local: Annotated[bool, typer.Option("--non-local", help="Also FastGTN with non-local operations.")] = False,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of all runs.")] = Path("runs/bench-nodes"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Every model on every dataset, with the tuned configs of the package (tables 3 and 4).

    Example: fastgtn bench nodes --runs 10 --jobs 2
    """
    _check_file(markdown, force=force)
    names = _models(models, non_local=non_local)
    plans = [plan(d, m, runs=runs, seed=seed) for d in _datasets(datasets, graph, data_dir) for m in names]
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=_tell)
    _emit(nodes_report(cells, command=_command(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


@app.command("ablation")
def ablation_command(
    datasets: Datasets = None,
    graph: Graph = None,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of all runs.")] = Path("runs/bench-nodes"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """GTN without the identity, FastGTN with non-local operations (tables 3, 4 and 6).

    Example: fastgtn bench ablation --datasets imdb,cora --runs 3
    """
    _check_file(markdown, force=force)
    plans = ablation_plans(_datasets(datasets, graph, data_dir), runs=runs, seed=seed)
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=_tell)
    _emit(ablation_report(cells, command=_command(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


@app.command("efficiency")
def efficiency_command(
    datasets: Datasets = None,
    graph: Graph = None,
    path_length: Annotated[int, typer.Option(help="Hops K.", min=1)] = 3,
    rounds: Annotated[int, typer.Option(help="Of how many turns the median is taken.", min=1)] = 5,
    max_gigabytes: Annotated[float, typer.Option(help="What the explicit graphs may take.")] = 4.0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where results are kept.")] = Path("runs/bench-efficiency"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Time and memory of GTN, explicit and implicit, and of FastGTN (figures 5 and 7).

    Example: fastgtn bench efficiency --datasets acm,imdb
    """
    _check_file(markdown, force=force)
    sizes = Sizes(path_length=path_length, rounds=rounds, max_gigabytes=max_gigabytes)
    cells = efficiency_cells(_datasets(datasets, graph, data_dir), sizes, out, data_dir=data_dir, done=_tell_measured)
    _emit(efficiency_report(cells, sizes, command=_command()), markdown, as_json=as_json)


@app.command("large")
def large_command(
    shapes: Annotated[str, typer.Option(help="oag-nn, oag-ml, oag-cs, with commas.")] = "oag-nn",
    scale: Annotated[float, typer.Option(help="Factor on the size of the graphs.")] = 1.0,
    models: Annotated[str | None, typer.Option(help="Models with commas; else those of table 2.")] = None,
    batch_size: Annotated[int, typer.Option(help="Target nodes of a batch.", min=1)] = 512,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every model; else as configured.", min=1)] = None,
    runs: Runs = 1,
    seed: Seed = 0,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of graphs and runs.")] = Path("runs/bench-large"),
    markdown: Markdown = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Every model in mini-batches on graphs of the shape of OAG (table 2).

    Example: fastgtn bench large --shapes oag-nn --epochs 10 --jobs 2
    """
    _check_file(markdown, force=force)
    names = list(large.MODELS) if models is None else _models(models, non_local=True)
    plans = []
    for shape in _words(shapes, "--shapes"):
        with step_bar(NUM_STEPS) as step:
            graph = large.made_graph(shape, out / "graphs", scale=scale, seed=0, progress=step)
        plans += large.large_plans(
            shape, graph, names, runs=runs, seed=seed, epochs=epochs, batch_size=batch_size
        )  # fmt: skip
    cells = run_cells(plans, out, jobs=jobs, done=_tell)
    _emit(large.large_report(cells, command=_command(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


@app.command("exactness")
def exactness_command(
    datasets: Annotated[str, typer.Option(help="Datasets by name, with commas.")] = "imdb,cora",
    graph: Graph = None,
    epochs: Annotated[int, typer.Option(help="How long the models are trained.", min=1)] = 50,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the drawing goes.")] = Path("runs/bench-exactness"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Confidences of FastGTN against GTN, GCN and MixHop of the same weights (figures 4, 8 and 9).

    Example: fastgtn bench exactness
    """
    _check_file(markdown, force=force)
    chosen = _datasets(None if graph is not None else datasets, graph, data_dir)
    cases, skipped = exactness_cases(chosen, epochs=epochs, seed=seed, data_dir=data_dir)
    _emit(exactness_report(cases, skipped, out, command=_command()), markdown, as_json=as_json)


def _datasets(datasets: str | None, graph: Path | None, data_dir: Path | None) -> list[str]:
    if graph is not None and datasets is not None:
        raise InputError("--datasets names graphs of the data folder, --graph a file of yours: give one of them.")
    if graph is not None:
        return [str(graph.resolve())]
    names = list(paper.HERE) if datasets is None else _words(datasets, "--datasets")
    for name in names:
        if name not in PAPER and not is_path(name):  # those of the paper are marked where their files are missing
            locate(name, data_dir=data_dir)
    return names


def _models(models: str | None, *, non_local: bool) -> list[str]:
    if models is None:
        known = [name for name in (*paper.BASELINES, *paper.OURS) if name in MODELS]
        return [name for name in known if non_local or name != "fast_gtn_non_local"]
    names = _words(models, "--models")
    for name in names:
        model_values(name)
    return names


def _words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} is empty: give names with commas between them (fastgtn ls).")
    return words


def _check_file(path: Path | None, *, force: bool) -> None:
    if path is not None and path.suffix != ".md":
        raise InputError(f"--markdown writes a page: give it a name that ends with .md, not {path.name}.")
    if path is not None and not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: make it first.")
    if path is not None and path.exists() and not force:
        raise InputError(f"{path} exists already: choose another name, or allow overwriting (--force).")


def _emit(report: Report, markdown: Path | None, *, as_json: bool) -> None:
    if markdown is not None:
        write_text(markdown, report.markdown())
    if as_json:
        emit_json({"command": report.command, **report.values, "notes": report.notes})
    else:
        stdout.print(report.markdown(), markup=False, end="")


def _command() -> str:
    return shlex.join(["fastgtn", *sys.argv[1:]])


def _tell(cell: Cell) -> None:
    """One line on stderr when a cell is done."""
    words = cell.reason
    if cell.summary:
        means = {name: values["mean"] for name, values in cell.summary["test"].items()}
        words = f"test {main_metric(means)} · {sum(run['seconds'] for run in cell.summary['runs']):.0f} s"
    stderr.print(f"{dataset_name(cell.dataset)} · {cell.model} · {words}", markup=False)


def _tell_measured(cell: dict[str, Any]) -> None:
    stderr.print(f"{cell['dataset']} · measured", markup=False)
