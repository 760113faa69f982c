"""`fastgtn data`: list, inspect, check, import, build and generate graphs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fastgtn.cli import complete
from fastgtn.cli.data import make as data_make
from fastgtn.cli.data.build import build_graph, import_graph
from fastgtn.cli.options import AsJson, DataDir
from fastgtn.cli.output import emit_json, emit_table, say
from fastgtn.data import catalog
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.data.checks.finding import Finding
    from fastgtn.data.describe import GraphInfo

app = typer.Typer(help="List, inspect, check, import, build and generate graphs.", no_args_is_help=True)
app.command("import")(import_graph)
app.command("build")(build_graph)
app.add_typer(data_make.app, name="make")

Name = Annotated[
    str,
    typer.Argument(
        help='A name that "fastgtn data ls" lists, or the path of an archive.', autocompletion=complete.datasets
    ),
]
COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@app.command("ls")
def list_graphs(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the available graphs beside the statistics of the paper."""
    from fastgtn.data.describe import describe

    rows, unreadable = [], []
    for name in [catalog.BUILT_IN, *catalog.available(data_dir)]:
        try:
            rows.append((name, describe(*catalog.load_labels(name, data_dir=data_dir))))
        except InputError as error:
            unreadable.append((name, str(error)))
    missing = sorted(catalog.PAPER.keys() - {name for name, _ in rows} - {name for name, _ in unreadable})
    if as_json:
        emit_json(
            {
                "data_dir": str(catalog.data_folder(data_dir)),
                "graphs": {name: info.as_json() | {"paper": _paper_json(name)} for name, info in rows},
                "unreadable": dict(unreadable),
                "missing": {name: _paper_json(name) for name in missing},
            }
        )
        return
    table = Table("graph", box=None, header_style="bold")
    for column in ("nodes", "edges", "features", "classes", "train/val/test"):
        table.add_column(column, justify="right")
    table.add_column("in the paper")
    for name, info in rows:
        table.add_row(Text(name), *_counts(info), _difference(name, info))
    for name in missing:
        paper = catalog.PAPER[name]
        splits = f"{paper.train}/{paper.val}/{paper.test}"
        numbers = [f"{n:,}" for n in (paper.nodes, paper.edges, paper.features, paper.classes)]
        table.add_row(name, *numbers, splits, "not here", style="dim")
    emit_table(table)
    for name, message in unreadable:
        say("damaged", f"{name}: {message}")
    say("folder", f"{catalog.data_folder(data_dir)}    next: fastgtn data info NAME")


@app.command()
def info(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the node types, relations, degrees, features, split and classes of a graph."""
    path = catalog.locate(name, data_dir=data_dir)
    from fastgtn.data.archive.arrays import naming
    from fastgtn.data.describe import describe

    graph, labels = catalog.load_labels(name, data_dir=data_dir)
    with naming(path or name):
        found = describe(graph, labels)
    planted = getattr(graph, "planted", None)
    if as_json:
        checksum = catalog.checksum(name, data_dir=data_dir)
        emit_json(found.as_json() | {"paper": _paper_json(name), "planted": planted, "checksum": checksum})
        return
    kind = "homogeneous" if found.homogeneous else f"{len(found.node_types)} node types"
    say("graph", f"{found.name} · {found.nodes:,} nodes · {found.edges:,} edges · {kind}")
    if planted is not None:
        say("planted", f"labels follow the meta-path {planted.get('path')}")
    if found.target is not None:
        words = "numbers" if found.kind == "number" else "classes"
        say("task", f"{found.kind} label of {found.target} · {found.classes} {words} · {_split(found)}")
    emit_table(_type_table(found))
    emit_table(_relation_table(found))
    if found.class_counts:
        emit_table(_class_table(found))
    say("next", f"fastgtn data check {name}")


@app.command()
def check(
    name: Name,
    path_length: Annotated[
        int, typer.Option(min=1, help="Length of the longest meta-path that you want to learn.")
    ] = 4,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Look for mistakes such as duplicate ids, bad splits and label leakage. Errors give exit code 1."""
    path = catalog.locate(name, data_dir=data_dir)
    if path is not None and not path.exists():
        raise InputError(f"no graph archive at {path}: give a .npz file or a folder of .npy files.")
    from fastgtn.data.checks import check_archive, check_graph

    if path is None:
        findings = check_graph(*catalog.load_labels(name), path_length=path_length)
    else:
        findings = check_archive(path, path_length=path_length)
    if as_json:
        emit_json({"graph": name, "findings": [finding.as_json() for finding in findings]})
    else:
        _show(name, findings)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)


def _show(name: str, findings: list[Finding]) -> None:
    table = Table("severity", "check", "finding and remedy", box=None, header_style="bold", padding=(0, 1, 1, 0))
    for finding in findings:
        text = Text(finding.message).append(f"\n→ {finding.advice}", style="dim")
        table.add_row(Text(finding.severity, COLOURS[finding.severity]), finding.check, text)
    if findings:
        emit_table(table, folds=True)
    counts = {s: sum(finding.severity == s for finding in findings) for s in COLOURS}
    say("checked", f"{name} · errors {counts['error']} · warnings {counts['warning']} · notes {counts['note']}")


def _paper_json(name: str) -> dict[str, Any] | None:
    return asdict(catalog.PAPER[name]) if name in catalog.PAPER else None


def _counts(info: GraphInfo) -> list[str]:
    widths = sorted({str(each.features) for each in info.node_types.values() if each.features})
    features = f"{info.features} ({info.density:.4f})" if info.features else "/".join(widths) or "none"
    classes = "–" if info.classes is None else str(info.classes) + (" multi" if info.kind == "multi" else "")
    return [f"{info.nodes:,}", f"{info.edges:,}", features, classes, _split(info) if info.target else "–"]


def _split(info: GraphInfo) -> str:
    return "/".join("–" if size is None else str(size) for size in (info.train, info.val, info.test))


def _difference(name: str, info: GraphInfo) -> str:
    """ "same", or the different number of the paper."""
    paper = _paper_json(name)
    if paper is None:
        return "–"
    measured = info.as_json()
    return ", ".join(f"{key} {value:,}" for key, value in paper.items() if measured[key] != value) or "same"


def _type_table(info: GraphInfo) -> Table:
    table = Table("node type", box=None, header_style="bold")
    for column in ("nodes", "features", "density", "layout", "isolated"):
        table.add_column(column, justify="right")
    for name, each in info.node_types.items():
        width, density = (f"{each.features:,}", f"{each.density:.4f}") if each.features else ("–", "–")
        table.add_row(Text(name), f"{each.nodes:,}", width, density, each.layout, f"{each.isolated:,}")
    return table


def _relation_table(info: GraphInfo) -> Table:
    table = Table("relation", "from → to", box=None, header_style="bold")
    for column in ("edges", "mean degree", "max degree", "without", "weights"):
        table.add_column(column, justify="right")
    for name, each in info.relations.items():
        degrees = (f"{each.mean_degree:.2f}", f"{each.max_degree:,}", f"{each.without_edges:,}")
        ends = Text(f"{each.source} → {each.target}")
        table.add_row(Text(name), ends, f"{each.edges:,}", *degrees, "yes" if each.weighted else "no")
    return table


def _class_table(info: GraphInfo, most: int = 20) -> Table:
    table = Table("class", box=None, header_style="bold")
    for column in ("train", "val"):
        table.add_column(column, justify="right")
    for name, counts in list(info.class_counts.items())[:most]:
        table.add_row(Text(name), *(f"{counts[split]:,}" if split in counts else "–" for split in ("train", "val")))
    if len(info.class_counts) > most:
        table.add_row(f"… {len(info.class_counts) - most:,} more", "", "", style="dim")
    return table
