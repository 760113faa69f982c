"""`fastgtn data import` and `fastgtn data build`: graphs from public files and from your own tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli.options import AsJson
from fastgtn.cli.output import emit_json, emit_table, noted, say, stderr
from fastgtn.data.importers import FORMATS
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from fastgtn.data.tables import Encoding
    from fastgtn.data.task import NodeTask

Out = Annotated[Path, typer.Option("--out", "-o", help="The archive to write: a .npz file or a folder.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the archive if it exists.")]
External = Annotated[bool, typer.Option("--allow-external", help="Also read files outside the folder of graph.toml.")]


def import_graph(
    kind: Annotated[str, typer.Argument(help=f"Format of the files: {', '.join(FORMATS)}.")],
    path: Annotated[Path, typer.Argument(help="The file, the folder, or the common prefix of the files.")],
    out: Out,
    types: Annotated[
        Path | None, typer.Option(help="File with the names of node types and relations (TOML or JSON), for gtn.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Import a graph from public files: GTN, GAug, Planetoid, MATLAB, GraphSAGE, HGB or PyG."""
    check_free(out, force)
    from fastgtn.data import archive, importers

    with noted():
        graph, task = importers.import_graph(kind, path, types=types)
    archive.write(out, graph, task, meta={"importer": kind, **(graph.meta if "meta" in graph else {})}, overwrite=force)
    report(graph, task, out, as_json)


def build_graph(
    config: Annotated[Path, typer.Argument(metavar="graph.toml", help="The file that describes your tables.")],
    out: Out,
    like: Annotated[
        Path | None, typer.Option(metavar="RUN_OR_ARCHIVE", help="Encode the columns as in this run or archive.")
    ] = None,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="Write the inferred kinds of the columns into graph.toml.")
    ] = False,
    force: Force = False,
    allow_external: External = False,
    as_json: AsJson = False,
) -> None:
    """Build a graph from your own tables: CSV, Parquet, SQL or SQLite.

    Example: fastgtn data build new.toml --like runs/shops-fast_gtn-0 --out new.npz
    """
    check_free(out, force)
    if kinds and like is not None:
        raise InputError("--kinds and --like cannot be combined: with --like no kind is inferred.")
    from fastgtn.data import archive, tables

    known = None if like is None else stored_encoding(like)
    with noted(), step_bar(tables.num_steps(config) + 1) as step:
        graph, task = tables.build(config, like=known, progress=step, allow_external=allow_external)
        step(out.name)
        archive.write(out, graph, task, meta=graph.meta, overwrite=force)
    report(graph, task, out, as_json)
    if kinds:
        from fastgtn.data.tables.encoders.stated import state_kinds

        count = state_kinds(config, tables.Encoding.from_json(graph.encoding, where=graph.name))
        if not as_json:
            say("kinds", f"the kinds of {count} columns are now in {config}: edit them and build again")


def stored_encoding(path: Path) -> Encoding:
    """The encoding that was fitted on the tables of a run or of a graph archive."""
    from fastgtn.data import archive, tables
    from fastgtn.runs.load import load_run

    if path.is_dir() and not (path / "num_nodes.npy").exists():
        return load_run(path).schema.table_encoding()
    return tables.Encoding.from_json(archive.read_encoding(path), where=str(path))


def check_free(out: Path, force: bool) -> None:
    """Refuse an existing output before any time is spent on reading."""
    if out.exists() and not force:
        raise InputError(f"{out} already exists: choose another name, or overwrite it with --force.")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: create it first.")


@contextmanager
def step_bar(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar with named steps on stderr, shown on a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    layout = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*layout, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        yield step


def report(graph: HeteroData, task: NodeTask | None, out: Path, as_json: bool) -> None:
    """Print what was written and the next step."""
    nodes = {t: int(graph[t].num_nodes) for t in graph.node_types}
    edges: dict[str, int] = {name: int(graph[s, name, t].edge_index.size(1)) for s, name, t in graph.edge_types}
    if as_json:
        emit_json({"archive": str(out), "name": graph.name, "nodes": nodes, "edges": edges, "task": _task(task)})
        return
    say("graph", f"{graph.name} · {sum(nodes.values()):,} nodes · {sum(edges.values()):,} edges")
    if "encoding" in graph:
        emit_kinds(graph)
    say("nodes", " · ".join(f"{name} {count:,}" for name, count in nodes.items()))
    say("edges", " · ".join(f"{name} {count:,}" for name, count in edges.items()))
    if task is not None:
        sizes = f"train {len(task.train)} · val {len(task.val)} · test {len(task.test_nodes)}"
        words = f"{task.num_classes} classes" if task.kind != "number" else f"number {', '.join(task.class_names)}"
        say("task", f"{words} of {task.target} · {sizes}")
    say("saved", f"{out}    next: fastgtn data check {out}")


def emit_kinds(graph: HeteroData) -> None:
    """The table of all feature columns: their kind, why, how many values are missing, and how wide they become."""
    from rich.table import Table
    from rich.text import Text

    from fastgtn.data.tables import Encoding

    encoding = Encoding.from_json(graph.encoding, where=graph.name)
    table = Table("column", "kind", "why", box=None, header_style="bold")
    for title in ("missing", "width"):
        table.add_column(title, justify="right")
    for node_type, each in encoding.nodes.items():
        for column in each.columns:
            words = (f"{node_type}.{column.column}", column.encoder.kind, column.why)
            table.add_row(*map(Text, words), f"{column.missing:,}", f"{len(column.names):,}")
    if table.row_count:
        emit_table(table)


def _task(task: NodeTask | None) -> dict[str, Any] | None:
    if task is None:
        return None
    sizes = {"train": len(task.train), "val": len(task.val), "test": len(task.test_nodes)}
    return {"target": task.target, "kind": task.kind, "classes": list(task.class_names), **sizes}
