"""`fastgtn predict`: predictions and embeddings of all nodes or of some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli.choose import is_link_run
from fastgtn.cli.data.build import External
from fastgtn.cli.options import AsJson, DataDir, RunFolder, RunGraph, RunSeed
from fastgtn.cli.output import emit_json, noted, say
from fastgtn.errors import InputError, check_run_folder

if TYPE_CHECKING:
    from fastgtn.runs import Result
    from fastgtn.runs.on_graph import OnGraph

TABLES = (".parquet", ".csv")  # the formats of predictions
ARRAYS = (".npz", ".parquet")  # of embeddings
LINKS = "links.csv"  # in the run folder: the table of a link model, unless --out names another
ID_FILES = (".csv", ".parquet", ".txt")


def predict_command(
    run: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The table to write: .parquet or .csv. Default, only of a link model: links.csv in the run folder.",
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(help='Score only the ids in this file: column "node" of a .csv or .parquet, or lines of a .txt.'),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the representations before the classifier's head: .npz or .parquet."),
    ] = None,
    graph: RunGraph = None,
    tables: Annotated[
        Path | None, typer.Option(metavar="graph.toml", help="New tables, which are encoded as in training.")
    ] = None,
    allow_external: External = False,
    top: Annotated[
        int, typer.Option(help="With a link model: number of new partners to write for each source.", min=1)
    ] = 10,
    seed: RunSeed = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the files if they exist.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write predictions and probabilities for all nodes of the target type, or for some.

    A link model writes the best new partners of all sources, or of some.

    Example: fastgtn predict runs/imdb-fast_gtn-0 --nodes ids.csv --out predictions.csv
    """
    if graph is not None and tables is not None:
        raise InputError("--graph and --tables cannot be combined: give a graph archive or a graph.toml file.")
    if out is None and embeddings is None:
        if not is_link_run(run):
            raise InputError("give --out for a table of predictions, or --embeddings for representations, or both.")
        out = run / LINKS
    _check_output(out, TABLES, "predictions are", force=force)
    _check_output(embeddings, ARRAYS, "embeddings are", force=force)
    _check_ids(nodes)
    check_run_folder(run)
    if is_link_run(run):
        if out is None or embeddings is not None:
            raise InputError(f"{run} is a model of links: predict writes a table of new partners with --out.")
        if tables is not None:
            raise InputError(
                f"{run} is a model of links: build an archive of the new tables with fastgtn data build {tables} "
                "--like OLD.npz --out NEW.npz, where OLD.npz is the graph of the training, and give it with --graph."
            )
        from fastgtn.cli.links.use import write_recommendations

        write_recommendations(
            run, out, nodes=nodes, top=top, seed=seed, graph=graph, data_dir=data_dir, as_json=as_json
        )
        return
    from fastgtn.runs.load import load_run

    trained = load_run(run, seed=seed, graph=graph, data_dir=data_dir)
    with noted():
        there = trained.own if tables is None else _on_tables(trained, tables, allow_external=allow_external)
        facts = {"run": str(trained.folder), **_write(trained, there, nodes, out, embeddings)}
    if as_json:
        emit_json(facts)
        return
    for path in (out, embeddings):
        if path is not None:
            say("saved", f"{path} · {facts['rows']:,} nodes of type {trained.schema.target}")


def _write(
    trained: Result, there: OnGraph, nodes: Path | None, out: Path | None, embeddings: Path | None
) -> dict[str, Any]:
    """Write what was asked for; the facts of both files."""
    from fastgtn.runs.on_graph import table_on
    from fastgtn.runs.predictions import write_table
    from fastgtn.runs.scoring.embeddings import embeddings_of
    from fastgtn.runs.scoring.node_file import read_node_file

    rows = None if nodes is None else there.names.numbers(read_node_file(nodes, there.names))
    facts: dict[str, Any] = {}
    if out is not None:
        table = table_on(there, trained.schema, rows)
        write_table(table, out)
        facts |= {"rows": table.num_rows, "columns": table.column_names, "out": str(out)}
    if embeddings is not None:
        found = embeddings_of(there, rows)
        found.save(embeddings)
        facts |= {"rows": len(found), "width": found.values.size(1), "embeddings": str(embeddings)}
    return facts


def _on_tables(trained: Result, tables: Path, *, allow_external: bool) -> OnGraph:
    from fastgtn.data.tables import build
    from fastgtn.data.tables.config import read_config

    data, task = build(tables, like=trained.schema.table_encoding(), allow_external=allow_external)
    stated = read_config(tables).task
    is_drawn = stated is not None and not isinstance(stated.split, str)
    return trained.on(
        data, None if is_drawn else task
    )  # shares drawn from other rows are not the split of the training


def _check_output(path: Path | None, formats: tuple[str, ...], what: str, *, force: bool) -> None:
    """Refuse a file that cannot be written, before torch is imported."""
    if path is None:
        return
    if path.suffix not in formats:
        raise InputError(f"{what} written as {' or '.join(formats)}, but the name is {path.name}.")
    if path.exists() and not force:
        raise InputError(f"{path} already exists: choose another name, or overwrite it with --force.")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: create it first.")


def _check_ids(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix not in ID_FILES:
        raise InputError(f"ids of nodes are read from {', '.join(ID_FILES)}, but the name is {path.name}.")
    if not path.is_file():
        raise InputError(f"the file of ids {path} does not exist.")
