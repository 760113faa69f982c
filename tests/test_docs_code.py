"""Every Python example of the docs runs as printed, in a folder with small graphs and runs under the same names."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.data.tables.config import Graph, LinkTable, NodeTable, RelationTable, Task
from fastgtn.nn import HeteroFastGTN
from fastgtn.runs import train

DOCS = Path(__file__).parents[1] / "docs"
# these run elsewhere: tests/nn/test_hetero.py; tests/training/extending/test_toy_model.py and test_toy_metric.py
ELSEWHERE = {"pyg.md", "architecture.md"}
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if "```python" in p.read_text() and p.name not in ELSEWHERE]
Names = dict[str, Any]


def small_graph(seed: int = 1) -> tuple[HeteroData, NodeTask]:
    graph, task = make_planted("APA", authors=60, papers=80, venues=6, terms=8, features=4, seed=seed)
    graph["author"].node_id = np.array([f"a-{i:02}" for i in range(60)])
    return graph, task


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder, an archive, and run folders."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "data").mkdir()
    for name in ("data/dblp.npz", "data/imdb.npz", "my.npz"):
        archive.write(folder / name, *small_graph())
    for name, model in (("imdb-fast_gtn-0", "fast_gtn"), ("dblp-gtn-0", "gtn")):
        train(quick(folder / "my.npz", model={"name": model}, fit={"epochs": 2}), out=folder / "runs" / name)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_run(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("FASTGTN_DATA", str(place / "data"))
    names: Names = {"fastgtn": fastgtn, "torch": torch, "print": lambda *_: None}
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
        BEFORE.get(f"{page.name} {number}", lambda _: None)(names)
        exec(compile(code, f"{page.name}, example {number}", "exec"), names)


SECTIONS = {"nodes": NodeTable, "relations": RelationTable}


@pytest.mark.parametrize(
    "page", [p for p in sorted(DOCS.rglob("*.md")) if "```toml" in p.read_text()], ids=lambda page: page.name
)
def test_the_toml_files_have_known_keys(page: Path) -> None:
    """Whole files and parts of them: every section is one that graph.toml or a config has."""
    for text in re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
        values = tomllib.loads(text)
        if "types" in values:  # of `fastgtn data import gtn --types`
            assert set(values) == {"types", "relations"}
            continue
        if "dataset" in values:
            assert set(values) <= {"dataset", "link", "model", "fit"}, text
            continue
        for name, section in SECTIONS.items():
            for one in values.pop(name, {}).values():
                section.model_validate(one)
        if (task := values.pop("task", None)) is not None:
            (LinkTable if "link" in task else Task).model_validate(task)
        Graph.model_validate(values.pop("graph", {}))
        assert not values, text


def _stored(_: Names) -> None:
    Path("my.npz").rename("other.npz")  # the example writes it again


def _sampled(names: Names) -> None:
    graph, task = small_graph()
    features = fastgtn.Features.from_hetero(graph)
    model = fastgtn.FastGTN(features, 8, fastgtn.RelationStack.from_hetero(graph).relations)
    names.update(graph=graph, task=task, features=features, model=model, targets=torch.arange(5))


def _batches(names: Names) -> None:
    graph = names["graph"]
    for node_type in graph.node_types:
        graph[node_type].x = torch.randn(graph[node_type].num_nodes, 4)
    names["model"] = HeteroFastGTN(4, 8, 3, graph.metadata(), "paper")


def _other_graph(names: Names) -> None:
    names["new_graph"] = small_graph(seed=2)[0]


def _times(names: Names) -> None:
    """Customers who pay in shops, at random times."""
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["customer"].x, data["shop"].x = torch.randn(30, 3, generator=generator), torch.randn(5, 2, generator=generator)
    pairs = torch.stack([torch.randint(n, (90,), generator=generator) for n in (30, 5)])
    data["customer", "pays", "shop"].edge_index = pairs
    data["shop", "paid", "customer"].edge_index = pairs.flip(0)
    data["shop", "paid", "customer"].time = torch.rand(90, generator=generator)
    new = data.clone()
    new["customer", "pays", "shop"].time = torch.rand(90, generator=generator)
    new["customer"].as_of = torch.full((30,), float("nan"))
    names.update(data=data, new_data=new, seconds=torch.rand(90, generator=generator), opened=torch.zeros(5))
    names.update(decided=torch.rand(30, generator=generator), labelled=torch.arange(30), y=torch.arange(30) % 2)


BEFORE: dict[str, Callable[[Names], None]] = {
    "data.md 1": _stored,
    "large.md 0": _sampled,
    "large.md 1": _batches,
    "training.md 0": _other_graph,
    "time.md 0": _times,
}
