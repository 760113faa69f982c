"""Open a trained run from its folder."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fastgtn.config import Config, is_path
from fastgtn.data import checksum, load
from fastgtn.data.metrics import main_metric, named
from fastgtn.errors import InputError, check_run_folder
from fastgtn.runs.checkpoint import read_tensors
from fastgtn.runs.files import damaged
from fastgtn.runs.on_graph import OnGraph, model_with
from fastgtn.runs.records import read_result
from fastgtn.runs.result import Result
from fastgtn.runs.save import GRAPH
from fastgtn.runs.schema import Schema


def load_run(
    path: str | Path,
    *,
    seed: int | None = None,
    graph: str | Path | None = None,
    data_dir: str | Path | None = None,
) -> Result:
    """Open a run folder, or the folder of one of its seeds.

    Args:
        seed: A seed of the run; by default the best on validation, by the metric that chose the epochs.
        graph: Use this graph, a name or an archive, instead of the one that the run was trained on. Give it when
            the graph of the training was moved.
        data_dir: The folder of the datasets.
    """
    folder = _seed_folder(Path(path), seed)
    facts = read_result(folder)
    weights, metadata = read_tensors(folder / "model.safetensors")
    try:
        config = Config.stored(json.loads(metadata["config"]))
        schema = Schema.from_json(json.loads(metadata["schema"]))
        model = model_with(weights, config, schema)
    except (KeyError, ValueError, TypeError, RuntimeError, RecursionError) as error:
        raise damaged(folder / "model.safetensors", " ".join(str(error).split())) from None
    stored = folder.parent / GRAPH if Path(config.dataset).name == GRAPH else None
    stored = stored if stored is not None and stored.is_file() else None

    def open_graph(result: Result) -> OnGraph:
        place = graph or stored or _dataset(config)
        data, task = load(place, data_dir=data_dir, seed=config.split_seed)
        if task is not None:
            is_same = (task.target, task.class_names) == (schema.target, schema.class_names)
            task = replace(task, threshold=schema.threshold) if task.target == schema.target else None
            task = task.with_outcome(schema.decision, schema.largest) if task is not None and is_same else task
        return replace(result.on(data, task), digest=lambda: checksum(place, data_dir=data_dir))

    run = None if seed is not None or folder == Path(path) else Path(path)
    return Result(config, schema, model, facts, open_graph, keeps_graph=stored is not None, folder=folder, run=run)


def seeds_of(result: Result, seeds: Sequence[int], run: Path) -> list[Result]:
    """Seeds of the run that a result belongs to, all of them on the graph of the result."""
    found = [result if seed == result.seed else load_run(run, seed=seed) for seed in seeds]
    return [
        one if one is result else replace(one, open_graph=lambda other: other.on(result.graph, result.own.task))
        for one in found
    ]


def _dataset(config: Config) -> str:
    """The graph of the training, unless it was moved."""
    if is_path(config.dataset) and not Path(config.dataset).exists():
        raise InputError(
            f"the run was trained on {config.dataset}, which no longer exists: give its new path with --graph "
            '(in Python, load_run(folder, graph="…")).'
        )
    return config.dataset


def _seed_folder(path: Path, seed: int | None) -> Path:
    check_run_folder(path)
    if (path / "model.safetensors").exists() and seed is None:
        return path
    finished = {
        int(f.parent.name[5:]): f.parent for f in path.glob("seed-*/result.json") if f.parent.name[5:].isdigit()
    }
    if not finished:
        begun = any(path.glob("seed-*")) or (path / "config.toml").exists()
        hint = (
            "no seed is finished: resume the run with fastgtn train --resume --out" if begun else "it contains none of"
        )
        raise InputError(f"{path}: {hint} {path if begun else 'the files of a run'}.")
    if seed is not None:
        if seed not in finished:
            raise InputError(
                f"{path} has no finished seed {seed}; the finished seeds are {', '.join(map(str, sorted(finished)))}."
            )
        return finished[seed]
    return max(sorted(finished.items()), key=lambda item: (_score(item[1]), -item[0]))[1]


def _score(folder: Path) -> float:
    facts = read_result(folder)
    val, chosen_by = facts["val"], facts.get("selected_by")
    main = named(str(chosen_by)) if chosen_by in val else main_metric(val)
    return 0.0 if main is None else main.goodness(float(val[main.name]))
