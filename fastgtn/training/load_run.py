"""Open a trained run: its model, its numbers, and predictions on its own or on another graph."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, load
from fastgtn.errors import InputError, nearest
from fastgtn.models import NodeClassifier
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.checkpoint import read_tensors
from fastgtn.training.config import Config
from fastgtn.training.files import damaged
from fastgtn.training.inference import logit_blocks, representations
from fastgtn.training.loop import Record, Weights
from fastgtn.training.predictions import prediction_table
from fastgtn.training.results import read_history, read_result
from fastgtn.training.schema import Schema, moved_embeddings, node_ids

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Run:
    """One finished seed. `model` is the trained model, ready for the graph that it was trained on."""

    folder: Path
    config: Config
    schema: Schema
    model: NodeClassifier
    result: dict[str, Any]

    @property
    def history(self) -> list[Record]:
        return read_history(self.folder)

    def load_graph(self, *, data_dir: str | Path | None = None) -> tuple[HeteroData, NodeTask]:
        """The graph and the task that the run was trained on."""
        graph, task = load(self.config.dataset, data_dir=data_dir, seed=self.config.split_seed)
        if task is None:
            raise InputError(f"{self.config.dataset} has no labels any more, but the run was trained on some.")
        return graph, task

    def prepare(self, graph: HeteroData) -> tuple[Inputs, NodeClassifier]:
        """Relations and features of a graph of the same schema, and the model that reads them."""
        graph = self.schema.aligned(graph)
        inputs = Inputs.of(graph, self.config)
        self.schema.require_inputs(inputs)
        weights = self.model.state_dict()
        keys = (*self.schema.widths, *self.schema.embedded)
        for node_type, known in self.schema.embedded.items():
            name = f"backbone.input.weights.{keys.index(node_type)}"
            wanted = [str(i) for i in node_ids(graph, node_type)]
            weights[name], new = moved_embeddings(weights[name], known, wanted)
            if new:
                warnings.warn(
                    f'{new:,} of {len(wanted):,} nodes of type "{node_type}" were not seen in training and have no '
                    "features: each gets the mean embedding of its type.",
                    stacklevel=2,
                )
        return inputs, _model(self.config, self.schema, weights, inputs)

    def logits(self, graph: HeteroData) -> Tensor:
        """Logits of all nodes of the target type."""
        return torch.cat(list(self.logit_blocks(graph)))

    def logit_blocks(self, graph: HeteroData, nodes: Tensor | None = None) -> Iterator[Tensor]:
        """The same, some nodes at a time; or of some nodes of the type only, in their order."""
        inputs, model = self.prepare(graph)
        z = representations(model, inputs, self.schema.target, self.config.batch, seed=self.config.fit.seed)
        return logit_blocks(model, z if nodes is None else z[nodes])

    def predict(self, graph: HeteroData, task: NodeTask | None = None) -> pa.Table:
        """Ids, splits, predicted labels and probabilities of all nodes of the target type."""
        return prediction_table(self.schema, graph, self.logit_blocks(graph), task)

    def evaluate(self, graph: HeteroData, task: NodeTask, *, split: str = "test") -> dict[str, float]:
        """Metrics of one split."""
        if split not in SPLITS:
            raise InputError(f'no split "{split}"; {nearest(split, SPLITS)}')
        mine = (self.schema.target, self.schema.kind, self.schema.class_names)
        if (task.target, task.kind, task.class_names) != mine:
            raise InputError(
                f"the run predicts {len(self.schema.class_names)} classes of {self.schema.target} "
                f"({self.schema.kind}), but the graph's task has {task.num_classes} of {task.target} ({task.kind}), "
                "or other class names: their scores cannot be compared."
            )
        nodes = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}[split]
        if not len(nodes):
            raise InputError(f"the {split} split of this graph is empty: there is nothing to score.")
        logits = self.logit_blocks(graph, nodes)
        if split == "test":
            return task.score_test(logits)
        return task.metrics(logits, (task.train if split == "train" else task.val).labels)


def load_run(path: str | Path, *, seed: int | None = None) -> Run:
    """Open a run folder, or the folder of one of its seeds.

    Args:
        seed: Which seed of a run; by default the one with the best NDCG, else micro-F1, on validation.
    """
    folder = _seed_folder(Path(path), seed)
    result = read_result(folder)
    weights, metadata = read_tensors(folder / "model.safetensors")
    try:
        config = Config.of(json.loads(metadata["config"]))
        schema = Schema.from_json(json.loads(metadata["schema"]))
        model = _model(config, schema, weights, None)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise damaged(folder / "model.safetensors", error) from None
    return Run(folder, config, schema, model, result)


def _model(config: Config, schema: Schema, weights: Weights, inputs: Inputs | None) -> NodeClassifier:
    features = schema.empty_features() if inputs is None else inputs.features
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.model, features, schema.relations, len(schema.class_names))
    model.load_state_dict(weights)
    return model.eval()


def _seed_folder(path: Path, seed: int | None) -> Path:
    if not path.is_dir():
        raise InputError(f"there is no run folder {path}.")
    if (path / "model.safetensors").exists() and seed is None:
        return path
    finished = {
        int(f.parent.name[5:]): f.parent for f in path.glob("seed-*/result.json") if f.parent.name[5:].isdigit()
    }
    if not finished:
        begun = any(path.glob("seed-*")) or (path / "config.toml").exists()
        hint = "no seed of it is finished: continue it with fastgtn train --resume --out" if begun else "it has none of"
        raise InputError(f"{path}: {hint} {path if begun else 'the files of a run'}.")
    if seed is not None:
        if seed not in finished:
            raise InputError(f"{path} has no finished seed {seed}; there are: {', '.join(map(str, sorted(finished)))}.")
        return finished[seed]
    return max(sorted(finished.items()), key=lambda item: (_score(item[1]), -item[0]))[1]


def _score(folder: Path) -> float:
    val = read_result(folder)["val"]
    return float(val.get("ndcg", val.get("micro_f1", 0.0)))
