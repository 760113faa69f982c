"""Doors for objects: random graphs with hostile numbers, settings, public calls. Folders are in `folder_doors`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from bounds_checked_calls import calls
from faults.folder_doors import (
    SearchFolder,
    StoredFolder,
    make_link_run,
    make_run,
    make_screened_run,
    open_link_run,
    open_run,
    resume_run,
)
from graphs import random_stack
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn import Features, InputError, NodeTask, RelationStack
from fastgtn.config import Config, toml
from fastgtn.config.source_index import config_keys
from fastgtn.data import archive
from fastgtn.links.settings import LinkSettings
from fastgtn.runs.learned.decided import DECISIONS
from fastgtn.training.build import Inputs

HOSTILE = [float("nan"), float("inf"), -float("inf"), 1e38, -3.4e38, 1e39, 1e300, 1e-45, 5e-324, -0.0, 2.0**53 + 1]
SETTINGS = [
    *("0", "-1", "1", "3", "1e9", "0.5", "-0.0", "nan", "inf", "-inf", "1e400", "9" * 400, "true", "auto", "none", ""),
    *("[]", "[1, 2]", "[[1]]", "{}", "{a = 1}", '"x"', "'", '"', "#", "=", "é\u202e", "\x00", "\x1b[2J", "2026-01-01"),
    *("gtn", "fast_gtn", "gcn", "dot", "uniform", "random", "../../etc/passwd", "x" * 5000, "[" * 500, "{a=" * 500),
]
MORE_KEYS = (
    "dataset",
    "link",
    "link.relation",
    "link.negatives",
    "link.split",
    "link.longest",
    "model",
    "fit",
    "graph",
)


@dataclass(frozen=True)
class ValueDoor:
    """One attempt with a random value; `use` gives a result or raises."""

    use: Callable[[Random, Path], object]

    def attempt(self, random: Random, folder: Path) -> str:
        """Say how it ended: "read" or "refused"; other errors are raised."""
        try:
            self.use(random, folder)
        except InputError:
            return "refused"
        return "read"


def value_doors() -> dict[str, ValueDoor]:
    """All of them by name."""
    return {
        "graph in memory": ValueDoor(use_graph),
        "graph to a file": ValueDoor(store_graph),
        "feature values": ValueDoor(use_features),
        "labels and splits": ValueDoor(use_labels),
        "public calls": ValueDoor(use_calls),
        "--set of every key": ValueDoor(set_any_key),
        "run folder": ValueDoor(StoredFolder(make_run, open_run)),
        "decisions of a run": ValueDoor(StoredFolder(make_screened_run, resume_run, only=DECISIONS)),
        "link run folder": ValueDoor(StoredFolder(make_link_run, open_link_run)),
        "search database": ValueDoor(SearchFolder()),
    }


def random_graph(random: Random) -> HeteroData:
    """No node or a few, one relation to two hundred, edges twice and to themselves; sometimes something is wrong."""
    graph = HeteroData()
    names = "abc"[: random.randint(1, 3)]
    for name in names:
        graph[name].num_nodes = random.choice([0, 1, 1, 2, 5, 5, 5])
    if random.random() < 0.03:
        graph[names[0]].num_nodes = random.choice([-1, 2**62])
    for number in range(random.choice([1, 1, 2, 3, 5, 64, 200])):
        source, target = random.choice(names), random.choice(names)
        graph[source, f"r{number}", target].edge_index = _edges(random, graph, source, target)
        if random.random() < 0.5:
            count = graph[source, f"r{number}", target].edge_index.size(-1)
            graph[source, f"r{number}", target].edge_weight = _numbers(random, (count,))
    return graph


def use_graph(random: Random, _folder: Path) -> object:
    """A stack, its hops and its gradients."""
    stack = RelationStack.from_hetero(random_graph(random), reverse=random.random() < 0.3)
    stack = stack.row_normalized() if random.random() < 0.5 else stack
    h = torch.randn(stack.num_nodes, 2, 3, requires_grad=True)
    stack.propagate(h, torch.rand(2, len(stack))).sum().backward()
    return h.grad


def store_graph(random: Random, folder: Path) -> None:
    """What is written can be read again, and is the same."""
    graph = random_graph(random)
    archive.write(folder / "g.npz", graph, None, overwrite=True)
    stored, _ = archive.read(folder / "g.npz")
    assert stored.node_types == graph.node_types, "other node types come back"
    assert [stored[t].num_nodes for t in stored.node_types] == [graph[t].num_nodes for t in graph.node_types]


def use_features(random: Random, _folder: Path) -> None:
    """Features of any kind go through a model."""
    graph = random_graph(random)
    for name in graph.node_types:
        if random.random() < 0.8:
            rows = max(int(graph[name].num_nodes), 0) if graph[name].num_nodes < 100 else 5
            x = _numbers(random, (rows + (random.random() < 0.05), random.choice([0, 1, 3])))
            graph[name].x = x.to_sparse() if random.random() < 0.2 else x
    stack, features = RelationStack.from_hetero(graph).row_normalized(), Features.from_hetero(graph)
    fastgtn.FastGTN(features, 4, stack.relations, path_length=2)(features, stack)


def use_labels(random: Random, folder: Path) -> None:
    """Labels and splits of any kind become a task, or are refused."""
    size = random.choice([0, 1, 6, 6, 6])
    kind = random.choice(["single", "single", "multi", "number", "ranking", "other"])
    labels: Any = [random.choice([0, 1, 2, -1, 2**40, 0.5, float("nan"), "a", None]) for _ in range(size)]
    labels = labels if random.random() < 0.3 else [k % 3 for k in range(size)]
    labels = labels if random.random() < 0.7 else np.array(labels, dtype=object)
    order = random.sample(range(size), size)
    nodes = [order[0::3], order[1::3], order[2::3]]
    if random.random() < 0.3:
        random.choice(nodes).append(random.choice([-1, 0, size, 2**40]))
    task = NodeTask.from_labels("a", kind, labels, train=nodes[0], val=nodes[1], test=nodes[2])  # type: ignore[arg-type]
    graph = HeteroData()
    graph["a"].num_nodes, graph["a"].x = 6, torch.eye(6)
    graph["a", "r", "a"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    archive.write(folder / "t.npz", graph, task, overwrite=True)
    archive.read(folder / "t.npz")
    Inputs.of(graph, Config.of({"dataset": "t"}))


def use_calls(random: Random, _folder: Path) -> None:
    """Public calls with sizes that are sometimes wrong by one."""
    seed = random.randrange(2**31)
    calls(seed, random_stack(seed, num_types=1 + seed % 3, num_relations=1 + seed % 4, max_nodes=6, max_edges=12))


def set_any_key(random: Random, _folder: Path) -> object:
    """One to three keys, real ones or not, with hostile values: for node models and for link models."""
    keys = random.choices([*config_keys(), *MORE_KEYS], k=random.randint(1, 3))
    values = toml.settings([f"{key}={random.choice(SETTINGS)}" for key in keys])
    if random.random() < 0.3:
        return LinkSettings.of({"dataset": "g"} | values).to_toml()
    return Config.of(values).to_toml()


def _edges(random: Random, graph: HeteroData, source: str, target: str) -> torch.Tensor:
    ends = [max(int(graph[name].num_nodes), 0) for name in (source, target)]
    count = random.choice([0, 1, 4, 12]) if min(ends) else random.choice([0, 0, 0, 1])
    rows = [[random.randrange(max(min(end, 9), 1)) for _ in range(count)] for end in ends]
    if count and random.random() < 0.05:
        random.choice(rows)[0] = random.choice([-1, 5, 2**31, 2**62, -(2**63)])
    edges = torch.tensor(rows, dtype=torch.int64)
    if random.random() < 0.05:
        edges = random.choice([edges.int(), edges.float(), edges[0], edges.T, edges.bool()])
    return edges


def _numbers(random: Random, shape: tuple[int, ...]) -> torch.Tensor:
    values = torch.randn(shape, dtype=random.choice([torch.float32, torch.float32, torch.float64, torch.float16]))
    if values.numel() and random.random() < 0.5:
        hostile = torch.tensor(random.choice(HOSTILE), dtype=torch.float64)
        values.view(-1)[random.randrange(values.numel())] = hostile.to(values.dtype)
    return values
