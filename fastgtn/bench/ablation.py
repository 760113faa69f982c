"""The effect of the identity and of the non-local relation (the paper's tables 3, 4 and 6)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastgtn.bench import paper
from fastgtn.bench.cells import Cell, Plan, dataset_name, plan, reasons
from fastgtn.bench.nodes import main_metric
from fastgtn.bench.table import Report, Table, bold_best, meaning, spread
from fastgtn.data.metrics import Metric
from fastgtn.nn.non_local import NON_LOCAL

WITHOUT_IDENTITY = {"graph": {"identity": False}}


def ablation_plans(datasets: Sequence[str], *, runs: int, seed: int) -> list[Plan]:
    """GTN with and without the identity, FastGTN without and with non-local operations.

    A pair has one config, unless the non-local model has a tuned one.
    """
    plans = []
    for dataset in datasets:
        plans.append(plan(dataset, "gtn", runs=runs, seed=seed))
        name = paper.NO_IDENTITY
        plans.append(plan(dataset, "gtn", runs=runs, seed=seed, extra=WITHOUT_IDENTITY, as_model=name))
        plans += [plan(dataset, model, runs=runs, seed=seed) for model in ("fast_gtn", "fast_gtn_non_local")]
    return plans


def ablation_report(cells: Sequence[Cell], *, command: str, seeds: Sequence[int]) -> Report:
    """Both tables, with the mean weight of the non-local relation."""
    datasets = list(dict.fromkeys(cell.dataset for cell in cells))
    place = {(cell.dataset, cell.model): cell for cell in cells}
    attention = {d: non_local_attention(place[d, "fast_gtn_non_local"]) for d in datasets}
    metric = main_metric(cells)
    identity = [[dataset_name(d), *_pair(place, d, ("gtn", paper.NO_IDENTITY), metric, len(seeds))] for d in datasets]
    non_local = [
        [
            dataset_name(d),
            *_pair(place, d, ("fast_gtn", "fast_gtn_non_local"), metric, len(seeds)),
            _weights(attention[d]),
            _weights([list(paper.NON_LOCAL_ATTENTION[d])] if d in paper.NON_LOCAL_ATTENTION else []),
        ]
        for d in datasets
    ]
    ours, theirs = "attention on non-local, hop by hop", "paper's"
    tables = [
        Table("The identity among the relations", ["dataset", "GTN", "GTN₋I"], identity),
        Table("Non-local operations", ["dataset", "without", "with", ours, theirs], non_local),
    ]
    notes = [
        f"{meaning(seeds)}. The paper's number follows the slash.",
        "Both models of a pair have the same config, unless a model has a separate tuned config. Attention is the "
        "mean over channels and seeds, hops are in the order of their application, and a semicolon separates layers.",
    ]
    values: dict[str, Any] = {
        "seeds": list(seeds),
        "cells": [cell.to_json() for cell in cells],
        "non_local_attention": {dataset_name(d): weights for d, weights in attention.items()},
    }
    return Report("Ablation", command, tables, values, notes + reasons(cells))


def non_local_attention(cell: Cell) -> list[list[float]]:
    """Mean weight of the non-local relation for each layer and each hop, in the order in which hops are applied."""
    if not cell.summary:
        return []
    layers: list[list[np.ndarray[Any, Any]]] = []
    for run in cell.summary["runs"]:
        with np.load(Path(cell.summary["out"]) / f"seed-{run['seed']}" / "filters.npz") as file:
            column = list(file["relations"]).index(str(NON_LOCAL))
            names = sorted((name for name in file if name.startswith("layer_")), key=lambda name: int(name[6:]))
            layers.append([file[name][::-1, :, column].mean(1) for name in names])
    return [np.mean(one, axis=0).tolist() for one in zip(*layers, strict=True)]


def _pair(
    place: dict[tuple[str, str], Cell], dataset: str, models: tuple[str, str], metric: Metric, seeds: int
) -> list[str]:
    tests = [place[dataset, model].test(metric.name) for model in models]
    means = [None if test is None else metric.goodness(test["mean"]) for test in tests]
    texts = bold_best([spread(test, seeds=seeds) for test in tests], means)
    numbers = [paper.MICRO_F1.get((dataset, model)) for model in models]
    return [t if n is None else f"{t} / {n:.2f}" for t, n in zip(texts, numbers, strict=True)]


def _weights(layers: list[list[float]]) -> str:
    return "; ".join(", ".join(f"{weight:.3f}" for weight in layer) for layer in layers) or "–"
