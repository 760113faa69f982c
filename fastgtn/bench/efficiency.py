"""Time and memory of explicit GTN, implicit GTN and FastGTN on the same graphs (the paper's figures 5 and 7)."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fastgtn.bench import paper
from fastgtn.bench.cells import dataset_name
from fastgtn.bench.explicit import ExplicitGTN
from fastgtn.bench.measure import interleaved, peak_memory
from fastgtn.bench.table import Report, Table
from fastgtn.data import NodeTask
from fastgtn.data.catalog import load_labelled
from fastgtn.errors import InputError
from fastgtn.nn import GTN, FastGTN, Features
from fastgtn.relations import RelationStack
from fastgtn.runs.files import read_json, write_json

WAYS = {"explicit": "GTN, explicit", "implicit": "GTN, implicit", "fast_gtn": "FastGTN"}


@dataclass(frozen=True)
class Sizes:
    """What is measured: one layer of each model, all nodes at once, features as they are."""

    path_length: int = 3
    num_channels: int = 2
    hidden: int = 64
    rounds: int = 5
    max_gigabytes: float = 4.0

    def __post_init__(self) -> None:
        if not 0 < self.max_gigabytes < float("inf"):
            raise InputError(f"--max-gigabytes is {self.max_gigabytes}; it must be more than 0.")


def efficiency_cells(
    datasets: Sequence[str],
    sizes: Sizes,
    out: Path,
    *,
    data_dir: Path | None = None,
    done: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure each dataset in one process with the variants taking turns. Stored results in `out` are reused."""
    cells = []
    for dataset in datasets:
        text = json.dumps([str(dataset), asdict(sizes), torch.get_num_threads()])
        path = out / f"{dataset_name(dataset)}-{hashlib.sha256(text.encode()).hexdigest()[:6]}.json"
        if not path.exists():
            try:
                write_json(path, measure(dataset, sizes, data_dir))
            except InputError as error:
                cells.append({"dataset": dataset_name(dataset), "reason": str(error)})
                continue
        cells.append(read_json(path))
        if done is not None:
            done(cells[-1])
    return cells


def measure(dataset: str, sizes: Sizes, data_dir: Path | None = None) -> dict[str, Any]:
    """Seconds and bytes of each variant, for inference and for one training step."""
    graph, task = load_labelled(dataset, data_dir=data_dir)
    features, raw = Features.from_hetero(graph), RelationStack.from_hetero(graph)
    models, reason = _models(features, raw, sizes)
    stacks = {"explicit": raw, "implicit": raw, "fast_gtn": raw.row_normalized()}
    rows = task.train.nodes + raw.nodes_of(task.target).start
    runs: dict[str, dict[str, Callable[[], object]]] = {"inference": {}, "training": {}}
    for way, model in models.items():
        runs["inference"][way] = _inference(model, features, stacks[way])
        runs["training"][way] = _step(model, features, stacks[way], rows, task)
    measured: dict[str, Any] = {}
    for phase, candidates in runs.items():
        seconds = interleaved(candidates, sizes.rounds)
        measured[phase] = {way: {"seconds": seconds[way], "bytes": peak_memory(candidates[way])} for way in candidates}
    return {
        "dataset": dataset_name(dataset),
        "nodes": raw.num_nodes,
        "edges": raw.num_edges,
        "threads": torch.get_num_threads(),
        "sizes": asdict(sizes),
        "reason": reason,
        **measured,
    }


def efficiency_report(cells: Sequence[dict[str, Any]], sizes: Sizes, *, command: str) -> Report:
    """Two tables, and the paper's factors below ours."""
    measured = [cell for cell in cells if "inference" in cell]
    tables = [Table(phase.capitalize(), _header(), _rows(measured, phase)) for phase in ("inference", "training")]
    notes = [
        f"Path length {sizes.path_length}, {sizes.num_channels} channels, width {sizes.hidden}, one layer without "
        f"non-local operations, all nodes, {torch.get_num_threads()} threads; medians of {sizes.rounds} rounds in "
        "which the variants take turns; slow variants have fewer rounds. Memory is the additional peak of one pass.",
        "The paper's factors compare its own two programs on PPI, where it found the largest difference.",
    ]
    notes += [f"{c['dataset']}: explicit GTN was not run: {c['reason']}" for c in measured if c["reason"]]
    notes += [f"{c['dataset']}: not run: {c['reason']}" for c in cells if "inference" not in c]
    return Report("Efficiency", command, tables, {"sizes": asdict(sizes), "cells": list(cells)}, notes)


def _models(features: Features, stack: RelationStack, sizes: Sizes) -> tuple[dict[str, nn.Module], str]:
    """The three variants with the same weights, and the reason if the explicit one is missing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        words: dict[str, Any] = {"path_length": sizes.path_length, "num_channels": sizes.num_channels}
        words |= {"aggregate": "concat", "dropout": 0.0}  # as in the paper, and comparable pass by pass
        gtn = GTN(features, sizes.hidden, stack.relations, **words)
        fast = FastGTN(features, sizes.hidden, stack.relations, **words)
    explicit = ExplicitGTN(gtn, max_memory=1e9 * sizes.max_gigabytes)
    try:
        with torch.no_grad():
            explicit(features, stack)
    except InputError as error:
        return {"implicit": gtn, "fast_gtn": fast}, str(error)
    return {"explicit": explicit, "implicit": gtn, "fast_gtn": fast}, ""


def _inference(model: nn.Module, features: Features, stack: RelationStack) -> Callable[[], object]:
    @torch.no_grad()
    def run() -> object:
        return model.eval()(features, stack)

    return run


def _step(
    model: nn.Module, features: Features, stack: RelationStack, rows: torch.Tensor, task: NodeTask
) -> Callable[[], object]:
    head = nn.Linear(int(model.out_features), task.num_classes)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])

    def run() -> None:
        model.train()
        optimizer.zero_grad()
        task.loss(head(model(features, stack)[rows]), task.train.labels).backward()
        optimizer.step()

    return run


def _header() -> list[str]:
    return ["dataset", *WAYS.values(), "explicit / FastGTN", "explicit / implicit"]


def _rows(cells: Sequence[dict[str, Any]], phase: str) -> list[list[str]]:
    rows = []
    for cell in cells:
        found = cell[phase]
        texts = [_cell(found.get(way)) for way in WAYS]
        rows.append([cell["dataset"], *texts, _factor(found, "fast_gtn"), _factor(found, "implicit")])
    factors = paper.SPEED_UP[phase]
    rows.append(["paper, PPI", "–", "–", "–", f"{factors['time']}× · {factors['memory']}×", "–"])
    return rows


def _cell(found: dict[str, float] | None) -> str:
    return "–" if found is None else f"{1e3 * found['seconds']:.1f} ms · {found['bytes'] / 1e6:.0f} MB"


def _factor(found: dict[str, dict[str, float]], way: str) -> str:
    """How many times faster and smaller a variant is than the explicit one."""
    if "explicit" not in found:
        return "–"
    time = found["explicit"]["seconds"] / found[way]["seconds"]
    memory = found["explicit"]["bytes"] / max(found[way]["bytes"], 1)
    return f"{time:.0f}× · {memory:.0f}×"
