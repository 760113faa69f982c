"""Options of the benchmarks, and the datasets and models that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli import complete
from fastgtn.cli.choose import check_model
from fastgtn.errors import InputError

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


def chosen_datasets(datasets: str | None, graph: Path | None, data_dir: Path | None) -> list[str]:
    from fastgtn.bench import paper
    from fastgtn.data.catalog import PAPER, locate

    if graph is not None and datasets is not None:
        raise InputError("--datasets and --graph cannot be combined: give dataset names or the file of your own graph.")
    if graph is not None:
        return [str(graph.resolve())]
    names = list(paper.HERE) if datasets is None else names_of(datasets, "--datasets")
    for name in names:
        if name not in PAPER:  # the table marks datasets of the paper whose files are missing
            locate(name, data_dir=data_dir)
    return names


def chosen_models(models: str | None, *, non_local: bool) -> list[str]:
    from fastgtn.bench import paper
    from fastgtn.config.tuned_configs import models as known_models

    if models is None:
        return [name for name in paper.in_order(known_models()) if non_local or name != "fast_gtn_non_local"]
    names = names_of(models, "--models")
    for name in names:
        check_model(name)
    return names


def names_of(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} is empty: give comma-separated names (fastgtn ls lists them).")
    return words
