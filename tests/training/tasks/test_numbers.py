"""Numbers as targets: learned in deviations, told in the user's unit, explained by paths."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.data import NodeTask, archive, tables
from fastgtn.data.number_unit import plain_number
from fastgtn.errors import InputError
from fastgtn.explain import explain_node, rank_metapaths
from fastgtn.runs import fit, load_run, train


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10936.4, "10,936"),
        (1234567.0, "1,234,567"),
        (48.256, "48.26"),
        (0.392, "0.392"),
        (-2608.0, "-2,608"),
        (0.0, "0"),
        (0.00012, "0.00012"),
        (2.5e12, "2.5e+12"),
        (3e-7, "3e-07"),
        (100.0, "100"),
    ],
)
def test_numbers_in_the_unit_of_the_user_are_written_out(value: float, text: str) -> None:
    assert plain_number(value) == text


def shops(num_users: int = 600, seed: int = 0) -> tuple[HeteroData, NodeTask, float]:
    """Users spend what the towns of their shops are worth, in thousands; and the R² of the oracle."""
    draw = np.random.default_rng(seed)
    num_shops, num_towns = 120, 15
    worth = draw.normal(size=num_towns)
    town = draw.integers(num_towns, size=num_shops)
    visited = [draw.choice(num_shops, 3, replace=False) for _ in range(num_users)]
    mean = np.array([worth[town[v]].mean() for v in visited])
    noise = draw.normal(scale=0.2 * mean.std(), size=num_users)
    spent = 5000 + 800 * (mean + noise)
    graph = HeteroData()
    graph.name = "spending"
    for name, count in (("user", num_users), ("shop", num_shops), ("town", num_towns), ("friend", 50)):
        graph[name].num_nodes = count
        graph[name].x = torch.from_numpy(draw.normal(size=(count, 4))).float() * (0.1 if name != "town" else 1)
    graph["town"].x[:, 0] = torch.from_numpy(worth).float()
    users = np.repeat(np.arange(num_users), 3)
    graph["shop", "visited_by", "user"].edge_index = torch.from_numpy(np.stack([np.concatenate(visited), users]))
    graph["town", "has", "shop"].edge_index = torch.from_numpy(np.stack([town, np.arange(num_shops)]))
    friends = torch.from_numpy(np.stack([draw.integers(50, size=2 * num_users), np.repeat(np.arange(num_users), 2)]))
    graph["friend", "knows", "user"].edge_index = friends
    nodes = torch.randperm(num_users, generator=torch.Generator().manual_seed(seed))
    train_, val, test = nodes[: num_users // 2], nodes[num_users // 2 : -200], nodes[-200:]
    task = NodeTask.from_labels("user", "number", spent, train=train_, val=val, test=test, class_names=["spent"])
    oracle = r2_score(spent[test], 5000 + 800 * mean[test])
    return graph, task, oracle


@pytest.fixture(scope="module")
def spending() -> tuple[HeteroData, NodeTask, float]:
    return shops()


def test_metrics_are_those_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    true, predicted = draw.normal(1e6, 3, size=(50, 2)), draw.normal(1e6, 3, size=(50, 2))
    task = NodeTask.from_labels("a", "number", true, train=range(50), val=[])
    true = task.train.labels.double().numpy()  # labels have single precision
    found = task.metrics(torch.from_numpy(predicted), task.train.labels.double())
    assert found["r2"] == pytest.approx(r2_score(true, predicted))
    assert found["mae"] == pytest.approx(mean_absolute_error(true, predicted))
    assert found["rmse"] == pytest.approx(np.sqrt(((true - predicted) ** 2).mean()))
    blocks = task.metrics(torch.from_numpy(predicted).split(7), task.train.labels.double())
    assert blocks == found
    assert root_mean_squared_error(true[:, 0], predicted[:, 0]) > 0


def test_the_model_learns_deviations_and_scores_in_the_unit(spending: tuple[HeteroData, NodeTask, float]) -> None:
    _, task, _ = spending
    learned = task.standardized()
    assert float(learned.train.labels.mean()) == pytest.approx(0, abs=1e-5)
    assert float(learned.train.labels.std(correction=0)) == pytest.approx(1, abs=1e-5)
    guess = torch.randn(len(task.val), 1)
    assert learned.unit is not None
    unit = learned.unit
    in_unit = task.metrics(guess * unit.deviation + unit.offset, task.val.labels)
    assert learned.metrics(guess, learned.val.labels) == pytest.approx(in_unit, rel=1e-4)


def test_a_planted_number_is_found_along_its_path(spending: tuple[HeteroData, NodeTask, float]) -> None:
    graph, task, oracle = spending
    result = fit(graph, task)
    assert result.test["r2"] > oracle - 0.03
    assert result.test["mae"] < 250  # of a spread of hundreds, in the user's unit
    stack, features = result.inputs.stack, result.inputs.features
    first = rank_metapaths(result.model, stack, "user", features=features).paths[0]
    assert first.path.types == ("user", "shop", "town")
    reasons = explain_node(result.model, stack, features, "user", 3)
    parts = [reason.contribution for reason in reasons.reasons]
    total = sum(parts) + reasons.own + reasons.empty + reasons.bias + reasons.others
    assert total == pytest.approx(float(result.logits[3, 0]), rel=1e-4)
    assert 3000 < total < 7000


def test_huber_resists_a_wrong_label(spending: tuple[HeteroData, NodeTask, float]) -> None:
    graph, task, _ = spending
    assert float(replace(task, number_loss="huber").loss(torch.tensor([[5.0]]), torch.tensor([[0.0]]))) == 4.5
    labels = task.train.labels.clone()
    labels[::50] = 1e6
    spoilt = replace(task, train=replace(task.train, labels=labels))
    scores = [fit(graph, spoilt, {"fit": {"epochs": 30, "number_loss": n}}).test["mae"] for n in ("mse", "huber")]
    assert scores[1] < scores[0]


def test_several_numbers_and_gaps() -> None:
    labels = np.array([[1.0, 2], [3, np.nan], [5, 6], [7, 8]])
    task = NodeTask.from_labels("a", "number", labels, train=[0, 2], val=[3], class_names=["x", "y"])
    assert (task.num_classes, task.train.labels.tolist()) == (2, [[1, 2], [5, 6]])
    with pytest.raises(InputError, match="1 nodes of the train split have no label"):
        NodeTask.from_labels("a", "number", labels, train=[0, 1], val=[3])
    with pytest.raises(InputError, match="found infinity"):
        NodeTask.from_labels("a", "number", [1.0, np.inf], train=[0], val=[1])
    with pytest.raises(InputError, match="none of the 2 nodes has a number"):
        NodeTask.from_labels("a", "number", [np.nan, np.nan], train=[0], val=[1])
    with pytest.raises(InputError, match=r"cannot have shape \[1, 1, 1\]"):
        NodeTask.from_labels("a", "number", [[[1.0]]], train=[0], val=[])
    with pytest.raises(InputError, match="no classes to balance"):
        task.balanced()


def test_classes_only_options_are_refused(spending: tuple[HeteroData, NodeTask, float]) -> None:
    graph, task, _ = spending
    with pytest.raises(InputError, match=r"class_weights = .* is for classes, but the task predicts numbers"):
        fit(graph, task, {"fit": {"class_weights": "balanced"}})
    with pytest.raises(InputError, match=r'select_by = "micro_f1" needs a .* task, but this one is "number"'):
        fit(graph, task, {"fit": {"select_by": "micro_f1"}})


def test_an_epoch_may_be_chosen_by_the_error(spending: tuple[HeteroData, NodeTask, float]) -> None:
    graph, task, _ = spending
    result = fit(graph, task, {"fit": {"epochs": 10, "select_by": "mae"}})
    assert result.val["mae"] == min(record["val_mae"] for record in result.history)


def test_from_the_archive_to_predictions_reasons_and_a_page(
    spending: tuple[HeteroData, NodeTask, float], tmp_path: Path
) -> None:
    graph, task, _ = spending
    archive.write(tmp_path / "g.npz", graph, task)
    _, stored = archive.read(tmp_path / "g.npz")
    assert stored is not None
    assert (stored.kind, stored.class_names) == ("number", ("spent",))
    assert torch.equal(stored.val.labels, task.val.labels)
    values = {"dataset": str(tmp_path / "g.npz"), "fit": {"epochs": 5}}
    train(Config.of(values), out=tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.folder is not None
    table = pyarrow.parquet.read_table(run.folder / "predictions.parquet")
    assert table.column_names == ["node", "split", "predicted"]
    assert 4000 < np.mean(table["predicted"].to_pylist()) < 6000
    assert run.evaluate("val")["r2"] == pytest.approx(run.val["r2"], abs=1e-4)
    answer = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")])
    assert "R² " in answer.stdout
    assert "MAE " in answer.stdout
    answer = CliRunner().invoke(app, ["explain", str(tmp_path / "run"), "--node", "3", "--json"])
    facts = json.loads(answer.stdout)
    assert facts["numbers"]["spent"] == pytest.approx(facts["logit"], rel=1e-4)
    assert "spent" in CliRunner().invoke(app, ["explain", str(tmp_path / "run"), "--node", "3"]).stdout
    answer = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")])
    assert answer.exit_code == 0, answer.output
    page = (tmp_path / "page.html").read_text()
    assert "Largest errors" in page
    assert "test RMSE" in page
    assert CliRunner().invoke(app, ["data", "check", str(tmp_path / "g.npz")]).exit_code == 0
    assert "numbers" in CliRunner().invoke(app, ["data", "info", str(tmp_path / "g.npz")]).stdout


KINDS = {
    "fractions": ([f"{i}.5" for i in range(40)], "number"),
    "many whole numbers": ([str(i) for i in range(40)], "number"),
    "few whole numbers": ([str(i % 5) for i in range(40)], "single"),
    "counts": (
        [str(k) for k, n in enumerate([1, 2, 3, 4, 5, 6, 5, 4, 3, 3, 2, 2]) for _ in range(n)],
        "number",
    ),
    "codes": ([str(k % 12) for k in range(40)], "single"),
    "text": (["a", "b"] * 20, "single"),
}


@pytest.mark.parametrize("case", KINDS)
def test_the_kind_of_a_label_column(case: str, tmp_path: Path) -> None:
    values, kind = KINDS[case]
    rows = "".join(f"{i},{value},{i}\n" for i, value in enumerate(values))
    (tmp_path / "t.csv").write_text(f"id,y,x\n{rows}77,,1\n78,NA,1\n")
    (tmp_path / "graph.toml").write_text(
        '[nodes.t]\ntable = "t.csv"\nid = "id"\nfeatures = ["x"]\n[task]\ntarget = "t"\nlabel = "y"\n'
        "split = { train = 0.5, val = 0.2, test = 0.3 }\n"
    )
    with nullcontext() if case != "counts" else pytest.warns(UserWarning, match="12 values that look like counts"):
        _, task = tables.build(tmp_path / "graph.toml")
    assert task is not None
    assert task.kind == kind
    assert len(task.train) + len(task.val) + len(task.test_nodes) == 40
    if kind == "number":
        assert abs(float(task.train.labels.mean() - task.val.labels.mean())) < 6  # both have small and large ones
