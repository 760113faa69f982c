"""Node classification: every model on every dataset (the paper's tables 3 and 4), and tests of the differences."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from fastgtn.bench import paper
from fastgtn.bench.cells import Cell, dataset_name, reasons
from fastgtn.bench.paper import title_of
from fastgtn.bench.table import Report, Table, bold_best, meaning, spread
from fastgtn.data import metrics

SURE = 0.05  # a difference with a larger p-value is called level


def nodes_report(cells: Sequence[Cell], *, command: str, seeds: Sequence[int]) -> Report:
    """The tables of all cells without corrected class frequencies, and one table of the corrected scores."""
    shifted = [cell for cell in cells if cell.is_shifted]
    cells = [cell.before_shift() for cell in cells]
    shown = metrics.headline({main_metric(cells).name, *scored(cells)})
    compared = [one for dataset in _datasets(cells) if (one := compare([c for c in cells if c.dataset == dataset]))]
    tables = [scores_table(cells, metrics.named(name)) for name in shown]
    if compared:
        tables.append(_comparison(compared))
    if shifted:
        main = main_metric(shifted)
        tables.append(replace(scores_table(shifted, main), title=f"{main.title} with corrected class frequencies"))
    numbers = {f"{c.dataset}/{c.model}": paper.MICRO_F1.get((c.dataset, c.model)) for c in cells}
    slash = ", and the paper's number follows the slash" if any(numbers.values()) else ""
    notes = [
        f"{meaning(seeds)}; the best of a dataset is bold{slash}. Epochs and configs were chosen on validation scores."
    ]
    if any(cell.dataset in paper.HERE for cell in cells):
        notes.append(f"The paper also has {', '.join(paper.ABSENT)}, whose data are not available in the paper's form.")
    values = {
        "seeds": list(seeds),
        "cells": [cell.to_json() for cell in cells],
        "with_label_shift": [cell.to_json() for cell in shifted],
        "comparisons": compared,
        "paper": numbers,
    }
    return Report("Node classification", command, tables, values, notes + reasons(cells))


def compare(cells: Sequence[Cell]) -> dict[str, Any] | None:
    """Our best model on one dataset against the best baseline, seed by seed.

    Ours is chosen by its validation score; the baseline by its test score, so that it is the strongest opponent.
    """
    metric = main_metric(cells)
    mine = [cell for cell in cells if cell.summary and cell.model in paper.OURS]
    others = [cell for cell in cells if cell.summary and cell.model not in paper.OURS]
    if not mine or not others:
        return None
    ours = max(mine, key=lambda cell: metric.goodness(cell.summary["val"][metric.name]["mean"]))
    other = max(others, key=lambda cell: metric.goodness(cell.summary["test"][metric.name]["mean"]))
    first, second = np.array(ours.scores(metric.name)), np.array(other.scores(metric.name))
    result = {"dataset": dataset_name(ours.dataset), "metric": metric.name, "ours": ours.model, "baseline": other.model}
    return result | paired(first, second)


def paired(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> dict[str, float | None]:
    """Mean difference of paired scores, and the p values of the t test and of Wilcoxon's signed ranks."""
    differences = first - second
    t_test = wilcoxon = None
    if len(differences) > 1 and np.ptp(differences) > 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few seeds, or ties: the p value is then from the normal distribution
            t_test = float(stats.ttest_rel(first, second).pvalue)
            wilcoxon = float(stats.wilcoxon(differences).pvalue)
    return {"difference": float(differences.mean()), "p_t_test": t_test, "p_wilcoxon": wilcoxon}


def main_metric(cells: Sequence[Cell]) -> metrics.Metric:
    """The metric by which these cells are compared."""
    return metrics.main_metric(scored(cells)) or metrics.named("micro_f1")


def scored(cells: Sequence[Cell]) -> set[str]:
    """The names of all metrics that some cell has."""
    return {name for cell in cells if cell.summary for name in cell.summary["test"]}


def _datasets(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.dataset for cell in cells))


def scores_table(cells: Sequence[Cell], metric: metrics.Metric) -> Table:
    """Test scores by one metric: a row for each model, a column for each dataset."""
    datasets, models = _datasets(cells), list(dict.fromkeys(cell.model for cell in cells))
    place = {(cell.dataset, cell.model): cell for cell in cells}
    columns = []
    for dataset in datasets:
        found = [place.get((dataset, model)) for model in models]
        tests = [None if cell is None else cell.test(metric.name) for cell in found]
        means = [None if test is None else metric.goodness(test["mean"]) for test in tests]
        runs = [0 if cell is None or not cell.summary else len(cell.summary["runs"]) for cell in found]
        texts = bold_best([spread(test, seeds=n) for test, n in zip(tests, runs, strict=True)], means)
        if metric.name == "micro_f1":
            numbers = [paper.MICRO_F1.get((dataset, model)) for model in models]
            texts = [t if n is None else f"{t} / {n:.2f}" for t, n in zip(texts, numbers, strict=True)]
        columns.append(texts)
    rows = [[title_of(model), *(column[n] for column in columns)] for n, model in enumerate(models)]
    return Table(metric.title, ["model", *(dataset_name(d) for d in datasets)], rows)


def _comparison(compared: Sequence[dict[str, Any]]) -> Table:
    header = ["dataset", "ours", "best baseline", "difference", "p, paired t test", "p, Wilcoxon", "outcome"]
    rows = []
    for one in compared:
        p_values = ["–" if one[p] is None else f"{one[p]:.3f}" for p in ("p_t_test", "p_wilcoxon")]
        names = [title_of(one["ours"]), title_of(one["baseline"])]
        rows.append([one["dataset"], *names, f"{100 * one['difference']:+z.2f}", *p_values, _outcome(one, *names)])
    return Table("Our model of the best validation score against the best baseline", header, rows)


def _outcome(one: dict[str, Any], ours: str, baseline: str) -> str:
    """Who wins, in words."""
    if one["p_t_test"] is None:
        return "not tested"
    if one["p_t_test"] > SURE:
        return "level"
    return f"{ours if one['difference'] > 0 else baseline} is better"
