"""Every model that has a name trains, continues, is stored and predicts in the same way."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.bench.paper import BASELINES
from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.config.models import options_by_name
from fastgtn.config.tuned_configs import models
from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.errors import InputError
from fastgtn.runs import train
from fastgtn.runs.train import Listener
from fastgtn.training.loop import State

Academic = tuple[HeteroData, NodeTask]
EVERY = sorted(options_by_name())


def test_all_models_have_names() -> None:
    assert {*BASELINES, "gtn", "fast_gtn"} == set(EVERY)
    assert set(EVERY) < set(models())


@pytest.mark.parametrize("model", EVERY)
def test_a_few_epochs_lower_the_loss(academic: Academic, model: str) -> None:
    options = {"epochs": 40, "patience": 0, "learning_rate": 0.05, "weight_decay": 0.0}
    # wide enough that some units stay active for any seed: eight may all end where a ReLU has no gradient
    config = quick(model={"name": model, "dropout": 0.0, "hidden": 32}, fit=options)
    result = fastgtn.fit(*academic, config)
    assert result.history[-1]["loss"] < 0.9 * result.history[0]["loss"]
    again = fastgtn.fit(*academic, config)
    assert torch.equal(result.logits, again.logits)


@pytest.mark.parametrize("model", EVERY)
def test_a_written_config_is_the_same_config(tmp_path: Path, model: str) -> None:
    config = Config.of({"model": {"name": model}})
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert Config.from_toml(tmp_path / "config.toml") == config
    assert (config.graph.normalize, config.graph.identity) == ("none", False) or model in ("gtn", "fast_gtn")


class Stop(Listener):
    """Ends a training after some epochs."""

    def epoch_done(self, seed: int, state: State) -> None:  # noqa: ARG002
        if state.epoch == 5:
            raise KeyboardInterrupt


@pytest.mark.parametrize("model", BASELINES)
def test_an_interrupted_run_continues_and_predicts_on_another_graph(
    graph_file: Path, tmp_path: Path, model: str
) -> None:
    config = quick(graph_file, model={"name": model})
    whole = train(config, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config, out=tmp_path / "cut", listener=Stop())
    resumed = train(config, out=tmp_path / "cut", resume=True)
    assert (resumed["val"], resumed["test"]) == (whole["val"], whole["test"])
    run = fastgtn.load_run(tmp_path / "cut")
    assert run.evaluate() == pytest.approx(whole["runs"][0]["test"])
    graph, task = make_planted("APA", authors=70, papers=100, venues=9, terms=20, features=8, seed=7)
    if model == "node2vec":  # it knows single nodes only
        with pytest.warns(UserWarning, match="were not seen in training"):
            assert run.predict(graph, task=task).num_rows == 70
    else:
        assert run.predict(graph, task=task).num_rows == 70


@pytest.mark.parametrize("model", BASELINES)
def test_several_labels_and_nodes_without_features(academic: Academic, model: str) -> None:
    graph, task = academic[0].clone(), academic[1]
    for node_type in graph.node_types:
        del graph[node_type].x
    graph.shared_features = False
    labels = torch.zeros(90, 3)
    for split in (task.train, task.val):
        labels[split.nodes, split.labels] = 1.0
    labels[:, 0] = 1.0
    several = NodeTask.from_labels(
        "author",
        "multi",
        labels,
        train=task.train.nodes,
        val=task.val.nodes,
        test=task.test_nodes,
        class_names=task.class_names,
    )
    result = fastgtn.fit(graph, several, quick(model={"name": model}))
    assert result.logits.shape == (90, 3)
    assert set(result.test) >= {"micro_f1", "macro_f1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "gat", "hidden": 64, "heads": 7},
            r"the 7 heads \(model.heads\) share the width model.hidden, which is 64",
        ),
        ({"name": "hgt", "hidden": 4, "heads": 8}, "make it a multiple of 8"),
        ({"name": "gat", "attention_dropout": 1.0}, "model.attention_dropout = 1.0: input should be less than 1"),
        ({"name": "jk_net", "jump": "mean"}, 'model.jump cannot be "mean"'),
        ({"name": "mixhop", "powers": []}, "model.powers"),
        ({"name": "mixhop", "powers": [1, 1]}, r"contains a power twice: \[1, 1\]"),
        ({"name": "mixhop", "powers": [-1]}, "greater than or equal to 0"),
        ({"name": "gcnii", "theta": 0.0}, "model.theta = 0.0"),
        ({"name": "rgcn", "num_bases": 0}, "model.num_bases = 0"),
        ({"name": "han", "max_neighbors": -1}, "model.max_neighbors = -1"),
        ({"name": "node2vec", "walk_length": 1}, "model.walk_length = 1"),
        ({"name": "node2vec", "p": 0.0}, "model.p = 0.0"),
        ({"name": "node2vec", "num_layers": 2}, "model.num_layers"),
        ({"name": "gcn", "heads": 2}, r'no config key "model.heads" in \[model\]'),
        ({"name": "gatt"}, 'model.name cannot be "gatt"; did you mean "gat"'),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Config.of({"model": options})


def test_metapaths_of_han_can_be_written_in_a_config(academic: Academic) -> None:
    written = {"name": "han", "metapaths": ["APVPA", ["PA", "AP"]]}
    config = quick(model=written)
    backbone = fastgtn.fit(*academic, config).model.backbone
    assert [len(path) for path in backbone.metapaths] == [4, 2]
    assert 'metapaths = ["APVPA", ["PA", "AP"]]' in config.to_toml()
    with pytest.raises(InputError, match="HAN computes nodes of the types that its meta-paths"):
        fastgtn.fit(*academic, quick(model={"name": "han", "metapaths": ["PAP"]}))


def test_han_is_refused_on_a_homogeneous_graph() -> None:
    graph = HeteroData()
    graph["node"].x = torch.eye(6)
    graph["node", "edge", "node"].edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    task = NodeTask.from_labels(
        "node",
        "single",
        torch.tensor([0, 1] * 3),
        train=torch.tensor([0, 1]),
        val=torch.tensor([2, 3]),
        test=torch.tensor([4, 5]),
    )
    with pytest.raises(InputError, match="Use a model for homogeneous graphs"):
        fastgtn.fit(graph, task, quick(model={"name": "han"}))


def test_what_learns_no_metapaths_is_not_explained(graph_file: Path, tmp_path: Path) -> None:
    train(quick(graph_file, model={"name": "gat"}), out=tmp_path / "run")
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "run")])
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == (
        "only GTN and FastGTN learn meta-paths, but the model is a GAT. Train one of them to rank meta-paths."
    )
    assert not (tmp_path / "run" / "report.html").exists()


def test_ls_names_all_models() -> None:
    result = CliRunner().invoke(app, ["ls", "--json"])
    assert {*BASELINES} < set(json.loads(result.stdout)["models"])


def test_archives_of_both_kinds_train(academic: Academic, tmp_path: Path) -> None:
    archive.write(tmp_path / "folder", *academic)
    summary = train(quick(tmp_path / "folder", model={"name": "gcn"}, fit={"runs": 2}), out=tmp_path / "run")
    assert len(summary["runs"]) == 2
