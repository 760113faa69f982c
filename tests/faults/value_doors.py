"""Doors for objects and folders: random graphs with hostile numbers, run folders, searches, public calls."""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from bounds_checked_calls import calls
from faults.doors import damaged
from graphs import random_stack
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn import Features, InputError, NodeTask, RelationStack
from fastgtn.config import Config
from fastgtn.data import archive, make_planted
from fastgtn.runs import load_run
from fastgtn.training.build import Inputs
from fastgtn.tuning.study import DATABASE, open_study

HOSTILE = [float("nan"), float("inf"), -float("inf"), 1e38, -3.4e38, 1e39, 1e300, 1e-45, 5e-324, -0.0, 2.0**53 + 1]
FACTS = {"metric": "micro_f1", "dataset": "g", "model": "gcn"}


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
        "run folder": ValueDoor(RunFolder()),
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


class RunFolder:
    """A finished run in which one file is damaged for each attempt."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.graph, self.task = make_planted("APA", authors=30, papers=40, venues=6, terms=6, features=4, seed=1)

    def __call__(self, random: Random, folder: Path) -> object:
        place = folder / "run"
        if not self.files:
            self._make(place)
        elif not place.exists():
            self._write(place)
        name = random.choice(sorted(self.files))
        (place / name).write_bytes(damaged(self.files[name], random))
        try:
            run = load_run(place)
            return run.test, run.history, run.predict(self.graph)
        finally:
            (place / name).write_bytes(self.files[name])

    def _make(self, place: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive.write(Path(folder) / "g.npz", self.graph, self.task)
            fastgtn.runs.train(quick(Path(folder) / "g.npz", fit={"epochs": 2}), out=Path(folder) / "run")
            shutil.copytree(Path(folder) / "run", place)
        paths = [path for path in place.rglob("*") if path.is_file() and path.name != ".lock"]
        self.files = {str(path.relative_to(place)): path.read_bytes() for path in paths}

    def _write(self, place: Path) -> None:
        for name, content in self.files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)


class SearchFolder:
    """The database of a search, damaged in its bytes, or in its rows."""

    def __init__(self) -> None:
        self.good = b""

    def __call__(self, random: Random, folder: Path) -> object:
        place = folder / "search"
        if not self.good:
            self._open(place)
            self.good = (place / DATABASE).read_bytes()
        place.mkdir(exist_ok=True)
        (place / f"{DATABASE}-journal").unlink(missing_ok=True)
        (place / DATABASE).write_bytes(self.good if random.random() < 0.5 else damaged(self.good, random))
        if (place / DATABASE).read_bytes() == self.good:
            self._change_row(place / DATABASE, random)
        return self._open(place)

    def _open(self, place: Path) -> object:
        with open_study(place, FACTS, {}, {}, seed=0) as study:
            study.ask(3)
            return study.best(), study.seconds()

    def _change_row(self, file: Path, random: Random) -> None:
        values = [None, -1, 2**62, 1e300, "", "RUNNING", "COMPLETE", "x" * 1000, "{}", "[", b"\xff", float("inf")]
        with sqlite3.connect(file) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = random.choice(tables)
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            try:
                database.execute(f"UPDATE {table} SET {random.choice(columns)} = ?", (random.choice(values),))
            except sqlite3.Error:  # the database itself refuses it
                database.execute(f"DROP TABLE {table}")


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
