"""The page: tables and drawings in one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError
from fastgtn.report.comparison import comparison
from fastgtn.report.gather import report_tables
from fastgtn.report.markup import Markup, el, embedded, joined
from fastgtn.report.sections import run_article
from fastgtn.report.tables import RunTables
from fastgtn.runs.files import write_text
from fastgtn.runs.result import Result


def write_report(
    runs: Sequence[str | Path | Result],
    out: str | Path,
    *,
    nodes: int = 200,
    graph: str | Path | None = None,
    data_dir: str | Path | None = None,
    force: bool = False,
) -> tuple[RunTables, ...]:
    """Write the page about some runs; returns its tables.

    Args:
        runs: Results, run folders, or folders of single seeds.
        nodes: How many nodes can be looked up, over all runs.
        graph: Use this graph for the runs of the folders instead of those that they were trained on.
    """
    out = Path(out)
    check_free(out, force=force)
    tables = report_tables(runs, nodes=nodes, graph=graph, data_dir=data_dir)
    write_text(out, render_page(tables))
    return tables


def check_free(out: Path, *, force: bool) -> None:
    """Refuse to overwrite a file, or to write into a missing folder, before any work is done."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is an HTML page, but the name is {out.name}: use a name that ends in .html.")
    if out.is_dir() or (out.exists() and not force):
        raise InputError(f"{out} already exists: choose another name with --out, or overwrite it with --force.")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: create it first.")


def render_page(runs: Sequence[RunTables]) -> str:
    """The whole page as text."""
    names = dict.fromkeys(run.dataset for run in runs)
    models = dict.fromkeys(run.model for run in runs)
    parts = {
        "switch": _switch(runs) if len(runs) > 1 else "",
        "comparison": comparison(runs) if len(runs) > 1 else "",
        "runs": joined([run_article(run, number) for number, run in enumerate(runs, 1)]),
        "data": embedded({"runs": [_looked_up(run) for run in runs]}),
    }
    version = runs[0].versions.get("fastgtn", "")
    return fill(
        ", ".join(names), f"What {', '.join(models)} learned", parts, script=_resource("page.js"), version=version
    )


def fill(heading: str, subtitle: str, parts: Mapping[str, str], *, script: str = "", version: str = "") -> str:
    """The page around some parts: "runs" is the body; what is not given stays empty."""
    style = _resource("page.css")
    frame = {
        "policy": _policy(style, script),
        "title": joined(f"{heading} · fastgtn report"),
        "heading": joined(heading),
        "subtitle": joined(subtitle),
        "date": joined(f"{(now := datetime.now(UTC)).day} {now:%B %Y}"),
        "style": style,
        "script": script,
        "version": joined(version),
    }
    every = {"switch": "", "comparison": "", "data": "{}"} | frame | dict(parts)
    return re.sub(r"\{\{(\w+)\}\}", lambda match: str(every[match[1]]), _resource("page.html"))


def _looked_up(run: RunTables) -> dict[str, Any]:
    return {
        "title": run.title,
        "target": run.target,
        "ask": run.ask,
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
    return (files("fastgtn.report") / name).read_text(encoding="utf-8")
