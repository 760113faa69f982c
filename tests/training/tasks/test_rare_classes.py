"""Rare classes: metrics that can tell, a selection that uses them, calibrated probabilities and a threshold."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks import check_graph
from fastgtn.data.decision import choose_decision
from fastgtn.errors import InputError
from fastgtn.runs import Result, fit


def fraud(num_customers: int = 4000, share: float = 0.02, seed: int = 0) -> tuple[HeteroData, NodeTask, np.ndarray]:
    """Fraud follows the risk of the places of a customer's devices; returns the true risk of each, too."""
    draw = np.random.default_rng(seed)
    num_devices, num_places = 800, 40
    risk = draw.normal(size=num_places)
    place = draw.integers(num_places, size=num_devices)
    used = draw.integers(num_devices, size=(num_customers, 3))
    score = risk[place[used]].mean(1)
    threshold = np.quantile(score + 0.15 * draw.normal(size=num_customers), 1 - share)
    labels = (score + 0.15 * draw.normal(size=num_customers) > threshold).astype(int)
    graph = HeteroData()
    graph.name = "fraud"
    for name, count in (("customer", num_customers), ("device", num_devices), ("place", num_places)):
        graph[name].num_nodes = count
        graph[name].x = 0.1 * torch.from_numpy(draw.normal(size=(count, 3))).float()
    graph["place"].x[:, 0] = torch.from_numpy(risk).float()
    customers = np.repeat(np.arange(num_customers), 3)
    graph["device", "used_by", "customer"].edge_index = torch.from_numpy(np.stack([used.flatten(), customers]))
    graph["place", "has", "device"].edge_index = torch.from_numpy(np.stack([place, np.arange(num_devices)]))
    order = torch.from_numpy(draw.permutation(num_customers))
    parts = {"train": order[: num_customers // 2], "val": order[num_customers // 2 : -1000], "test": order[-1000:]}
    task = NodeTask.from_labels("customer", "single", labels, class_names=["honest", "fraud"], **parts)
    return graph, task, score


@pytest.fixture(scope="module")
def case() -> tuple[HeteroData, NodeTask, np.ndarray]:
    return fraud(seed=4)


@pytest.fixture(scope="module")
def trained(case: tuple[HeteroData, NodeTask, np.ndarray]) -> Result:
    config = {"fit": {"epochs": 60, "calibrate": "temperature", "aim": "precision >= 0.9"}}
    return fit(case[0], case[1], config)


def task_of(labels: torch.Tensor, num_classes: int) -> NodeTask:
    return NodeTask.from_labels("a", "single", labels, train=range(len(labels)), val=[], num_classes=num_classes)


def test_metrics_equal_those_of_scikit_learn() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 2, generator=draw, dtype=torch.float64).round(decimals=1)  # with ties
    labels = (torch.rand(300, generator=draw) < 0.1).long()
    found = task_of(labels, 2).metrics(logits, labels)
    p, y = logits.softmax(1)[:, 1].numpy(), labels.numpy()
    assert found["roc_auc"] == pytest.approx(reference.roc_auc_score(y, p))
    assert found["average_precision"] == pytest.approx(reference.average_precision_score(y, p))
    assert found["log_loss"] == pytest.approx(reference.log_loss(y, p))
    assert found["brier"] == pytest.approx(reference.brier_score_loss(y, p))
    assert task_of(labels, 2).metrics(logits.split(7), labels) == pytest.approx(found)
    given = logits.argmax(1).numpy()
    assert found["precision"] == pytest.approx(reference.precision_score(y, given))
    assert found["recall"] == pytest.approx(reference.recall_score(y, given))
    top = np.argsort(-p, kind="stable")[:100]
    assert found["precision_at_k"] == pytest.approx(y[top].mean())
    assert found["recall_at_k"] == pytest.approx(y[top].sum() / y.sum())


def test_metrics_of_several_classes_are_means() -> None:
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(200, 4, generator=draw, dtype=torch.float64)
    labels = torch.randint(4, (200,), generator=draw)
    found = task_of(labels, 4).metrics(logits, labels)
    p, y = logits.softmax(1).numpy(), labels.numpy()
    assert found["roc_auc"] == pytest.approx(reference.roc_auc_score(y, p, multi_class="ovr"))
    one_hot = np.eye(4)[y]
    assert found["average_precision"] == pytest.approx(reference.average_precision_score(one_hot, p))
    assert found["log_loss"] == pytest.approx(reference.log_loss(y, p))
    given = logits.argmax(1).numpy()
    assert found["precision"] == pytest.approx(reference.precision_score(y, given, average="macro"))
    assert found["recall"] == pytest.approx(reference.recall_score(y, given, average="macro"))


def test_calibration_error_of_perfect_and_of_boastful_probabilities() -> None:
    labels = torch.tensor([1] * 8 + [0] * 2 + [0] * 10)
    honest = torch.tensor([[0.0, np.log(4)]] * 10 + [[0.0, -30.0]] * 10)
    boastful = torch.tensor([[0.0, 30.0]] * 10 + [[0.0, -30.0]] * 10)
    task = task_of(labels, 2)
    assert task.metrics(honest, labels)["ece"] == pytest.approx(0, abs=1e-6)
    assert task.metrics(boastful, labels)["ece"] == pytest.approx(0.1, abs=1e-6)


def test_the_rarer_class_is_asked_for_and_decides_the_metric() -> None:
    labels = torch.tensor([0] * 3 + [1] * 17)
    task = task_of(labels, 2)
    assert (task.positive, task.has_rare_class, task.selection_metric) == (0, True, "average_precision")
    assert task_of(torch.tensor([0] * 8 + [1] * 12), 2).selection_metric == "micro_f1"
    assert task_of(torch.tensor([0] + [1] * 20 + [2] * 20), 3).selection_metric == "macro_f1"
    assert task_of(torch.tensor([0] * 8 + [1] * 20 + [2] * 20), 3).selection_metric == "micro_f1"


@pytest.mark.trials
def test_defaults_reach_the_oracle_on_two_percent(case: tuple[HeteroData, NodeTask, np.ndarray]) -> None:
    graph, task, score = case
    result = fit(graph, task)
    test = task.test_nodes.numpy()
    truth = task._labels.numpy()[test]
    oracle = reference.average_precision_score(truth, score[test])
    assert result.test["average_precision"] > oracle - 0.03
    assert result.chosen_by == "average_precision"
    assert result.facts["decision"]["aim"] == "best f1"  # without an aim the rare class is still predicted
    assert "fraud" in result.predict()["predicted"].to_pylist()
    assert result.facts["majority"] == pytest.approx(1 - task.val.labels.float().mean().item(), abs=1e-6)


def test_temperature_and_threshold_are_stored_and_used(trained: Result, tmp_path: Path) -> None:
    decision = trained.facts["decision"]
    assert decision["class_name"] == "fraud"
    assert decision["precision"] >= 0.9
    table = trained.predict()
    p, given = np.array(table["p_fraud"].to_pylist()), np.array(table["predicted"].to_pylist())
    assert ((p >= decision["threshold"]) == (given == "fraud")).all()
    found = given[trained.task.test_nodes.numpy()] == "fraud"
    truth = trained.task._labels.numpy()[trained.task.test_nodes.numpy()] == 1
    assert trained.test["precision"] == pytest.approx(truth[found].mean())  # scores follow the threshold
    assert trained.test["recall"] == pytest.approx(found[truth].mean())
    assert trained.test["micro_f1"] == pytest.approx((found == truth).mean())
    error = np.sqrt(0.9 * 0.1 / found.sum())
    assert found.sum() >= 3
    assert truth[found].mean() >= 0.9 - 2 * error
    trained.save(tmp_path / "run")
    answer = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")])
    assert answer.stdout.startswith("test    average precision")  # the metric that chose the epoch comes first
    share = 100 * (1 - truth.mean())
    assert f'always guessing "honest" scores micro-F1 {share:.2f} on test' in answer.stdout
    assert "calibration error" in answer.stdout
    answer = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")])
    assert answer.exit_code == 0, answer.output
    page = (tmp_path / "page.html").read_text()
    assert all(title in page for title in ("precision and recall", "reliability", "test average precision"))


def test_a_threshold_for_precision_holds_on_nodes_that_did_not_choose_it() -> None:
    """Over many draws of 30 positives among 1,000 validation nodes, an aim of 0.9 is reached on the mean."""
    found = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        truth = torch.from_numpy(draw.random(6000) < 0.03)
        p = torch.from_numpy(draw.normal(size=6000) + 3 * truth.numpy()).sigmoid()
        decision = choose_decision(p[:1000], truth[:1000], "precision >= 0.9", class_name="x")
        given = p[1000:] >= decision.threshold
        found.append(float(truth[1000:][given].double().mean()))
    assert np.mean(found) > 0.88
    assert np.mean(np.array(found) > 0.8) > 0.85


def test_temperature_lowers_the_log_loss_of_overconfident_scores() -> None:
    from fastgtn.training.finish.label_shift import temperature

    labels = (torch.rand(500, generator=torch.Generator().manual_seed(0)) < 0.3).long()
    logits = torch.stack([torch.zeros(500), (labels * 2 - 1) * torch.linspace(-2, 6, 500)], 1)
    scale = temperature(10 * logits, labels)
    before, after = (task_of(labels, 2).metrics(f * 10 * logits, labels)["log_loss"] for f in (1.0, float(scale)))
    assert float(scale) < 0.5
    assert after < before


def test_an_aim_that_cannot_be_reached_and_others() -> None:
    p, y = torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([0, 1, 1, 0])
    near = choose_decision(p, y, "precision >= 0.9", class_name="x")
    assert (near.is_reached, near.threshold) == (False, pytest.approx(0.7))
    assert near.precision == pytest.approx(2 / 3)
    best = choose_decision(p, y, "best f1", class_name="x")
    assert (best.is_reached, best.threshold) == (True, pytest.approx(0.7))
    full = choose_decision(p, y, "recall >= 1", class_name="x")
    assert (full.is_reached, full.recall) == (True, 1)
    for wrong in ("precision > 0.9", "f1 >= 0.5", "precision >= 2"):
        with pytest.raises(InputError, match=r'an aim is "precision >= 0.9" or'):
            choose_decision(p, y, wrong, class_name="x")


def test_options_for_two_classes_are_refused_elsewhere(case: tuple[HeteroData, NodeTask, np.ndarray]) -> None:
    graph, task, _ = case
    labels = np.arange(4000) % 3
    three = NodeTask.from_labels("customer", "single", labels, train=range(2000), val=range(2000, 4000))
    with pytest.raises(InputError, match=r"threshold between two classes .* 3 classes"):
        fit(graph, three, {"fit": {"aim": "recall >= 0.5"}})
    number = NodeTask.from_labels("customer", "number", labels / 2, train=range(2000), val=range(2000, 4000))
    with pytest.raises(InputError, match=r'calibrate = "temperature" needs one class per node'):
        fit(graph, number, {"fit": {"calibrate": "temperature"}})
    assert task.kind == "single"


def test_check_and_train_warn(case: tuple[HeteroData, NodeTask, np.ndarray], tmp_path: Path) -> None:
    graph, task, _ = case
    found = {finding.check: finding for finding in check_graph(graph, Labels.of(task), path_length=2)}
    assert 'always guessing "honest"' in found["class balance"].message
    archive.write(tmp_path / "g.npz", graph, task)
    command = ["train", "--graph", str(tmp_path / "g.npz"), "--set", "fit.epochs=2", "--out", str(tmp_path / "run")]
    answer = CliRunner().invoke(app, [*command, "--aim", "precision >= 0.5"])
    assert answer.exit_code == 0, answer.output
    assert re.search(r'balance honest 98.3 % · fraud 1.7 % .* always guessing "honest" scores micro-F1', answer.stdout)
    decision = r"decide  fraud if its probability is at least 0\.\d+, for .* on val, precision .* and recall .* on test"
    assert re.search(decision, answer.stdout)
    assert "epochs are chosen by average precision" in answer.stderr
