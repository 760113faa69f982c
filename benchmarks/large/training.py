"""What one process of the large benchmark does: some steps in mini-batches, or one on the whole graph.

Started by benchmarks.large, alone or by torchrun; the first process prints one line of JSON.
"""

import argparse
import json
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fastgtn.config import Config
from fastgtn.data import NodeTask, Split, load
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.loop import State, Trainer
from fastgtn.training.memory import plan_memory
from fastgtn.training.steps import plan_passes
from fastgtn.training.team import joined

BATCH = 1024


def train(folder: Path, steps: int, prefetch: int) -> dict[str, Any] | None:
    """Mini-batches of 1,024 targets with fan-outs 15 and 10, without validation; after some to warm up."""
    config = Config.of(
        {
            "model": {"name": "fast_gtn", "path_length": 2, "num_channels": 2, "hidden": 64},
            "batch": {"size": BATCH, "fanouts": [15, 10], "prefetch": prefetch},
            "fit": {"epochs": 1, "select_by": "last"},
        }
    )
    graph, task = _loaded(folder)
    with joined() as team:
        estimate = plan_memory(graph, task, config).to_json()["mini_batch_gb"]
        inputs = Inputs.of(graph, config)
        for count in (3, steps):
            model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
            state, part = State.start(model, config.fit), _first(task, count * BATCH)
            passes = plan_passes(inputs, part, model, config, team)
            Trainer(state, passes, part, config.fit, team).run(lambda _: None)
        if not team.leads:
            return None
        return {
            "graph": graph.name,
            "processes": team.size,
            "threads": torch.get_num_threads(),
            "steps": steps,
            **state.speed.summary(),
            "resident_gb": _resident(),
            "estimated_gb": estimate,
        }


def full_graph(folder: Path) -> dict[str, Any]:
    """Forward and backward of FastGTN over the whole graph, for all training nodes."""
    config = Config.of({"model": {"name": "fast_gtn", "hidden": 64}})
    graph, task = _loaded(folder)
    inputs = Inputs.of(graph, config)
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    plan = inputs.plan(model, inputs.rows(task.target, task.train.nodes))
    started = time.perf_counter()
    task.loss(plan.logits(model), task.train.labels).backward()
    seconds = time.perf_counter() - started
    estimate = plan_memory(graph, task, config).to_json()["full_batch_gb"]
    return {"graph": graph.name, "seconds": seconds, "resident_gb": _resident(), "estimated_gb": estimate}


def _loaded(folder: Path) -> tuple[Any, NodeTask]:
    graph, task = load(folder)
    assert task is not None
    return graph, task


def _first(task: NodeTask, count: int) -> NodeTask:
    """A task with this many training nodes in one epoch and no validation nodes."""
    none = Split(task.val.nodes[:0], task.val.labels[:0])
    return replace(task, train=Split(task.train.nodes[:count], task.train.labels[:count]), val=none)


def _resident() -> float:
    """The largest resident size of this process, mapped features included, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("train", "full"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--prefetch", type=int, default=2)
    options = parser.parse_args()
    if options.what == "full":
        facts: dict[str, Any] | None = full_graph(options.folder)
    else:
        facts = train(options.folder, options.steps, options.prefetch)
    if facts is not None:
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
