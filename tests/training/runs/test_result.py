"""A result behaves the same whether `fit` made it or a folder held it."""

import doctest
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_config import quick
from torch_geometric.data import Data, HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.errors import InputError
from fastgtn.report import render_page, report_tables
from fastgtn.runs import Result, train
from fastgtn.runs import result as result_module

Academic = tuple[HeteroData, NodeTask]


def without_features_of_venues(graph: HeteroData) -> HeteroData:
    """Venues have learned embeddings, which are found again by their numbers."""
    bare = graph.clone()
    bare.shared_features = False
    del bare["venue"].x
    return bare


@pytest.fixture(scope="module", params=["fast_gtn", "embedded", "han"])
def fitted(request: pytest.FixtureRequest, academic: Academic) -> Result:
    graph, task = academic
    graph = without_features_of_venues(graph) if request.param == "embedded" else graph
    name = "han" if request.param == "han" else "fast_gtn"
    return fastgtn.fit(graph, task, quick(model={"name": name}))


@pytest.fixture
def loaded(fitted: Result, tmp_path: Path) -> Result:
    """Saved, moved to another folder, and opened."""
    assert fitted.save(tmp_path / "saved") == tmp_path / "saved"
    shutil.move(tmp_path / "saved", tmp_path / "moved")
    return fastgtn.load_run(tmp_path / "moved")


def test_a_saved_result_predicts_and_scores_the_same(fitted: Result, loaded: Result) -> None:
    assert type(loaded) is type(fitted)
    assert loaded.predict().equals(fitted.predict())
    assert torch.equal(loaded.logits, fitted.logits)
    for split in ("train", "val", "test"):
        assert loaded.evaluate(split) == fitted.evaluate(split)
    assert fitted.evaluate("test") == fitted.test
    for name in ("epoch", "val", "test", "metrics", "history", "seconds", "speed", "propagation", "data_checksum"):
        assert getattr(loaded, name) == getattr(fitted, name), name
    assert loaded.config.model == fitted.config.model
    assert all(np.array_equal(a, b) for a, b in zip(loaded.filters, fitted.filters, strict=True))


def test_a_saved_result_explains_the_same(fitted: Result, loaded: Result) -> None:
    if fitted.config.model.name == "han":
        for result in (fitted, loaded):
            with pytest.raises(InputError, match="meta-paths"):
                result.metapaths()
        return
    assert loaded.metapaths(5).to_dict() == fitted.metapaths(5).to_dict()
    assert [path.name for path in loaded.metapaths(3)] == [path.name for path in fitted.metapaths(8)[:3]]
    name = fitted.task.class_names[1]
    assert loaded.explain(7) == fitted.explain(7) == fitted.explain("7")
    assert loaded.explain(7, of_class=name, top=2).logit == fitted.explain(7, of_class=name).logits[1]
    with pytest.raises(InputError, match='no class "topic 9"; did you mean'):
        fitted.explain(7, of_class="topic 9")
    with pytest.raises(InputError, match='no author node "nobody"'):
        loaded.explain("nobody")


def test_a_saved_result_has_the_same_report(fitted: Result, loaded: Result, tmp_path: Path) -> None:
    before, after = report_tables([fitted], nodes=5)[0], report_tables([loaded], nodes=5)[0]
    assert (not after.notes) == after.has_paths
    same = {"title": "", "folder": "", "config": ""}  # what a run is called, and where its graph is
    assert render_page([replace(before, **same)]) == render_page([replace(after, **same)])
    page = fitted.report(tmp_path / "page.html", nodes=5)
    assert "result.explain(" in page.read_text()
    with pytest.raises(InputError, match="already exists"):
        fitted.report(page)
    loaded.report(page, nodes=5, force=True)
    assert f"fastgtn explain {loaded.run} --node" in page.read_text()


def test_every_command_reads_a_saved_result(academic: Academic, tmp_path: Path) -> None:
    result = fastgtn.fit(*academic, quick())
    folder = str(result.save(tmp_path / "run"))
    for words in (
        ["evaluate", folder],
        ["predict", folder, "--out", str(tmp_path / "p.csv")],
        ["explain", folder, "--faithfulness"],
        ["explain", folder, "--node", "3"],
        ["report", folder, "--nodes", "2"],
        ["train", "--resume", "--out", folder],
    ):
        answer = CliRunner().invoke(app, words)
        assert answer.exit_code == 0, (words, answer.output)
    assert fastgtn.load_run(folder).test == result.test


def test_a_result_is_not_saved_over_something_else(academic: Academic, tmp_path: Path) -> None:
    result = fastgtn.fit(*academic, quick(fit={"epochs": 1}))
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="already exists and is not empty: choose another folder"):
            result.save(place)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_drawn_validation_split_and_a_threshold_are_kept(academic: Academic, tmp_path: Path) -> None:
    graph, task = academic
    nodes = torch.cat([task.train.nodes, task.val.nodes])
    sets = task._labels[:, None] == torch.arange(3)
    drawn = NodeTask.from_labels("author", "multi", sets, train=nodes, test=task.test_nodes, seed=3)
    result = fastgtn.fit(graph, replace(drawn, threshold=0.35), quick())
    result.save(tmp_path / "run")
    again = fastgtn.load_run(tmp_path / "run")
    assert torch.equal(again.task.val.nodes, drawn.val.nodes)
    assert again.task.threshold == 0.35
    assert again.evaluate("val") == result.evaluate("val") == result.val
    assert again.predict().equals(result.predict())
    assert again.data_checksum == again.own.checksum == result.data_checksum


def test_a_stored_run_can_be_saved_elsewhere_without_its_graph(graph_file: Path, tmp_path: Path) -> None:
    train(quick(graph_file), out=tmp_path / "run")
    first = fastgtn.load_run(tmp_path / "run")
    first.save(tmp_path / "copy")
    assert not (tmp_path / "copy" / "graph.npz").exists()
    assert fastgtn.load_run(tmp_path / "copy").predict().equals(first.predict())


def test_some_nodes_are_predicted_by_number_mask_or_id(academic: Academic) -> None:
    graph, task = academic[0].clone(), academic[1]
    graph["author"].node_id = np.array([f"a{n}" for n in range(90)])
    result = fastgtn.fit(graph, task, quick(fit={"epochs": 2}))
    whole = result.predict()
    expected = whole.take([4, 2])
    assert result.predict(nodes=[4, 2]).equals(expected)
    assert result.predict(nodes=torch.tensor([4, 2])).equals(expected)
    assert result.predict(nodes=["a4", "a2"]).equals(expected)
    assert result.predict(nodes=torch.arange(90) < 3).equals(whole.slice(0, 3))
    assert result.predict(graph, [4, 2], task=task).equals(expected)
    for wrong in ([90], [-1], [[1]], [0.5], ["a4", 2]):
        with pytest.raises(InputError, match="nodes must be numbers of author nodes between 0 and 89"):
            result.predict(nodes=wrong)
    with pytest.raises(InputError, match='no author node "a90"'):
        result.predict(nodes=["a90"])


def test_the_graph_of_a_run_may_move(graph_file: Path, tmp_path: Path) -> None:
    train(quick(graph_file), out=tmp_path / "run")
    before = fastgtn.load_run(tmp_path / "run")
    scores = before.evaluate()
    moved = str(graph_file.rename(tmp_path / "elsewhere.npz"))
    run = str(tmp_path / "run")
    commands: dict[str, list[str]] = {
        "evaluate": [],
        "predict": ["--out", str(tmp_path / "p.csv")],
        "explain": [],
        "report": ["--nodes", "2"],
    }
    for command, more in commands.items():
        answer = CliRunner().invoke(app, [command, run, *more])
        assert isinstance(answer.exception, InputError)
        assert "no longer exists: give its new path with --graph" in str(answer.exception)
        answer = CliRunner().invoke(app, [command, run, *more, "--graph", moved])
        assert answer.exit_code == 0, (command, answer.output)
    again = fastgtn.load_run(run, graph=moved)
    assert again.evaluate() == scores
    assert report_tables([again], nodes=2)[0].notes == ()


def test_a_graph_without_labels_is_predicted_but_not_scored(graph_file: Path, tmp_path: Path) -> None:
    train(quick(graph_file), out=tmp_path / "run")
    archive.write(tmp_path / "bare.npz", archive.read(graph_file)[0], None)
    run = fastgtn.load_run(tmp_path / "run", graph=tmp_path / "bare.npz")
    assert set(run.predict()["split"].to_pylist()) == {"none"}
    with pytest.raises(InputError, match='the graph has no labels and splits of "author": predict works without them'):
        run.evaluate()


def with_masks(graph: HeteroData, task: NodeTask) -> HeteroData:
    """The graph as a dataset of PyG would hold it."""
    labelled = graph.clone()
    labelled["author"].y = task._labels
    for name, nodes in (("train", task.train.nodes), ("val", task.val.nodes), ("test", task.test_nodes)):
        labelled["author"][f"{name}_mask"] = torch.zeros(90, dtype=torch.bool).index_fill_(0, nodes, True)
    return labelled


def same_splits(one: NodeTask, other: NodeTask) -> bool:
    nodes = [[task.train.nodes, task.val.nodes, task.test_nodes, task._labels] for task in (one, other)]
    return all(torch.equal(a.sort().values, b.sort().values) for a, b in zip(*nodes, strict=True))


def test_fit_reads_labels_and_masks_as_datasets_of_pyg_have_them(academic: Academic) -> None:
    graph = with_masks(*academic)
    assert same_splits(NodeTask.from_hetero(graph), academic[1])
    assert same_splits(NodeTask.from_hetero(graph, "author"), academic[1])
    result = fastgtn.fit(graph, config=quick())
    assert result.task.kind == "single"
    assert result.evaluate(graph=graph) == result.evaluate() == result.test
    assert result.metapaths(1)[0].rank == 1


def test_a_graph_without_reverse_relations_is_noticed() -> None:
    """Authors write papers, and nothing leads back: the usual slip of a first graph."""
    data = HeteroData()
    data["author"].x, data["paper"].num_nodes = torch.eye(4), 3
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 2]])
    task = NodeTask.from_labels("author", "single", [0, 0, 1, 1], train=[0, 2], val=[1], test=[3])
    config = {"model": {"path_length": 2, "num_channels": 1, "start": "uniform"}, "fit": {"epochs": 1}}
    with pytest.warns(UserWarning, match='no relation leads to nodes of type "author".* graph.reverse = true'):
        assert not fastgtn.fit(data, task, config).metapaths(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert fastgtn.fit(data, task, config | {"graph": {"reverse": True}}).metapaths(3)[0].name == "AP"


def test_fit_reads_a_homogeneous_graph(academic: Academic, tmp_path: Path) -> None:
    graph = with_masks(*academic)
    draw = torch.Generator().manual_seed(0)
    pairs = torch.randperm(90 * 90, generator=draw)[:400]  # distinct: a stored graph adds repeated edges up
    index, weight = torch.stack([pairs // 90, pairs % 90]), torch.rand(400, 1, generator=draw)
    masks = {name: graph["author"][name] for name in ("train_mask", "val_mask", "test_mask")}
    data = Data(x=graph["author"].x, edge_index=index, y=graph["author"].y, edge_attr=weight, **masks)
    result = fastgtn.fit(data, config=quick())
    assert result.schema.edge_types == (("node", "edge", "node"),)
    assert torch.equal(result.graph["node", "edge", "node"].edge_weight, data.edge_attr.squeeze(1))
    result.save(tmp_path / "run")
    assert fastgtn.load_run(tmp_path / "run").predict().equals(result.predict(data, task=result.task))


def test_the_kind_of_a_task_follows_from_its_labels(academic: Academic) -> None:
    graph = with_masks(*academic)
    store = graph["author"]
    single = store.y
    store.y = single[:, None]
    assert NodeTask.from_hetero(graph).kind == "single"
    sets = single[:, None] == torch.arange(3)
    for y in (sets, sets.long(), sets.float()):
        store.y = y
        assert (NodeTask.from_hetero(graph).kind, NodeTask.from_hetero(graph).num_classes) == ("multi", 3)
    store.y = single.numpy()
    assert NodeTask.from_hetero(graph, kind="ranking").kind == "ranking"
    store.y = single.float()
    assert NodeTask.from_hetero(graph, kind="single").num_classes == 3
    assert NodeTask.from_hetero(graph, kind="number").kind == "number"
    for y in (torch.rand(90), torch.rand(90, 1), torch.rand(90, 2)):
        store.y = y
        assert (NodeTask.from_hetero(graph).kind, NodeTask.from_hetero(graph).num_classes) == ("number", y[0].numel())
    assert fastgtn.fit(graph, config=quick(fit={"epochs": 1})).test["mae"] > 0
    store.y = single
    several = torch.stack([store.train_mask, ~store.train_mask], 1)
    store.train_mask = several  # the first of several splits is taken
    assert len(NodeTask.from_hetero(graph).train) == int(several[:, 0].sum())
    del store.val_mask
    assert NodeTask.from_hetero(graph).val_is_drawn


def _two_labelled(graph: HeteroData) -> None:
    graph["paper"].y, graph["paper"].train_mask = torch.zeros(120).long(), torch.ones(120).bool()


def _set(name: str, value: Any) -> Any:
    return lambda graph: graph["author"].__setattr__(name, value)


def _without(*names: str) -> Any:
    return lambda graph: [graph["author"].__delitem__(name) for name in names]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            _two_labelled,
            r"several node types have labels and masks \(author, paper\): choose one with",
        ),
        (_without("y"), r"no node type of the graph has labels: set y, train_mask, val_mask and test_mask of one of"),
        (_without("train_mask"), r"nodes of type author have labels \(y\) but no train_mask: set"),
        (_without("test_mask"), r'nodes of type "author" have labels but no test_mask: set'),
        (_set("val_mask", torch.ones(90).bool()), "the val split repeats a node or shares one with another split"),
        (_set("train_mask", torch.zeros(90).bool()), "the train split is empty: at least one labelled node"),
        (_set("train_mask", torch.arange(90)), 'train_mask of "author" must be true or false for each of its 90 nodes'),
        (_set("test_mask", torch.ones(5).bool()), r"test_mask of .* but has shape \[5\]"),
        (_set("val_mask", "all"), r'val_mask of "author" must be true or false'),
        (_set("y", torch.full((90,), -1)), "none of the 90 nodes has a label"),
        (_set("y", torch.ones(90)), r"are whole numbers of type torch.float32: use y.long\(\) if they are classes, or"),
        (_set("y", torch.full((90,), torch.nan)), "none of the 90 nodes has a number to learn from"),
        (_set("y", torch.rand(90) / 0), r"are whole numbers of type torch.float32"),
        (_set("y", torch.full((90, 2), 2)), 'labels of a "multi" task must be zeros and ones'),
        (_set("y", torch.zeros(5).long()), r"must be a tensor \[90\] of classes or numbers, .* but got shape \[5\]"),
        (_set("y", torch.zeros(90, 2, 2)), r"but got shape \[90, 2, 2\]"),
        (_set("y", ["a"] * 90), "but got list"),
        (
            _set("y", -torch.ones(90).long().index_fill_(0, torch.tensor([0]), -2)),
            "split have no label",
        ),
    ],
)
def test_mistakes_in_labels_and_masks_are_named(academic: Academic, damage: Any, message: str) -> None:
    graph = with_masks(*academic)
    damage(graph)
    with pytest.raises(InputError, match=message):
        fastgtn.fit(graph, config=quick())


def test_mistakes_in_the_node_type_are_named(academic: Academic) -> None:
    graph = with_masks(*academic)
    with pytest.raises(InputError, match='no node type "autor"; did you mean "author"'):
        NodeTask.from_hetero(graph, "autor")
    with pytest.raises(InputError, match=r'nodes of type "paper" have no labels: set data\["paper"\]\.y'):
        NodeTask.from_hetero(graph, "paper")
    with pytest.raises(InputError, match="a graph must be a HeteroData or Data of PyG, but got dict"):
        fastgtn.fit({})
    with pytest.raises(InputError, match="the graph needs edge_index"):
        fastgtn.fit(Data(x=torch.ones(3, 1)))


def test_the_example_of_the_docs_runs() -> None:
    outcome = doctest.testmod(result_module)
    assert (outcome.attempted, outcome.failed) == (4, 0)


def test_the_public_names_are_there() -> None:
    for name in fastgtn.__all__:
        assert getattr(fastgtn, name) is not None
    wanted = {
        "NodeTask",
        "Result",
        "explain_node",
        "LayerSampler",
        "NeighborSampler",
        "write_report",
        "fit",
        "load_run",
    }
    assert wanted <= set(fastgtn.__all__)
