"""OAG-shaped graphs: the published sizes, nothing leaked, and venues that the graph tells better than the features."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.data.archive.arrays import ArrayFile
from fastgtn.data.catalog import PAPER
from fastgtn.data.synthetic.oag import RELATIONS, make_oag
from fastgtn.data.synthetic.oag.shape import LEVELS, NAMES, oag_shape
from fastgtn.errors import InputError

SCALE = 0.15


@pytest.fixture(scope="module")
def made() -> tuple[HeteroData, NodeTask]:
    return make_oag("oag-nn", scale=SCALE)


def matrix(graph: HeteroData, source: str, name: str, target: str) -> sp.csr_matrix:
    row, col = graph[source, name, target].edge_index.numpy()
    shape = (graph[source].num_nodes, graph[target].num_nodes)
    return sp.csr_matrix((np.ones(len(row), np.float32), (row, col)), shape=shape)


def mean(rows: sp.csr_matrix) -> sp.csr_matrix:
    return sp.diags(1 / np.maximum(np.asarray(rows.sum(1)).ravel(), 1)) @ rows


def ndcg(task: NodeTask, logits: Tensor) -> float:
    return task.metrics(logits, task.val.labels)["ndcg"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.02])
def test_sizes_are_those_of_the_paper(name, scale):
    shape, paper = oag_shape(name, scale), PAPER[name]
    assert sum(shape.nodes.values()) == round(paper.nodes * scale)
    assert sum(shape.edges.values()) == round(paper.edges * scale / 2)  # counted in both directions
    assert shape.nodes["venue"] == round(paper.classes * scale)
    assert (shape.train, shape.val, shape.test) == tuple(
        round(size * scale) for size in (paper.train, paper.val, paper.test)
    )
    assert min(*shape.nodes.values(), *shape.edges.values()) > 0


def test_the_graph_has_the_sizes_of_its_shape(made):
    graph, task = made
    shape = oag_shape("oag-nn", SCALE)
    assert {t: graph[t].num_nodes for t in graph.node_types} == shape.nodes
    for relation, (source, target, reverse) in RELATIONS.items():
        there = graph[source, relation, target].edge_index
        assert there.size(1) == shape.edges[relation]
        assert there.unique(dim=1).size(1) == there.size(1)
        assert graph[target, reverse, source].edge_index.equal(there.flip(0))
    assert graph.num_edges == 2 * round(PAPER["oag-nn"].edges * SCALE / 2)
    assert all(graph[t].x.shape == (graph[t].num_nodes, 768) for t in graph.node_types)
    assert (task.target, task.kind, task.num_classes) == ("paper", "ranking", shape.nodes["venue"])
    assert (len(task.train), len(task.val), len(task.test_nodes)) == (shape.train, shape.val, shape.test)


def test_splits_follow_the_years_and_citations_the_time(made):
    graph, task = made
    year = graph["paper"].year
    assert (year[task.train.nodes] < 2015).all()
    assert ((year[task.val.nodes] >= 2015) & (year[task.val.nodes] <= 2016)).all()
    assert (year[task.test_nodes] > 2016).all()
    assert year.min() >= 1980
    citing, cited = year[graph["paper", "PP", "paper"].edge_index]
    assert (citing >= cited).all()


def test_the_venues_to_be_predicted_are_hidden(made):
    graph, task = made
    targets = torch.cat([task.train.nodes, task.val.nodes, task.test_nodes])
    shown = graph["paper", "PV", "venue"].edge_index[0]
    assert not torch.isin(targets, shown).any()
    assert len(targets) + len(shown) == graph["paper"].num_nodes
    assert torch.bincount(task.train.labels, minlength=task.num_classes).min() > 0


def test_nobody_is_left_alone(made):
    graph, _ = made
    papers, authors = graph["paper", "PA", "author"].edge_index
    assert len(papers.unique()) == graph["paper"].num_nodes
    assert len(authors.unique()) == graph["author"].num_nodes
    assert len(graph["paper", "PV", "venue"].edge_index[1].unique()) == graph["venue"].num_nodes


@pytest.mark.parametrize("relation", ["PA", "PV", "PP", "AI", *(f"P{level}" for level in LEVELS[2:])])
def test_degrees_have_heavy_tails(made, relation):
    graph, _ = made
    source, target, _ = RELATIONS[relation]
    degree = torch.bincount(graph[source, relation, target].edge_index[1], minlength=graph[target].num_nodes)
    top = degree.sort(descending=True).values[: max(1, len(degree) // 20)]
    assert top.sum() > 0.15 * degree.sum()  # a twentieth of the nodes; even degrees would give 0.05
    assert degree.max() > 4 * degree.float().mean()


def test_other_nodes_have_the_mean_features_of_their_papers(made):
    graph, _ = made
    x = graph["paper"].x.float().numpy()
    for node_type, name in (("author", "AP"), ("venue", "VP"), ("L3", "L3P")):
        expected = mean(matrix(graph, node_type, name, "paper")) @ x
        np.testing.assert_allclose(graph[node_type].x.float().numpy(), expected, atol=0.01)
    expected = mean(matrix(graph, "institute", "IA", "author")) @ graph["author"].x.float().numpy()
    np.testing.assert_allclose(graph["institute"].x.float().numpy(), expected, atol=0.01)


def test_the_graph_tells_venues_and_the_features_alone_do_not(made):
    graph, task = made
    shown = matrix(graph, "paper", "PV", "venue")
    val, train = task.val.nodes.numpy(), task.train.nodes
    popularity = torch.from_numpy(np.asarray(shown.sum(0))).expand(len(val), -1)
    walks = {
        "PAPV": mean(matrix(graph, "paper", "PA", "author"))[val] @ mean(matrix(graph, "author", "AP", "paper")),
        "PPV": mean(matrix(graph, "paper", "PP", "paper"))[val],
        "PL3PV": mean(matrix(graph, "paper", "PL3", "L3"))[val] @ mean(matrix(graph, "L3", "L3P", "paper")),
    }
    by_walk = {name: ndcg(task, torch.from_numpy((walk @ shown).toarray())) for name, walk in walks.items()}
    x = graph["paper"].x.float()
    onehot = torch.nn.functional.one_hot(task.train.labels, task.num_classes).float()
    ridge = x[train].T @ x[train] + 3000 * torch.eye(768)
    by_features = ndcg(task, x[task.val.nodes] @ torch.linalg.solve(ridge, x[train].T @ onehot))
    chance = ndcg(task, torch.rand(len(val), task.num_classes, generator=torch.Generator().manual_seed(0)))
    assert by_features > chance + 0.05
    assert min(by_walk["PAPV"], by_walk["PPV"]) > by_features + 0.1
    assert by_walk["PL3PV"] > chance + 0.05
    assert max(by_walk.values()) > ndcg(task, popularity.float()) + 0.2


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path):
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        graph, task = make_oag("oag-nn", scale=0.01, seed=seed)
        archive.write(tmp_path / folder, graph, task, meta=graph.meta)
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)
    assert (tmp_path / "a" / "edge_0_indices.npy").read_bytes() != (tmp_path / "c" / "edge_0_indices.npy").read_bytes()


@pytest.mark.parametrize(("name", "scale"), [("oag-nn", 0.005), ("oag-ml", 0.002), ("oag-cs", 0.001)])
def test_small_scales_work(name, scale):
    graph, task = make_oag(name, scale=scale)
    assert graph.num_nodes == round(PAPER[name].nodes * scale)
    assert len(task.train) > 0


def test_the_command_writes_an_archive(tmp_path: Path):
    out = tmp_path / "g"
    arguments = ["data", "make", "oag-nn", "--scale", "0.01", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    graph, task = archive.read(out)
    made, _ = make_oag("oag-nn", scale=0.01)
    assert task is not None
    assert task.kind == "ranking"
    assert graph["paper"].year.equal(made["paper"].year)
    assert graph["author"].x.equal(made["author"].x.float())
    assert graph.meta["scale"] == 0.01
    with pytest.raises(InputError, match="already exists"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    result = CliRunner().invoke(app, [*arguments, "--force", "--features", "float32"])
    assert result.exit_code == 0, result.output
    assert ArrayFile(out)["feat_dense"].dtype == np.float32


def test_refusals(tmp_path: Path):
    with pytest.raises(InputError, match='no OAG graph "oag-mm"; did you mean'):
        make_oag("oag-mm")
    for scale in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="must be above 0"):
            make_oag("oag-nn", scale=scale)
    with pytest.raises(InputError, match=r"leaves 66 nodes of oag-nn, fewer than 300: use at least 0\.0045"):
        make_oag("oag-nn", scale=0.001)
    arguments = ["data", "make", "oag-nn", "--scale", "0", "--out", str(tmp_path / "g")]
    with pytest.raises(InputError, match="must be above 0"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert CliRunner().invoke(app, ["data", "make", "oag-xx", "--out", "g"]).exit_code == 2
    assert not (tmp_path / "g").exists()
