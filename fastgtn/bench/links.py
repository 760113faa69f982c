"""Link prediction: the joined meta-paths compared with simple and published predictors on one graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastgtn.bench.table import Report, Table, bold_best, spread
from fastgtn.config.models import title_of as title_of_model
from fastgtn.config.tuned_configs import models
from fastgtn.data.metrics import title_of
from fastgtn.errors import InputError, nearest
from fastgtn.links import LinkTask, fit_links
from fastgtn.links.learned.result import fit_encoders
from fastgtn.links.rivals import RIVALS
from fastgtn.runs.files import read_json, write_json

OURS, OURS_TITLE = "joined_paths", "joined meta-paths"
METRICS = ("roc_auc", "average_precision", "mrr", "recall@20", "ndcg@20")
Make = Callable[[int], LinkTask]  # the task of a seed
Predict = Callable[[LinkTask, int], dict[str, float]]  # the test scores of a task with a seed


@dataclass(frozen=True)
class LinkCell:
    """One predictor on one graph: the test scores of each seed, and the processor seconds of a seed."""

    title: str
    scores: list[dict[str, float]]
    seconds: float

    def spread(self, metric: str) -> dict[str, float]:
        values = [scores[metric] for scores in self.scores]
        return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}


def check_rivals(names: Sequence[str]) -> None:
    """Refuse a predictor that does not exist."""
    for name in names:
        if name not in RIVALS and name not in models():
            raise InputError(f'no link predictor "{name}"; {nearest(name, [*RIVALS, *models()])}')


def link_cells(
    make: Make,
    names: Sequence[str],
    seeds: range,
    *,
    out: Path | None = None,
    done: Callable[[LinkCell], None] | None = None,
) -> list[LinkCell]:
    """Train ours and the named rivals with every seed; each chooses on validation and scores the test once.

    Args:
        out: The folder of this graph. A seed that is stored there is not trained again.
    """
    check_rivals(names)
    cells = []
    predictors = {OURS: (OURS_TITLE, _ours), **{name: _predictor(name) for name in names}}
    for name, (title, predict) in predictors.items():
        runs = [_run(make, predict, seed, None if out is None else out / f"{name}-{seed}.json") for seed in seeds]
        seconds = statistics.fmean(run["seconds"] for run in runs)
        cells.append(LinkCell(title, [run["test"] for run in runs], seconds))
        if done is not None:
            done(cells[-1])
    return cells


def _run(make: Make, predict: Predict, seed: int, path: Path | None) -> dict[str, Any]:
    """The test scores and the processor seconds of one seed, from its file if there is one."""
    if path is not None and path.exists():
        return read_json(path)
    task, started = make(seed), time.process_time()
    run = {"seed": seed, "test": predict(task, seed), "seconds": time.process_time() - started}
    if path is not None:
        write_json(path, run)
    return run


def links_report(
    cells: Mapping[str, Sequence[LinkCell]], notes: Sequence[str] = (), *, command: str, seeds: range
) -> Report:
    """A table per graph, with a row per predictor; the best of each column is in bold.

    Args:
        cells: The predictors of each graph.
    """
    tables = [_table(name, rows) for name, rows in cells.items()]
    values = {
        name: {cell.title: {metric: cell.spread(metric) for metric in cell.scores[0]} for cell in rows}
        for name, rows in cells.items()
    }
    return Report("Link prediction", command, tables, {"seeds": list(seeds), "test": values}, list(notes))


def _table(name: str, cells: Sequence[LinkCell]) -> Table:
    shown = [m for m in METRICS if all(m in scores for cell in cells for scores in cell.scores)]
    columns = []
    for metric in shown:
        found = [cell.spread(metric) for cell in cells]
        texts = [spread(one, 1, seeds=len(cell.scores)) for one, cell in zip(found, cells, strict=True)]
        columns.append(bold_best(texts, [one["mean"] for one in found]))
    rows = [
        [cell.title, *(column[number] for column in columns), f"{cell.seconds:.0f} s"]
        for number, cell in enumerate(cells)
    ]
    return Table(f"Links of {name}, test, in points", ["", *map(title_of, shown), "processor time"], rows)


def _predictor(name: str) -> tuple[str, Predict]:
    if name in RIVALS:
        return RIVALS[name][0], partial(_rival, name)
    return f"{title_of_model(name)} encoders", partial(_encoders, name)


def _encoders(name: str, task: LinkTask, seed: int) -> dict[str, float]:
    return fit_encoders(task, name, seed=seed).test


def _rival(name: str, task: LinkTask, seed: int) -> dict[str, float]:
    return RIVALS[name][1](task, seed).evaluate(task, "test")


def _ours(task: LinkTask, seed: int) -> dict[str, float]:
    return fit_links(task, seed=seed).test
