"""Write a result to a run folder: at the end of each seed of a training, or when it is saved from Python."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgtn.config import Config
from fastgtn.data import archive
from fastgtn.errors import InputError
from fastgtn.runs import checkpoint
from fastgtn.runs.files import alone_in, write_json, write_text, write_whole
from fastgtn.runs.records import write_history
from fastgtn.runs.summary import in_summary, summary
from fastgtn.system import own_folder
from fastgtn.training.memory import plan_memory

if TYPE_CHECKING:
    from fastgtn.runs.result import Result

GRAPH = "graph.npz"  # in a run folder whose graph is stored nowhere else


def store_seed(result: "Result", folder: Path, config: Config, facts: dict[str, Any]) -> None:
    """Write the files of a finished seed; `result.json` is the last of them.

    Args:
        config: As it is stored: it names the graph of the run.
    """
    write_history(folder, result.history)
    if result.filters:
        arrays: dict[str, Any] = {f"layer_{n}": weights for n, weights in enumerate(result.filters)}
        arrays["relations"] = np.array([str(r) for r in result.model.backbone.hop_filters()[0].relations])
        write_whole(folder / "filters.npz", lambda path: np.savez(path, **arrays))
    from fastgtn.runs.predictions import prediction_tables, write_table

    tables = prediction_tables(result.schema, result.graph, result.logit_blocks(), result.own.task)
    write_table(tables, folder / "predictions.parquet")
    metadata = {"schema": json.dumps(result.schema.to_json()), "config": config.model_dump_json()}
    checkpoint.store_tensors(folder / "model.safetensors", result.model.state_dict(), metadata)
    (folder / "failed.json").unlink(missing_ok=True)
    write_json(folder / "result.json", facts)


def save_result(result: "Result", folder: Path) -> Path:
    """Write a run folder with one seed, and with the graph if that is stored nowhere else."""
    if folder.exists() and (not folder.is_dir() or any(file.name != ".lock" for file in folder.iterdir())):
        raise InputError(f"{folder} already exists and is not empty: choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        config = result.config.for_seed(result.seed)
        facts = result.facts | {"dataset": result.dataset, "data_checksum": result.data_checksum}
        if result.keeps_graph:
            (graph, task), place = result.own.storable(), folder / GRAPH
            known = {name: getattr(graph, name, None) for name in ("meta", "planted")}
            archive.write(place, graph, task, overwrite=True, **known)
            config = Config.of(config.model_dump(), {"dataset": str(place.resolve())})
        seed = own_folder(folder / f"seed-{result.seed}")
        for place in (folder, seed):
            write_text(place / "config.toml", config.to_toml())
        write_json(folder / "run.json", {key: facts[key] for key in ("dataset", "data_checksum", "versions")})
        store_seed(result, seed, config, facts)
        plan = plan_memory(result.graph, result.task, config)
        write_json(folder / "result.json", summary(config, [in_summary(facts)], folder, plan, dataset=facts["dataset"]))
    return folder
