"""`fastgtn bench`: the tables of the paper, with its numbers and ours side by side."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli import complete
from fastgtn.cli.choose import check_model
from fastgtn.cli.data.build import step_bar
from fastgtn.cli.options import AsJson, DataDir, LinkNegatives, LinkRelation, LinkSplit
from fastgtn.cli.output import emit_json, stderr, stdout
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.bench.cells import Cell
    from fastgtn.bench.links import LinkCell
    from fastgtn.bench.table import Report
    from fastgtn.links import LinkTask

app = typer.Typer(help="Reproduce the tables of the paper, or compare all models on your graph.", no_args_is_help=True)

Datasets = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated names of datasets. Default: those of the paper.", autocompletion=complete.several_datasets
    ),
]
Graph = Annotated[Path | None, typer.Option(help="Use your own graph archive instead of a dataset.")]
Runs = Annotated[int, typer.Option(help="Number of seeds.", min=1)]
Seed = Annotated[int, typer.Option(help="The first seed.", min=0)]
Jobs = Annotated[
    int, typer.Option(help="Number of parallel processes with one thread each. With 1, this process uses all threads.")
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder in which the runs are stored.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Also write the tables to this Markdown file.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]


@app.command("nodes")
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

    Example: fastgtn bench nodes --runs 10 --jobs 2
    """
    _check_file(markdown, force=force)
    names = _models(models, non_local=non_local)
    chosen = _datasets(datasets, graph, data_dir)
    from fastgtn.bench.cells import plan, run_cells
    from fastgtn.bench.nodes import nodes_report

    plans = [plan(d, m, runs=runs, seed=seed, tuned=not defaults) for d in chosen for m in names]
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=_tell)
    _emit(nodes_report(cells, command=_command(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


@app.command("links")
def links_command(
    graph: Annotated[
        str | None,
        typer.Option(help="A graph archive, or a name of the data folder. Default: the four graphs of the docs."),
    ] = None,
    link: LinkRelation = None,
    negatives: LinkNegatives = None,
    split: LinkSplit = None,
    models: Annotated[
        str, typer.Option(help="Comma-separated predictors to compare with: rivals, and encoders of fastgtn ls.")
    ] = "popularity,common_neighbors,adamic_adar,bpr,light_gcn,trans_e,dist_mult,complex,fast_gtn,gtn,rgcn",
    only: Annotated[
        str | None, typer.Option(help="Comma-separated titles of the graphs of the docs, such as LastFM,PubMed.")
    ] = None,
    runs: Runs = 3,
    seed: Seed = 0,
    out: Out = Path("runs/bench-links"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Joined meta-paths, learned encoders and other link predictors, side by side.

    Every finished seed is stored in --out, so the same command continues a run that was interrupted.

    Example: fastgtn bench links --graph shop.npz --link buys
    """
    _check_file(markdown, force=force)
    from fastgtn.bench import link_tasks
    from fastgtn.bench.links import check_rivals, link_cells, links_report
    from fastgtn.cli.links.train import link_settings
    from fastgtn.data import checksum
    from fastgtn.links.folder import load_link_task

    def make(number: int) -> LinkTask:
        settings = link_settings(graph, link=link, negatives=negatives, split=split, seed=number)
        return load_link_task(settings, data_dir=data_dir)

    names, seeds = _words(models, "--models"), range(seed, seed + runs)
    check_rivals(names)
    tasks: dict[str, Callable[[int], LinkTask]] = {Path(str(graph)).stem: make}
    skipped: list[str] = []
    if graph:
        told = [str(value) for value in (checksum(graph, data_dir=data_dir), link, negatives, split)]
        out = out / hashlib.sha256("\n".join(told).encode()).hexdigest()[:6]
    else:
        tasks, skipped = link_tasks.available(data_dir, only=None if only is None else _words(only, "--only"))
    cells = {}
    for title, one in tasks.items():
        cells[title] = link_cells(one, names, seeds, out=out / title, done=partial(_tell_predictor, title))
    _emit(links_report(cells, skipped, command=_command(), seeds=seeds), markdown, as_json=as_json)


@app.command("ablation")
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
    _check_file(markdown, force=force)
    chosen = _datasets(datasets, graph, data_dir)
    from fastgtn.bench.ablation import ablation_plans, ablation_report
    from fastgtn.bench.cells import run_cells

    plans = ablation_plans(chosen, runs=runs, seed=seed)
    cells = run_cells(plans, out, data_dir=data_dir, jobs=jobs, done=_tell)
    _emit(ablation_report(cells, command=_command(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


@app.command("efficiency")
def efficiency_command(
    datasets: Datasets = None,
    graph: Graph = None,
    path_length: Annotated[int, typer.Option(help="Hops K.", min=1)] = 3,
    rounds: Annotated[int, typer.Option(help="Number of rounds; the median is reported.", min=1)] = 5,
    max_gigabytes: Annotated[float, typer.Option(help="Memory limit of the explicit graphs, in GB.")] = 4.0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder in which the results are stored.")] = Path(
        "runs/bench-efficiency"
    ),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Measure time and memory of explicit GTN, implicit GTN and FastGTN (figures 5 and 7).

    Example: fastgtn bench efficiency --datasets acm,imdb
    """
    _check_file(markdown, force=force)
    chosen = _datasets(datasets, graph, data_dir)
    from fastgtn.bench.efficiency import Sizes, efficiency_cells, efficiency_report

    sizes = Sizes(path_length=path_length, rounds=rounds, max_gigabytes=max_gigabytes)
    cells = efficiency_cells(chosen, sizes, out, data_dir=data_dir, done=_tell_measured)
    _emit(efficiency_report(cells, sizes, command=_command()), markdown, as_json=as_json)


@app.command("large")
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
    _check_file(markdown, force=force)
    from fastgtn.bench import large
    from fastgtn.bench.cells import run_cells
    from fastgtn.data.synthetic.oag import NUM_STEPS

    names = list(large.MODELS) if models is None else _models(models, non_local=True)
    plans = []
    for shape in _words(shapes, "--shapes"):
        with step_bar(NUM_STEPS) as step:
            graph = large.made_graph(shape, out / "graphs", scale=scale, seed=0, progress=step)
        plans += large.large_plans(shape, graph, names, runs=runs, seed=seed, epochs=epochs, batch_size=batch_size)
    cells = run_cells(plans, out, jobs=jobs, done=_tell)
    _emit(large.large_report(cells, command=_command(), seeds=range(seed, seed + runs)), markdown, as_json=as_json)


@app.command("exactness")
def exactness_command(
    datasets: Annotated[str, typer.Option(help="Comma-separated names of datasets.")] = "imdb,cora",
    graph: Graph = None,
    epochs: Annotated[int, typer.Option(help="Number of training epochs.", min=1)] = 50,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the figure and the numbers.")] = Path(
        "runs/bench-exactness"
    ),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare FastGTN with GTN, GCN and MixHop of the same weights (figures 4, 8 and 9).

    Example: fastgtn bench exactness
    """
    _check_file(markdown, force=force)
    chosen = _datasets(None if graph is not None else datasets, graph, data_dir)
    from fastgtn.bench.exactness import exactness_cases, exactness_report

    cases, skipped = exactness_cases(chosen, epochs=epochs, seed=seed, data_dir=data_dir)
    _emit(exactness_report(cases, skipped, out, command=_command()), markdown, as_json=as_json)


def _datasets(datasets: str | None, graph: Path | None, data_dir: Path | None) -> list[str]:
    from fastgtn.bench import paper
    from fastgtn.data.catalog import PAPER, locate

    if graph is not None and datasets is not None:
        raise InputError("--datasets and --graph cannot be combined: give dataset names or the file of your own graph.")
    if graph is not None:
        return [str(graph.resolve())]
    names = list(paper.HERE) if datasets is None else _words(datasets, "--datasets")
    for name in names:
        if name not in PAPER:  # the table marks datasets of the paper whose files are missing
            locate(name, data_dir=data_dir)
    return names


def _models(models: str | None, *, non_local: bool) -> list[str]:
    from fastgtn.bench import paper
    from fastgtn.config.tuned_configs import models as known_models

    if models is None:
        return [name for name in paper.in_order(known_models()) if non_local or name != "fast_gtn_non_local"]
    names = _words(models, "--models")
    for name in names:
        check_model(name)
    return names


def _words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} is empty: give comma-separated names (fastgtn ls lists them).")
    return words


def _check_file(path: Path | None, *, force: bool) -> None:
    if path is not None and path.suffix != ".md":
        raise InputError(f"--markdown needs a file name that ends with .md, but got {path.name}.")
    if path is not None and not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: create it first.")
    if path is not None and path.exists() and not force:
        raise InputError(f"{path} already exists: choose another name, or overwrite it with --force.")


def _emit(report: Report, markdown: Path | None, *, as_json: bool) -> None:
    from fastgtn.runs.files import write_text

    if markdown is not None:
        write_text(markdown, report.markdown())
    if as_json:
        emit_json({"command": report.command, **report.values, "notes": report.notes})
    else:
        stdout.print(report.markdown(), markup=False, end="")


def _command() -> str:
    return shlex.join(["fastgtn", *sys.argv[1:]])


def _tell(cell: Cell) -> None:
    """Print one line to stderr when a cell is finished."""
    from fastgtn.bench.cells import dataset_name
    from fastgtn.cli.progress import shown_score

    words = cell.reason
    if cell.summary:
        means = {name: values["mean"] for name, values in cell.summary["test"].items()}
        words = f"test {shown_score(means)} · {sum(run['seconds'] for run in cell.summary['runs']):.0f} s"
    stderr.print(f"{dataset_name(cell.dataset)} · {cell.model} · {words}", markup=False)


def _tell_measured(cell: dict[str, Any]) -> None:
    stderr.print(f"{cell['dataset']} · measured", markup=False)


def _tell_predictor(graph: str, cell: LinkCell) -> None:
    stderr.print(f"{graph} · {cell.title} · {cell.seconds:.0f} s", markup=False)
