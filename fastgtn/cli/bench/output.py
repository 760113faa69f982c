"""What a benchmark prints: a line per finished cell on stderr, and its tables as Markdown or JSON."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastgtn.cli.output import emit_json, stderr, stdout
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.bench.cells import Cell
    from fastgtn.bench.links import LinkCell
    from fastgtn.bench.table import Report


def check_file(path: Path | None, *, force: bool) -> None:
    if path is not None and path.suffix != ".md":
        raise InputError(f"--markdown needs a file name that ends with .md, but got {path.name}.")
    if path is not None and not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: create it first.")
    if path is not None and path.exists() and not force:
        raise InputError(f"{path} already exists: choose another name, or overwrite it with --force.")


def emit(report: Report, markdown: Path | None, *, as_json: bool) -> None:
    from fastgtn.runs.files import write_text

    if markdown is not None:
        write_text(markdown, report.markdown())
    if as_json:
        emit_json({"command": report.command, **report.values, "notes": report.notes})
    else:
        stdout.print(report.markdown(), markup=False, end="")


def command_line() -> str:
    return shlex.join(["fastgtn", *sys.argv[1:]])


def tell(cell: Cell) -> None:
    """Print one line to stderr when a cell is finished."""
    from fastgtn.bench.cells import dataset_name
    from fastgtn.cli.progress.training import shown_score

    words = cell.reason
    if cell.summary:
        means = {name: values["mean"] for name, values in cell.summary["test"].items()}
        words = f"test {shown_score(means)} · {sum(run['seconds'] for run in cell.summary['runs']):.0f} s"
    stderr.print(f"{dataset_name(cell.dataset)} · {cell.model} · {words}", markup=False)


def tell_measured(cell: dict[str, Any]) -> None:
    stderr.print(f"{cell['dataset']} · measured", markup=False)


def tell_predictor(graph: str, cell: LinkCell) -> None:
    stderr.print(f"{graph} · {cell.title} · {cell.seconds:.0f} s", markup=False)
