"""Node classification: every model on every dataset (the paper's tables 3 and 4), and how sure the best one is."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from fastgtn.bench import paper
from fastgtn.bench.cells import Cell, dataset_name, reasons
from fastgtn.bench.table import Report, Table, bold_best, spread
from fastgtn.training.model_titles import title_of

METRICS = {"micro_f1": "micro-F1", "macro_f1": "macro-F1"}
RANKING = {"ndcg": "NDCG", "mrr": "MRR"}


def nodes_report(cells: Sequence[Cell], *, command: str, seeds: Sequence[int]) -> Report:
    """The tables of all cells."""
    metrics = RANKING if main_metric(cells) == "ndcg" else METRICS
    compared = [one for dataset in _datasets(cells) if (one := compare([c for c in cells if c.dataset == dataset]))]
    tables = [_scores(cells, metric) for metric in metrics]
    if compared:
        tables.append(_comparison(compared))
    listed = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} … {seeds[-1]}"
    notes = [
        f"Test scores in points, mean ± sample standard deviation of the seeds {listed}; the best of a dataset in "
        "bold; after the stroke the paper's number. Epochs and configs were chosen on validation scores."
    ]
    if any(cell.dataset in paper.HERE for cell in cells):
        notes.append(f"The paper also has {', '.join(paper.ABSENT)}, whose data are not to be had in the paper's form.")
    values = {
        "seeds": list(seeds), "cells": [cell.to_json() for cell in cells], "comparisons": compared,
        "paper": {f"{c.dataset}/{c.model}": paper.MICRO_F1.get((c.dataset, c.model)) for c in cells},
    }  # fmt: skip
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
    ours = max(mine, key=lambda cell: cell.summary["val"][metric]["mean"])
    other = max(others, key=lambda cell: cell.summary["test"][metric]["mean"])
    first, second = np.array(ours.scores(metric)), np.array(other.scores(metric))
    result = {"dataset": dataset_name(ours.dataset), "metric": metric, "ours": ours.model, "baseline": other.model}
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


def main_metric(cells: Sequence[Cell]) -> str:
    return "ndcg" if any(cell.test("ndcg") for cell in cells) else "micro_f1"


def _datasets(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.dataset for cell in cells))


def _scores(cells: Sequence[Cell], metric: str) -> Table:
    datasets, models = _datasets(cells), list(dict.fromkeys(cell.model for cell in cells))
    place = {(cell.dataset, cell.model): cell for cell in cells}
    columns = []
    for dataset in datasets:
        found = [place.get((dataset, model)) for model in models]
        tests = [None if cell is None else cell.test(metric) for cell in found]
        texts = bold_best([spread(test) for test in tests], [None if test is None else test["mean"] for test in tests])
        if metric == "micro_f1":
            numbers = [paper.MICRO_F1.get((dataset, model)) for model in models]
            texts = [t if n is None else f"{t} / {n:.2f}" for t, n in zip(texts, numbers, strict=True)]
        columns.append(texts)
    rows = [[title_of(model), *(column[n] for column in columns)] for n, model in enumerate(models)]
    return Table((METRICS | RANKING)[metric], ["model", *(dataset_name(d) for d in datasets)], rows)


def _comparison(compared: Sequence[dict[str, Any]]) -> Table:
    header = ["dataset", "ours", "best baseline", "difference", "p, paired t test", "p, Wilcoxon"]
    rows = []
    for one in compared:
        p_values = ["–" if one[p] is None else f"{one[p]:.3f}" for p in ("p_t_test", "p_wilcoxon")]
        names = [title_of(one["ours"]), title_of(one["baseline"])]
        rows.append([one["dataset"], *names, f"{100 * one['difference']:+.2f}", *p_values])
    return Table("Our model of the best validation score against the best baseline", header, rows)
