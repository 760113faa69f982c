"""A metric is one entry: registered here, it is seen by training, selection, tuning, evaluation, reports and tables."""

import json
from pathlib import Path

import pytest
import torch
from quick_config import quick
from torch import Tensor
from typer.testing import CliRunner

import fastgtn
from fastgtn.bench.cells import Cell, plan, run_cells
from fastgtn.bench.nodes import compare, nodes_report
from fastgtn.cli import app
from fastgtn.data import load
from fastgtn.data.metrics import Answers, Metric, metric, register
from fastgtn.errors import InputError
from fastgtn.report import render_page, report_tables
from fastgtn.runs import load_run, train
from fastgtn.tuning.search import tune
from fastgtn.tuning.trials import Budget


def wrong_rows(answers: Answers) -> Tensor:
    """Wrong rows and all rows: sums, which add up."""
    return torch.stack([(answers.chosen != answers.labels).sum(), torch.tensor(len(answers.labels))])


@pytest.fixture(autouse=True)
def error_rate(monkeypatch: pytest.MonkeyPatch) -> Metric:
    monkeypatch.setattr(metric, "_METRICS", metric.registered())
    entry = Metric(
        "error_rate",
        "error rate",
        wrong_rows,
        lambda sums: float(sums[0] / sums[1]),
        kinds=("single",),
        higher_is_better=False,
    )
    return register(entry)


def test_it_is_measured_in_every_epoch_and_chooses_the_epoch(graph_file: Path) -> None:
    result = fastgtn.fit(*load(graph_file), quick(fit={"select_by": "error_rate"}))
    values = {record["epoch"]: record["val_error_rate"] for record in result.history}
    assert values[result.epoch] == min(values.values())
    assert result.test["error_rate"] == pytest.approx(1 - result.test["accuracy"])


def test_blocks_of_rows_add_up(graph_file: Path) -> None:
    _, task = load(graph_file)
    logits = torch.randn(len(task.val), task.num_classes, generator=torch.Generator().manual_seed(0))
    whole = task.metrics(logits, task.val.labels)
    assert task.metrics(iter(logits.split(3)), task.val.labels)["error_rate"] == whole["error_rate"]
    assert whole["error_rate"] == pytest.approx(1 - whole["accuracy"])


def test_runs_evaluation_and_report_have_its_title(graph_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = train(quick(graph_file), out=folder)
    assert load_run(folder).evaluate()["error_rate"] == summary["test"]["error_rate"]["mean"]
    shown = CliRunner().invoke(app, ["evaluate", str(folder)], catch_exceptions=False).stdout
    assert f"error rate {100 * summary['test']['error_rate']['mean']:.2f}" in shown
    assert "test error rate" in render_page(report_tables([folder], nodes=2))


def test_a_search_looks_for_the_lowest(graph_file: Path, tmp_path: Path) -> None:
    config = quick(graph_file, model={"name": "mlp"}, fit={"select_by": "error_rate"})
    result = tune(config, out=tmp_path / "search", budget=Budget(3), fixed={"fit": {"epochs": 8}})
    lines = (tmp_path / "search" / "trials.csv").read_text().splitlines()[1:]
    scores = [float(line.split(",")[2]) for line in lines if line.split(",")[2]]
    assert result["best"]["score"] == min(scores)
    assert "trials by error rate on the validation split" in (tmp_path / "search" / "best.toml").read_text()


def test_benchmarks_have_a_table_of_it(graph_file: Path, tmp_path: Path) -> None:
    cells = run_cells([plan(str(graph_file), "mlp", runs=1, seed=0, extra={"fit": {"epochs": 4}})], tmp_path)
    report = nodes_report(cells, command="fastgtn bench nodes", seeds=[0])
    (table,) = [table for table in report.tables if table.title == "error rate"]
    assert f"{100 * cells[0].summary['test']['error_rate']['mean']:.2f}" in table.rows[0][1]


def test_the_lower_of_two_errors_wins_a_table() -> None:
    def cell(model: str, error: float) -> Cell:
        spread = {"error_rate": {"mean": error, "std": 0.0}, "micro_f1": {"mean": 1 - error, "std": 0.0}}
        runs = [{"test": {"error_rate": error, "micro_f1": 1 - error}}]
        return Cell("imdb", model, {"test": spread, "val": spread, "runs": runs})

    cells = [cell("fast_gtn", 0.2), cell("gtn", 0.3), cell("mlp", 0.4)]
    (table,) = [t for t in nodes_report(cells, command="", seeds=[0]).tables if t.title == "error rate"]
    assert [row[1].startswith("**") for row in table.rows] == [True, False, False]
    found = compare(cells)
    assert found is not None
    assert found["ours"] == "fast_gtn"


def test_a_name_is_taken_once_and_a_wrong_one_is_answered(graph_file: Path, error_rate: Metric) -> None:
    with pytest.raises(InputError, match='a metric "error_rate" already exists: choose another name'):
        register(error_rate)
    with pytest.raises(InputError, match=r'fit\.select_by cannot be "eror_rate"; did you mean "error_rate"'):
        quick(graph_file, fit={"select_by": "eror_rate"})
    with pytest.raises(InputError, match='no metric "eror_rate"; did you mean "error_rate"'):
        metric.named("eror_rate")


def test_the_stored_result_has_it(graph_file: Path, tmp_path: Path) -> None:
    train(quick(graph_file), out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "seed-0" / "result.json").read_text())
    assert set(stored["val"]) == set(stored["test"]) >= {"micro_f1", "macro_f1", "accuracy", "error_rate"}
