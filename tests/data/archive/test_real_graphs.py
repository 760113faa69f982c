"""The eleven real graphs load with exactly the statistics that their sources state."""

import os
from pathlib import Path

import pytest
import torch

from fastgtn.data import archive, catalog
from fastgtn.data.checks import check_archive
from fastgtn.data.describe import describe

# name: nodes, edges, features, density, classes, train, val, test
STATISTICS = {
    "dblp": (18405, 67946, 334, 0.0169, 4, 800, 400, 2857),
    "acm": (8994, 25922, 1902, 0.0576, 3, 600, 300, 2125),
    "imdb": (12772, 37288, 1256, 0.0043, 3, 300, 300, 2339),
    "airport": (1190, 13599, 238, 0.0042, 4, 119, 238, 833),
    "blogcatalog": (5196, 171743, 8189, 0.0087, 6, 519, 1039, 3638),
    "citeseer": (3327, 4552, 3703, 0.0085, 6, 120, 500, 1000),
    "cora": (2708, 5278, 1433, 0.0127, 7, 140, 500, 1000),
    "flickr": (7575, 239738, 12047, 0.0020, 9, 757, 1515, 5303),
    "hgb_dblp": (26128, 239566, None, None, 4, 1217, None, 2840),
    "hgb_imdb": (21420, 86642, None, None, 5, 1371, None, 3202),
    "heco_aminer": (55783, 153676, None, None, 4, 240, 1000, 1000),
}
NODE_TYPES = {
    "dblp": {"author": 4057, "paper": 14328, "conference": 20},
    "acm": {"paper": 3025, "author": 5912, "subject": 57},
    "imdb": {"movie": 4661, "director": 2270, "actor": 5841},
    "heco_aminer": {"paper": 6564, "author": 13329, "reference": 35890},
}

pytestmark = pytest.mark.slow
each_graph = pytest.mark.parametrize("name", STATISTICS)


@pytest.fixture
def path(name: str, real_graphs: Path) -> Path:
    path = real_graphs / f"{name}.npz"
    if not path.exists() and not os.environ.get("FASTGTN_DATA"):
        pytest.skip(f"{path} is absent")
    return path


@each_graph
def test_statistics(name: str, path: Path) -> None:
    info = describe(*archive.read_labels(path))
    density = info.density if info.density is None else round(info.density, 4)
    measured = (info.nodes, info.edges, info.features, density, info.classes, info.train, info.val, info.test)
    assert measured == STATISTICS[name]
    if name in NODE_TYPES:
        assert {node_type: each.nodes for node_type, each in info.node_types.items()} == NODE_TYPES[name]


@pytest.mark.parametrize("name", sorted(STATISTICS.keys() & catalog.PAPER.keys()))
def test_the_paper_prints_the_same_but_for_one_slip(name: str, path: Path) -> None:
    info, paper = describe(*archive.read_labels(path)).as_json(), catalog.PAPER[name]
    differing = {key for key, value in vars(paper).items() if info[key] != value}
    assert differing == ({"edges"} if name == "dblp" else set())


@each_graph
def test_round_trip(path: Path, tmp_path: Path) -> None:
    graph, task = archive.read(path)
    archive.write(tmp_path / "a.npz", graph, task)
    copy, copied_task = archive.read(tmp_path / "a.npz")
    archive.write(tmp_path / "b.npz", copy, copied_task)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for edge_type in graph.edge_types:
        assert torch.equal(graph[edge_type].edge_index, copy[edge_type].edge_index)
    assert task is not None
    assert copied_task is not None
    assert torch.equal(task.train.nodes, copied_task.train.nodes)
    assert torch.equal(task.val.labels, copied_task.val.labels)


@each_graph
def test_honest_relations_are_not_called_errors(path: Path) -> None:
    assert [finding for finding in check_archive(path) if finding.severity == "error"] == []
