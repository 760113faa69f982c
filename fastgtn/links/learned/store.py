"""Trained encoders in the folder of a seed: weights without pickle, and the ids of nodes with embeddings."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.links.joined.screen import LinkScreening
from fastgtn.links.learned.graphs import LinkGraphs
from fastgtn.links.learned.options import LinkModelOptions
from fastgtn.links.learned.result import LearnedLinks
from fastgtn.links.task import LinkTask
from fastgtn.nn import Features
from fastgtn.options import Values
from fastgtn.runs.checkpoint import read_tensors, store_tensors
from fastgtn.runs.files import damaged, read_json, write_json
from fastgtn.runs.records import read_history, write_history
from fastgtn.runs.schema import moved_embeddings, node_ids

WEIGHTS, FACTS = "model.safetensors", "encoders.json"


def save_encoders(result: LearnedLinks, folder: Path) -> None:
    """Write weights, the resolved config, the history, and whose embeddings these are."""
    graph, features = result.task.graph_at("use"), result.graphs.stages["use"].features
    store_tensors(folder / WEIGHTS, result.model.weights(), {})
    write_history(folder, result.history)
    write_json(
        folder / FACTS,
        {
            "config": result.config.model_dump(mode="json"),
            "options": result.options.model_dump(mode="json"),
            "epoch": result.epoch,
            "embedded": {t: [str(i) for i in node_ids(graph, t)] for t in features.embedded},
        },
    )


def load_encoders(
    folder: Path, task: LinkTask, screening: LinkScreening, scores: list[dict[str, float]]
) -> LearnedLinks:
    """Open trained encoders on the graph of a task. Nodes without features keep their embeddings by their ids."""
    stored = read_json(folder / FACTS)
    try:
        config = Config.of(stored["config"])
        options = LinkModelOptions.model_validate(stored["options"])
        embedded: Values = {str(t): [str(i) for i in ids] for t, ids in stored["embedded"].items()}
        epoch = int(stored["epoch"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(folder / FACTS, error) from None
    graphs = LinkGraphs.of(task, config)
    inputs = graphs.stages["use"]
    with torch.random.fork_rng(devices=[]):
        model = options.build(config, inputs)
    weights, _ = read_tensors(folder / WEIGHTS)
    try:
        model.load_weights(_moved(weights, inputs.features, embedded, task))
    except (KeyError, IndexError, ValueError, RuntimeError) as error:
        raise damaged(folder / WEIGHTS, " ".join(str(error).split())) from None
    model.eval()
    val, test, control = scores
    history = read_history(folder)
    return LearnedLinks(task, config, options, model, graphs, screening, val, test, control, epoch, history)


def _moved(weights: dict[str, Tensor], features: Features, known: Values, task: LinkTask) -> dict[str, Tensor]:
    """The embeddings of the nodes of this graph; a node that training did not have gets the mean of its type."""
    moved = dict(weights)
    keys = (*features.widths, *features.embedded)
    for node_type in features.embedded:
        wanted = [str(i) for i in node_ids(task.graph_at("use"), node_type)]
        for name in [n for n in weights if n.endswith(f"input.weights.{keys.index(node_type)}")]:
            moved[name], _ = moved_embeddings(weights[name], known[node_type], wanted)
        if new := len(set(wanted) - set(known[node_type])):
            warnings.warn(
                f'{new:,} of {len(wanted):,} nodes of type "{node_type}" were not seen in training and have no '
                "features: each starts from the mean embedding of its type, and its own edges decide the rest.",
                stacklevel=4,
            )
    return moved
