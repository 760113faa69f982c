"""`fastgtn bench efficiency` and `exactness`: time, memory, and equality of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli.bench.options import Datasets, Force, Graph, Markdown, Seed, chosen_datasets
from fastgtn.cli.bench.output import check_file, command_line, emit, tell_measured
from fastgtn.cli.options import AsJson, DataDir


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
    check_file(markdown, force=force)
    chosen = chosen_datasets(datasets, graph, data_dir)
    from fastgtn.bench.efficiency import Sizes, efficiency_cells, efficiency_report

    sizes = Sizes(path_length=path_length, rounds=rounds, max_gigabytes=max_gigabytes)
    cells = efficiency_cells(chosen, sizes, out, data_dir=data_dir, done=tell_measured)
    emit(efficiency_report(cells, sizes, command=command_line()), markdown, as_json=as_json)


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
    check_file(markdown, force=force)
    chosen = chosen_datasets(None if graph is not None else datasets, graph, data_dir)
    from fastgtn.bench.exactness import exactness_cases, exactness_report

    cases, skipped = exactness_cases(chosen, epochs=epochs, seed=seed, data_dir=data_dir)
    emit(exactness_report(cases, skipped, out, command=command_line()), markdown, as_json=as_json)
