"""Skewed numbers: learned on a logarithmic scale, predicted and scored in the user's unit, explained by factors."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_gamma_deviance, mean_tweedie_deviance, r2_score
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.data.number_unit import NumberUnit, in_unit, usual_scales
from fastgtn.errors import InputError
from fastgtn.runs import Result, fit, load_run
from fastgtn.training.prepare.numbers import number_scales

NO_TRIALS = {"fit": {"trial_seconds": 0}}


def bills(num_users: int = 1200, seed: int = 0) -> tuple[HeteroData, NodeTask, float]:
    """The bills of users double with the worth of the towns of their shops; and the R² of the expected bill."""
    draw = np.random.default_rng(seed)
    worth, town = draw.normal(size=30), draw.integers(30, size=200)
    shops = draw.integers(200, size=(num_users, 3))
    mean = 3 + 1.2 * worth[town[shops]].mean(1)
    noise = 0.3
    bill = np.exp(mean + noise * draw.normal(size=num_users))
    graph = HeteroData()
    graph.name = "bills"
    for name, count in (("user", num_users), ("shop", 200), ("town", 30)):
        graph[name].num_nodes = count
        graph[name].x = torch.from_numpy(draw.normal(size=(count, 3))).float()
    graph["town"].x[:, 0] = torch.from_numpy(worth).float()
    users = np.repeat(np.arange(num_users), 3)
    graph["shop", "visited_by", "user"].edge_index = torch.from_numpy(np.stack([shops.flatten(), users]))
    graph["town", "has", "shop"].edge_index = torch.from_numpy(np.stack([town, np.arange(200)]))
    nodes = draw.permutation(num_users)
    train, val, test = np.split(nodes, [num_users // 2, 3 * num_users // 4])
    task = NodeTask.from_labels("user", "number", bill, train=train, val=val, test=test, class_names=["bill"])
    return graph, task, r2_score(bill[test], np.exp(mean + noise**2 / 2)[test])


@pytest.fixture(scope="module")
def case() -> tuple[HeteroData, NodeTask, float]:
    return bills()


@pytest.fixture(scope="module")
def trained(case: tuple[HeteroData, NodeTask, float]) -> Result:
    return fit(case[0], case[1], NO_TRIALS)


SCALES = {
    "a long tail": (np.exp(np.random.default_rng(0).normal(size=400)), ("log", "linear")),
    "a long tail with zeros": (np.random.default_rng(0).poisson(0.5, 400), ("log", "linear")),
    "a long tail to both sides": (np.random.default_rng(0).standard_t(2, 400), ("linear",)),
    "symmetric": (100 + np.random.default_rng(0).normal(size=400), ("linear",)),
    "constant": (np.ones(20), ("linear",)),
}


@pytest.mark.parametrize("case", SCALES)
def test_the_rule(case: str) -> None:
    numbers, expected = SCALES[case]
    assert usual_scales(torch.from_numpy(numbers)[:, None]) == expected


def test_losses_are_deviances_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    y, z = torch.from_numpy(draw.gamma(2, size=(50, 1))), torch.from_numpy(draw.normal(size=(50, 1)))
    unit = NumberUnit.fit(y, "log")
    learned = unit.learned(y)
    expected = mean_gamma_deviance(learned.flatten(), z.exp().flatten())
    assert float(unit.loss(z, learned, "mse")) == pytest.approx(expected, rel=1e-6)
    y[::3] = 0
    unit = NumberUnit.fit(y, "log")
    learned = unit.learned(y)
    expected = mean_tweedie_deviance(learned.flatten(), z.exp().flatten(), power=1.5)
    assert float(unit.loss(z, learned, "mse")) == pytest.approx(expected, rel=1e-6)
    assert unit.told(learned).flatten().tolist() == pytest.approx(y.flatten().tolist(), rel=1e-6)


def test_a_prediction_is_never_larger_than_the_largest_number_of_the_training() -> None:
    unit = NumberUnit.fit(torch.tensor([[1.0], [3.0]]), "log")
    assert unit.numbers(torch.tensor([[0.0], [200.0], [-1000.0]])).flatten().tolist() == [2.0, 3.0, 0.0]
    assert in_unit(torch.tensor([[7.5]]), None).tolist() == [[7.5]]


def test_a_skewed_number_reaches_the_oracle(case: tuple[HeteroData, NodeTask, float], trained: Result) -> None:
    graph, task, oracle = case
    assert trained.config.fit.number_scale == "log"
    assert trained.test["r2"] > oracle - 0.03
    linear = fit(graph, task, {"fit": {"trial_seconds": 0, "number_scale": "linear"}})
    assert linear.facts.get("largest") is None
    assert trained.test["r2"] > linear.test["r2"]


def test_predictions_scores_and_reasons_agree(trained: Result, tmp_path: Path) -> None:
    numbers = np.array(trained.predict()["predicted"].to_pylist())
    largest = trained.task.train.labels.max().item()
    assert numbers == pytest.approx(np.minimum(np.exp(trained.logits[:, 0].numpy()), largest), rel=1e-5)
    val = trained.task.val
    assert trained.val["r2"] == pytest.approx(r2_score(val.labels[:, 0], numbers[val.nodes]), abs=1e-5)
    trained.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.predict(nodes=["3"])["predicted"].to_pylist() == pytest.approx([numbers[3]], rel=1e-5)
    assert again.evaluate("test")["rmse"] == pytest.approx(trained.test["rmse"], rel=1e-5)
    answer = CliRunner().invoke(app, ["explain", str(tmp_path / "run"), "--node", "3", "--json"])
    facts = json.loads(answer.stdout)
    parts = [facts[key] for key in ("other_paths", "empty_path", "own_features", "bias")]
    total = sum(parts) + sum(path["contribution"] for path in facts["metapaths"])
    assert facts["scale"] == "log"
    assert np.exp(total) == pytest.approx(facts["numbers"]["bill"], rel=1e-3)
    shown = CliRunner().invoke(app, ["explain", str(tmp_path / "run"), "--node", "3"]).stdout
    assert "logarithm of bill" in shown
    assert "times" in shown
    assert CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "p.html")]).exit_code == 0
    page = (tmp_path / "p.html").read_text()
    assert "learned on a logarithmic scale" in page
    assert "the logarithm of the predicted number" in page


@pytest.mark.trials
def test_trials_compare_both_scales(case: tuple[HeteroData, NodeTask, float], tmp_path: Path) -> None:
    graph, task, _ = case
    archive.write(tmp_path / "g.npz", graph, task)
    settings = ["fit.epochs=2", "model.start=screened", "model.gamma=0.2", "model.encoder=linear"]
    command = ["train", "--graph", str(tmp_path / "g.npz"), "--out", str(tmp_path / "run")]
    command += [word for setting in settings for word in ("--set", setting)]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    trials = json.loads((tmp_path / "run" / "decisions.json").read_text())["trials"]
    assert [trial["values"]["fit.number_scale"] for trial in trials][:2] == ["log", "linear"]
    assert "fit.number_scale = " in answer.stdout


def test_what_cannot_be_learned_on_a_logarithmic_scale_is_refused(case: tuple[HeteroData, NodeTask, float]) -> None:
    graph, task, _ = case
    config = {"fit": {"trial_seconds": 0, "number_scale": "log"}}
    below = NodeTask.from_labels("user", "number", np.arange(1200) - 5.0, train=range(600), val=range(600, 900))
    with pytest.raises(InputError, match=r'number_scale = "log" needs numbers that are not negative .* is -5'):
        fit(graph, below, config)
    config["fit"]["number_loss"] = "huber"
    with pytest.raises(InputError, match=r'"huber" belongs to a linear scale'):
        fit(graph, task, config)
    huber = fit(graph, task, {"fit": {"trial_seconds": 0, "number_loss": "huber", "epochs": 1}})
    assert number_scales(task, huber.config.fit) == ("linear",)
