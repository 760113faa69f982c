"""The page: tables and drawings in one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError
from fastgtn.insight.report.comparison import comparison
from fastgtn.insight.report.gather import report_tables
from fastgtn.insight.report.markup import Markup, el, embedded, joined
from fastgtn.insight.report.sections import run_article
from fastgtn.insight.report.tables import RunTables
from fastgtn.training.files import write_text


def write_report(
    folders: Sequence[str | Path], out: str | Path, *, nodes: int = 200, data_dir: str | Path | None = None,
    force: bool = False,
) -> tuple[RunTables, ...]:  # fmt: skip
    """Write the page about some runs; gives back its tables."""
    out = Path(out)
    check_free(out, force=force)
    tables = report_tables(folders, nodes=nodes, data_dir=data_dir)
    write_text(out, render_page(tables))
    return tables


def check_free(out: Path, *, force: bool) -> None:
    """Refuse to replace a file, or to write where there is no folder, before any work is done."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is a page, but the name is {out.name}: let it end in .html.")
    if out.is_dir() or (out.exists() and not force):
        raise InputError(f"{out} exists already: choose another name with --out, or allow overwriting with --force.")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: make it first.")


def render_page(runs: Sequence[RunTables]) -> str:
    """The whole page as text."""
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    names = dict.fromkeys(run.dataset for run in runs)
    models = dict.fromkeys(run.model for run in runs)
    parts = {
        "policy": _policy(style, script),
        "title": joined(f"{', '.join(names)} · fastgtn report"),
        "heading": joined(", ".join(names)),
        "subtitle": joined(f"What {', '.join(models)} learned"),
        "style": style,
        "switch": _switch(runs) if len(runs) > 1 else "",
        "comparison": comparison(runs) if len(runs) > 1 else "",
        "runs": joined([run_article(run, number) for number, run in enumerate(runs, 1)]),
        "data": embedded({"runs": [_looked_up(run) for run in runs]}),
        "script": script,
        "version": joined(runs[0].versions.get("fastgtn", "")),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: str(parts[match[1]]), _resource("page.html"))


def _looked_up(run: RunTables) -> dict[str, Any]:
    return {
        "title": run.title,
        "target": run.target,
        "folder": run.folder,
        "nodes": [asdict(node) for node in run.nodes],
    }


def _switch(runs: Sequence[RunTables]) -> Markup:
    choices = [
        el("label", el("input", type="radio", name="run", value=number, checked=number == 1), el("span", run.title))
        for number, run in enumerate(runs, 1)
    ]
    return el("fieldset", el("legend", "Show the run"), choices, class_="switch")


def _policy(style: str, script: str) -> str:
    """Nothing is loaded from anywhere, and no script or style runs but ours."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _resource(name: str) -> str:
    return (files("fastgtn.insight.report") / name).read_text(encoding="utf-8")
