"""HGB's protocol: node classification over several divisions of the labelled nodes, beside published scores."""

from collections.abc import Sequence
from typing import Any

from fastgtn.bench.cells import Cell, Plan, plan, reasons
from fastgtn.bench.nodes import main_metric, scored, scores_table
from fastgtn.bench.table import Report, Table
from fastgtn.data import metrics
from fastgtn.runs.summary import mean_and_std

DATASETS = ("hgb_dblp", "hgb_imdb")
MODELS = ("gcn", "rgcn", "gcnii", "hgt", "gtn", "fast_gtn")
# Micro-F1 in points, as the authors or the leaderboard of HGB print it
PUBLISHED = {
    "LMSPS": {"hgb_dblp": 95.66},
    "PSHGCN": {"hgb_dblp": 95.61},
    "RpHGNN": {"hgb_dblp": 95.55, "hgb_imdb": 69.77},
    "SeHGNN, labels as features": {"hgb_dblp": 95.42, "hgb_imdb": 69.17},
    "HINormer": {"hgb_dblp": 94.94},
    "Simple-HGN": {"hgb_dblp": 94.46, "hgb_imdb": 67.36},
}


def hgb_plans(datasets: Sequence[str], models: Sequence[str], *, runs: int, seed: int) -> list[Plan]:
    """One plan for each division: the seed also draws which fifth of the labelled nodes is the validation split."""
    divisions = range(seed, seed + runs)
    return [
        plan(dataset, model, runs=1, seed=division, extra={"split_seed": division}, tuned=False)
        for dataset in datasets
        for model in models
        for division in divisions
    ]


def over_divisions(cells: Sequence[Cell]) -> list[Cell]:
    """One cell for each model and dataset, over all divisions; it is missing if one of its divisions is."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.dataset, cell.model), []).append(cell)
    return [_one_cell(group) for group in groups.values()]


def hgb_report(cells: Sequence[Cell], *, command: str, runs: int) -> Report:
    """Micro-F1 beside the published scores, and macro-F1."""
    cells = over_divisions(cells)
    datasets = list(dict.fromkeys(cell.dataset for cell in cells))
    tables = [scores_table(cells, metrics.named(name)) for name in metrics.headline(scored(cells))]
    main = main_metric(cells)
    columns = [[_points(row.get(dataset)) for row in PUBLISHED.values()] for dataset in datasets]
    rows = [list(row) for row in zip(PUBLISHED, *columns, strict=True)]
    tables.insert(1, Table(f"Published {main.title}", ["model", *datasets], rows))
    count = "one division" if runs == 1 else f"{runs} divisions"
    deviation = "" if runs == 1 else ", mean ± sample standard deviation"
    notes = [
        f"Test scores in points with defaults over {count} of the labelled nodes{deviation}: four fifths train, one "
        "fifth chooses settings and epoch. The test nodes are HGB's.",
        "The authors of the published scores chose settings and epochs in different ways. HGB also has ACM and "
        "Freebase, whose data are not available here.",
    ]
    values = {"cells": [cell.to_json() for cell in cells], "published": PUBLISHED}
    return Report("HGB's protocol", command, tables, values, notes + reasons(cells))


def _one_cell(group: Sequence[Cell]) -> Cell:
    first = group[0]
    reason = next((cell.reason for cell in group if cell.reason), "")
    if reason:
        return Cell(first.dataset, first.model, reason=reason)
    runs = [run for cell in group for run in cell.summary["runs"]]
    summary: dict[str, Any] = {"runs": runs}
    for split in ("val", "test"):
        summary[split] = mean_and_std([run[split] for run in runs])
    return Cell(first.dataset, first.model, summary)


def _points(score: float | None) -> str:
    return "–" if score is None else f"{score:.2f}"
