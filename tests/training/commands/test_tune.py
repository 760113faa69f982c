"""Facts about the search of configs: what it may see, what it keeps, and what it writes."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from optuna.trial import TrialState
from quick_config import quick
from safetensors.torch import load_file
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.config import Config, toml
from fastgtn.config.tuned_configs import models
from fastgtn.data import NodeTask, archive, load
from fastgtn.errors import InputError
from fastgtn.runs import train
from fastgtn.tuning.search import Search, tune, without_test
from fastgtn.tuning.space import Choice, drawn, search_space
from fastgtn.tuning.study import is_alive, open_study
from fastgtn.tuning.trials import Budget, StopWatch

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
FIXED = {"fit": {"epochs": 8}}


def quick_tune(graph_file: Path, out: Path, trials: int, **more: Any) -> dict[str, Any]:
    config = quick(graph_file, model={"name": "mlp"})
    return tune(config, out=out, budget=Budget(trials, **more), fixed=FIXED)


def outcomes(folder: Path) -> list[tuple[str, ...]]:
    """State, score, epochs and drawn values of every trial that ended by itself, in order."""
    with (folder / "trials.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["state"] in ("complete", "pruned")]
    return [tuple(value for key, value in row.items() if key not in ("trial", "seconds")) for row in rows]


def test_the_best_config_is_ready_to_train_and_has_the_score_that_chose_it(graph_file: Path, tmp_path: Path) -> None:
    result = quick_tune(graph_file, tmp_path / "search", 4)
    text = (tmp_path / "search" / "best.toml").read_text()
    score = f"{100 * result['best']['score']:.2f}"
    assert text.startswith("# MLP on academic.   fastgtn train ")
    assert f"# Chosen among 4 trials by micro-F1 on the validation split: {score} (one seed)." in text
    trained = train(Config.from_toml(tmp_path / "search" / "best.toml"), out=tmp_path / "run")
    assert trained["val"]["micro_f1"]["mean"] == result["best"]["score"]
    assert [run["epoch"] for run in trained["runs"]] == result["best"]["epochs"]
    assert (tmp_path / "search" / "importance.png").read_bytes().startswith(b"\x89PNG")
    assert max(float(row[1]) for row in outcomes(tmp_path / "search") if row[1]) == result["best"]["score"]


def test_the_best_config_keeps_what_was_not_searched_as_it_was_given(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every digit of a number; and the graph is found from any folder, also if its name begins as a list does."""
    monkeypatch.chdir(graph_file.parent)
    graph_file.rename("[academic.npz")
    fixed = {"fit": {"epochs": 2, "learning_rate": 0.0123456}}
    config = Config.of({"dataset": "[academic.npz", "model": {"name": "mlp"}}, fixed)
    tune(config, out=tmp_path / "search", budget=Budget(1), fixed=fixed)
    best = Config.from_toml(tmp_path / "search" / "best.toml")
    assert (best.dataset, best.fit.learning_rate) == (str(tmp_path / "[academic.npz"), 0.0123456)


def test_the_first_trial_is_the_config_that_was_given(graph_file: Path, tmp_path: Path) -> None:
    config = quick(graph_file, model={"name": "mlp", "hidden": 17}, fit={"learning_rate": 0.2, "weight_decay": 0.0})
    result = tune(config, out=tmp_path / "search", budget=Budget(1), fixed=FIXED)
    assert result["best"]["settings"].items() <= toml.flat(config.model_dump()).items()
    assert result["best"]["settings"]["model.hidden"] == 17
    assert Config.from_toml(tmp_path / "search" / "best.toml").model.hidden == 17


def test_other_test_labels_change_nothing_that_is_chosen(graph_file: Path, tmp_path: Path) -> None:
    graph, task = load(graph_file)
    assert task is not None
    labels = task._labels.clone()
    random = torch.Generator().manual_seed(1)
    labels[task.test_nodes] = torch.randint(task.num_classes, (len(task.test_nodes),), generator=random)
    assert not torch.equal(labels, task._labels)
    other = tmp_path / "other" / graph_file.name
    other.parent.mkdir()
    archive.write(other, graph, replace(task, _labels=labels))
    found = [quick_tune(path, tmp_path / path.parent.name, 5, seeds_per_trial=2) for path in (graph_file, other)]
    assert found[0]["best"] == found[1]["best"]
    assert outcomes(tmp_path / graph_file.parent.name) == outcomes(tmp_path / "other")
    trained = [
        train(Config.from_toml(tmp_path / path.parent.name / "best.toml"), out=tmp_path / f"run-{number}")
        for number, path in enumerate((graph_file, other))
    ]
    assert trained[0]["runs"][0]["epoch"] == trained[1]["runs"][0]["epoch"]
    assert trained[0]["val"] == trained[1]["val"]
    assert trained[0]["test"] != trained[1]["test"]
    first, second = (load_file(tmp_path / f"run-{n}" / "seed-0" / "model.safetensors") for n in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_trials_are_given_a_task_without_test_labels(graph_file: Path) -> None:
    graph, task = load(graph_file)
    assert task is not None
    blind = without_test(task)
    Search(quick(graph_file), graph, blind).check()
    with pytest.raises(IndexError):
        blind.score_test(torch.zeros(len(task.test_nodes), task.num_classes))


def test_a_search_goes_on_to_its_number_of_trials_as_if_never_interrupted(graph_file: Path, tmp_path: Path) -> None:
    quick_tune(graph_file, tmp_path / "whole", 6)
    quick_tune(graph_file, tmp_path / "parts", 2)
    before = outcomes(tmp_path / "parts")
    result = quick_tune(graph_file, tmp_path / "parts", 6)
    assert result["trials"] == 6
    assert outcomes(tmp_path / "parts")[:2] == before
    assert outcomes(tmp_path / "parts") == outcomes(tmp_path / "whole")
    assert quick_tune(graph_file, tmp_path / "parts", 3)["trials"] == 6


def command(graph_file: Path, out: Path, trials: int) -> list[str]:
    words = ["tune", "--graph", str(graph_file), "--model", "mlp", "--trials", str(trials), "--out", str(out)]
    return [sys.executable, "-m", "fastgtn", *words, "--json", "--set", "fit.epochs=40", "--set", "model.hidden=8"]


@pytest.mark.slow
def test_killed_searches_lose_no_finished_trial_and_two_processes_share_one(graph_file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    environment = os.environ | ONE_THREAD
    process = subprocess.Popen(command(graph_file, cut, 300), env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None and len(outcomes(cut) if (cut / "trials.csv").exists() else []) < 3:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = outcomes(cut)
    assert len(kept) >= 3
    total = len(kept) + 4
    both = [subprocess.Popen(command(graph_file, cut, total), env=environment, stdout=subprocess.PIPE) for _ in "ab"]
    results = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert max(result["trials"] for result in results) == total
    found = outcomes(cut)
    assert found[: len(kept)] == kept
    assert len(found) == total
    assert not list(cut.glob(".worker-*"))


def test_a_trial_of_a_process_that_is_gone_goes_back_into_the_queue(graph_file: Path, tmp_path: Path) -> None:
    config = quick(graph_file, model={"name": "mlp"})
    space = search_space(config, {})
    start = {key: toml.flat(config.model_dump())[key] for key in space}
    with open_study(tmp_path, {"metric": "micro_f1"}, space, start, seed=0) as gone:
        trial = gone.ask(5)
        assert trial is not None
        assert is_alive(tmp_path, gone.worker)
        with open_study(tmp_path, {"metric": "micro_f1"}, space, start, seed=0) as other:
            second = other.ask(5)
            assert second is not None
            assert second.params != trial.params
    assert not is_alive(tmp_path, gone.worker)
    with open_study(tmp_path, {"metric": "micro_f1"}, space, start, seed=0) as next_one:
        again = [next_one.ask(2) for _ in range(3)]
        assert [None if t is None else t.params for t in again] == [trial.params, second.params, None]


@pytest.mark.parametrize("ended", [0, 1])
def test_a_process_that_dies_while_it_draws_leaves_no_half_drawn_trial(
    graph_file: Path, tmp_path: Path, ended: int
) -> None:
    config = quick(graph_file, model={"name": "mlp"})
    space = search_space(config, {})
    start = {key: toml.flat(config.model_dump())[key] for key in space}
    asked = []
    for folder, is_disturbed in ((tmp_path / "whole", False), (tmp_path / "cut", True)):
        with open_study(folder, {"metric": "micro_f1"}, space, start, seed=0) as study:
            for _ in range(ended):
                trial = study.ask(5)
                assert trial is not None
                study.tell(trial, TrialState.COMPLETE, 0.5, epochs=[1], val_loss=1.0)
            if is_disturbed:
                first = next(iter(space.items()))
                for _ in range(2):  # as killed while the values are stored: one of them is there, and no process
                    study.study.ask(dict([first]))
            trial = study.ask(5)
            assert trial is not None
            asked.append(trial.params)
    assert asked[0] == asked[1]


def test_a_diverging_trial_is_given_up_and_the_search_goes_on(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastgtn.tuning.space.FIT", {"features.normalize": Choice(("none", "row"))})
    config = quick(graph_file, model={"name": "mlp", "dropout": 0.0}, fit={"learning_rate": 1e30, "epochs": 3})
    with pytest.raises(
        InputError, match=r"none of the 2 trials finished; the reason of the last one: the .*loss became"
    ):
        tune(config, out=tmp_path / "search", budget=Budget(2))
    assert [row[0] for row in outcomes(tmp_path / "search")] == ["pruned", "pruned"]
    assert not (tmp_path / "search" / "best.toml").exists()


def test_time_ends_a_search_after_its_first_result(graph_file: Path, tmp_path: Path) -> None:
    result = quick_tune(graph_file, tmp_path / "search", 50, minutes=1e-6)
    assert (result["trials"], result["scored"]) == (1, 1)


def test_time_that_went_to_others_does_not_count() -> None:
    watch = StopWatch()
    time.sleep(0.2)
    assert watch.seconds() < 0.1


def test_every_model_has_a_space_that_makes_valid_configs() -> None:
    for name, values in models().items():
        config = Config.of({"model": values})
        space = search_space(config, {"model.dropout": 0.5})
        assert {"fit.learning_rate", "fit.weight_decay"} <= set(space), name
        assert {0.0, 1.0} <= set(space["fit.consistency"].choices), name  # which trials decide for ours alone
        assert "model.dropout" not in space
        for pick in (0, -1):
            picked = {
                key: values.choices[pick] if hasattr(values, "choices") else (values.low, values.high)[pick]
                for key, values in space.items()
            }
            chosen = drawn(picked)
            assert toml.flat(Config.of({"model": values}, chosen).model_dump()).items() >= toml.flat(chosen).items()


def test_consistency_is_searched_where_it_can_be_computed(graph_file: Path, tmp_path: Path) -> None:
    graph, task = archive.read(graph_file)
    labels = torch.nn.functional.one_hot(task._labels.clamp(min=0), task.num_classes)
    nodes = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}
    archive.write(tmp_path / "several.npz", graph, NodeTask.from_labels(task.target, "multi", labels, **nodes))
    for file, is_searched in ((graph_file, True), (tmp_path / "several.npz", False)):
        config = quick(file, model={"name": "mlp"})
        found = tune(config, out=tmp_path / file.stem, budget=Budget(1), fixed=FIXED)
        assert ("fit.consistency" in found["best"]["settings"]) == is_searched


def test_mistakes_are_answered_in_one_line(graph_file: Path, tmp_path: Path) -> None:
    for words, message in [
        ({"trials": 0}, "--trials is 0; it must be at least 1"),
        ({"seeds_per_trial": 0}, "--seeds-per-trial is 0; it must be at least 1"),
        ({"minutes": 0.0}, "--minutes is 0.0; it must be more than 0"),
    ]:
        with pytest.raises(InputError, match=message):
            Budget(**words)  # type: ignore[arg-type]
    quick_tune(graph_file, tmp_path / "search", 1)
    with pytest.raises(
        InputError, match=r"contains a different search \(seeds_per_trial was 1, now 2\): choose another --out"
    ):
        quick_tune(graph_file, tmp_path / "search", 2, seeds_per_trial=2)
    with pytest.raises(InputError, match=r"contains a different search \(dataset was academic, now planted"):
        tune(quick("planted", model={"name": "mlp"}), out=tmp_path / "search", budget=Budget(1))
    with pytest.raises(InputError, match="is a file: choose another folder"):
        quick_tune(graph_file, graph_file, 1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.db").write_text("thesis")
    with pytest.raises(InputError, match=r"study.db cannot be opened as a search"):
        quick_tune(graph_file, tmp_path / "mine", 1)
    everything = dict.fromkeys(search_space(quick(graph_file, model={"name": "mlp"}), {}))
    with pytest.raises(InputError, match="all searchable keys are set with --set"):
        tune(quick(graph_file, model={"name": "mlp"}), out=tmp_path / "none", fixed=toml.nested(everything))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "mlp"], "give a dataset"),
        (["--dataset", "planted", "--model", "gnc"], 'no model "gnc"'),
        (["--dataset", "plantd"], 'no dataset "plantd"'),
        (["--dataset", "planted", "--graph", "x.npz"], "cannot be combined"),
        (["--dataset", "planted", "--trials", "0"], "--trials is 0"),
        (["no-such.toml"], "no-such.toml"),
        (["mine.toml", "--model", "mlp"], "already contains a model"),
    ],
)
def test_the_command_line_refuses_wrong_words(words: list[str], message: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["tune", *words, "--out", str(tmp_path / "search")])
    assert isinstance(answer.exception, InputError)
    assert message in str(answer.exception)


def test_many_cells_have_a_folder_each_and_one_that_fails_is_named(graph_file: Path, tmp_path: Path) -> None:
    words = ["--dataset", f"{graph_file},no-such-graph", "--model", "mlp", "--trials", "1", "--set", "fit.epochs=3"]
    answer = CliRunner().invoke(app, ["tune", *words, "--out", str(tmp_path / "all"), "--json"])
    first, second = json.loads(answer.stdout)
    assert Path(first["config"]) == tmp_path / "all" / "academic-mlp" / "best.toml"
    assert "no-such-graph" in second["error"]
    lines = CliRunner().invoke(app, ["tune", *words, "--out", str(tmp_path / "all")]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["tuned", "saved", "skipped"]


def test_a_file_is_where_a_search_begins(graph_file: Path, tmp_path: Path) -> None:
    start = quick(graph_file, model={"name": "mlp", "hidden": 24}, fit={"epochs": 3, "learning_rate": 0.033})
    (tmp_path / "mine.toml").write_text(start.to_toml())
    words = ["tune", str(tmp_path / "mine.toml"), "--trials", "2", "--out", str(tmp_path / "search"), "--json"]
    result = json.loads(CliRunner().invoke(app, [*words, "--set", "fit.epochs=3"]).stdout)
    assert (result["dataset"], result["model"], result["trials"]) == ("academic", "mlp", 2)
    first, second = csv.DictReader((tmp_path / "search" / "trials.csv").open())
    assert (first["model.hidden"], first["fit.learning_rate"]) == ("24", "0.033")
    assert second["fit.learning_rate"] != "0.033"
