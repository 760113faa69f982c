"""`fastgtn data import` and `fastgtn data build`: graphs from public files and from your own tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from torch_geometric.data import HeteroData

from fastgtn.cli.output import emit_json, say, stderr
from fastgtn.data import archive, importers, tables
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

Out = Annotated[Path, typer.Option("--out", "-o", help="The archive to write: a .npz file, or a folder.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the archive if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def import_graph(
    kind: Annotated[str, typer.Argument(help=f"Format of the files: {', '.join(importers.IMPORTERS)}.")],
    path: Annotated[Path, typer.Argument(help="The file, the folder, or the common beginning of the files.")],
    out: Out,
    types: Annotated[
        Path | None, typer.Option(help="Names of node types and relations (TOML or JSON), for gtn.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Bring in a graph from the files of the field: GTN, GAug, Planetoid, MATLAB, GraphSAGE, HGB, PyG."""
    check_free(out, force)
    graph, task = importers.import_graph(kind, path, types=types)
    archive.write(out, graph, task, meta={"importer": kind}, overwrite=force)
    report(graph, task, out, as_json)


def build_graph(
    config: Annotated[Path, typer.Argument(metavar="graph.toml", help="Which tables make the graph.")],
    out: Out,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Build a graph from your own tables: CSV, Parquet, SQL, SQLite."""
    check_free(out, force)
    with step_bar(tables.num_steps(config) + 1) as step:
        graph, task = tables.build(config, progress=step)
        step(out.name)
        archive.write(out, graph, task, meta=graph.meta, overwrite=force)
    report(graph, task, out, as_json)


def check_free(out: Path, force: bool) -> None:
    """Refuse an existing output at once, not after minutes of reading."""
    if out.exists() and not force:
        raise InputError(f"{out} exists already: choose another name, or allow overwriting (--force).")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: make it first.")


@contextmanager
def step_bar(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar of named steps on stderr, on a terminal only."""
    layout = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*layout, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        yield step


def report(graph: HeteroData, task: NodeTask | None, out: Path, as_json: bool) -> None:
    """Say what was written, and what to do next."""
    nodes = {t: int(graph[t].num_nodes) for t in graph.node_types}
    edges: dict[str, int] = {name: int(graph[s, name, t].edge_index.size(1)) for s, name, t in graph.edge_types}
    if as_json:
        emit_json({"archive": str(out), "name": graph.name, "nodes": nodes, "edges": edges, "task": _task(task)})
        return
    say("graph", f"{graph.name} · {sum(nodes.values()):,} nodes · {sum(edges.values()):,} edges")
    say("nodes", " · ".join(f"{name} {count:,}" for name, count in nodes.items()))
    say("edges", " · ".join(f"{name} {count:,}" for name, count in edges.items()))
    if task is not None:
        sizes = f"train {len(task.train)} · val {len(task.val)} · test {len(task.test_nodes)}"
        say("task", f"{task.num_classes} classes of {task.target} · {sizes}")
    say("saved", f"{out}    next: fastgtn data check {out}")


def _task(task: NodeTask | None) -> dict[str, Any] | None:
    if task is None:
        return None
    sizes = {"train": len(task.train), "val": len(task.val), "test": len(task.test_nodes)}
    return {"target": task.target, "kind": task.kind, "classes": list(task.class_names), **sizes}
