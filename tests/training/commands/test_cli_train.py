"""The command line of training: what programs and people read, and one line with exit code 2 for a mistake."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app, main
from fastgtn.data import NodeTask, archive

SMALL = ["--set", "fit.epochs=4", "--set", "model.hidden=8"]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"))


@pytest.fixture
def trained(graph_file: Path, tmp_path: Path) -> Path:
    run("train", "--graph", graph_file, "--out", tmp_path / "run", *SMALL)
    return tmp_path / "run"


def test_train_prints_the_keys_that_programs_read(graph_file: Path, tmp_path: Path) -> None:
    summary = run_json(
        "train", "--graph", graph_file, "--model", "gtn", "--runs", 2, "--seed", 5, "--out", tmp_path / "run", *SMALL
    )
    assert (summary["dataset"], summary["model"], summary["out"]) == ("planted", "gtn", str(tmp_path / "run"))
    assert [r["seed"] for r in summary["runs"]] == [5, 6]
    for one in summary["runs"]:
        assert set(one) == {
            "seed",
            "epoch",
            "val",
            "test",
            "seconds",
            "peak_memory_mb",
            "speed",
            "propagation",
            "selected_by",
            "balance",
            "majority",
        }
        assert all(0 <= one["test"][name] <= 1 for name in ("micro_f1", "macro_f1", "roc_auc", "ece"))
    assert set(summary["test"]) >= {"accuracy", "micro_f1", "macro_f1", "roc_auc"}
    assert set(summary["test"]["micro_f1"]) == {"mean", "std"}


def test_train_tells_people_what_where_and_what_next(graph_file: Path, tmp_path: Path) -> None:
    lines = run("train", "--graph", graph_file, "--out", tmp_path / "run", "--runs", 2, *SMALL).splitlines()
    assert lines[0] == "graph   planted · 228 nodes · 7 relations + identity"
    assert lines[1] == "model   fast_gtn · path length 4 · 1 channel"
    assert re.match(r"start   AP\w+ · \d+ % of the variance of the labels · \d+ meta-paths screened in", lines[2])
    assert lines[3].startswith("fit     epoch ")
    assert " ± " in lines[4]
    assert re.match(r'balance topic 2 .* always guessing "topic 2" scores micro-F1 50.00 on val', lines[5])
    assert lines[6].endswith(f"next: fastgtn explain {tmp_path / 'run'}")


def test_scores_before_and_after_label_shift_are_both_named(graph_file: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    trained = run("train", "--graph", graph_file, "--out", place, "--set", "fit.label_shift=em", *SMALL)
    before = re.search(r"fit .* after label shift, (micro-F1 [\d.]+) before", trained)
    assert before is not None
    scored = run("evaluate", place, "--split", "val")
    assert f"after label shift; the epoch was chosen before it, with val {before.group(1)}" in scored
    assert re.search(r"test .* after label shift, micro-F1 [\d.]+ before", trained)


def test_train_takes_a_config_file_and_options_win(graph_file: Path, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        f'dataset = "{graph_file.name}"\n[model]\nname = "gtn"\nhidden = 8\n[fit]\nepochs = 4\nseed = 3\n'
    )
    summary = run_json("train", tmp_path / "my.toml", "--model", "fast_gtn_non_local", "--out", tmp_path / "run")
    assert (summary["model"], summary["runs"][0]["seed"]) == ("fast_gtn_non_local", 3)


def test_resume_needs_only_the_folder(trained: Path) -> None:
    before = json.loads((trained / "result.json").read_text())
    assert run_json("train", "--resume", "--out", trained) == before
    assert len(run_json("train", "--resume", "--out", trained, "--runs", 2)["runs"]) == 2


def test_evaluate_and_predict(trained: Path, tmp_path: Path) -> None:
    stored = json.loads((trained / "result.json").read_text())["runs"][0]
    scores = run_json("evaluate", trained, "--split", "val")
    assert {name: scores[name] for name in stored["val"]} == pytest.approx(stored["val"])
    assert run("evaluate", trained).startswith("test    micro-F1 ")
    facts = run_json("predict", trained, "--out", tmp_path / "p.csv")
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert len(lines) == facts["rows"] + 1 == 91
    assert lines[0] == '"node","split","predicted","p_topic 0","p_topic 1","p_topic 2"'


def test_config_ls_and_version() -> None:
    assert run_json("config", "gtn", "imdb")["model"]["start"] == "mixed"
    assert 'name = "fast_gtn"\n' in run("config", "fast_gtn_non_local", "imdb")
    listed = run_json("ls")
    assert listed["models"][:4] == ["fast_gtn", "fast_gtn_non_local", "gtn", "gat"]
    assert listed["presets"] == ["ours", "paper", "authors-2022"]
    assert "fast_gtn" in listed["datasets"]["planted"]["tuned"]
    assert "planted" in run("ls")
    assert run("--version").strip().count(".") == 2


def test_every_command_shows_an_example() -> None:
    for command in ("demo", "train", "evaluate", "predict", "config", "ls"):
        assert f"Example: fastgtn {command}" in run(command, "--help")


@pytest.mark.slow
def test_the_demo_ranks_the_planted_path_first(tmp_path: Path) -> None:
    facts = run_json("demo", "--out", tmp_path / "run")
    assert facts["metapaths"][0]["planted"]
    assert facts["metapaths"][0]["path"] == facts["planted"]
    assert facts["test"]["micro_f1"]["mean"] > 0.85


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--dataset", "planed"], 'did you mean "planted"'),
        (["train", "--model", "gnt"], 'no model "gnt"; did you mean "gtn"? (fastgtn ls)'),
        (["train", "--set", "model.path_lenght=3"], 'did you mean "path_length"'),
        (["train", "--set", "model.path_length=x"], "should be a valid integer"),
        (["train", "--set", "model.gamma=3"], "gamma is a share between 0 and 1"),
        (["train", "--runs", "0"], "fit.runs = 0"),
        (["train", "none.toml"], "the config file none.toml does not exist"),
        (["train", "--graph", "none.npz"], "no graph archive at"),
        (["train", "--graph", "a.npz", "--dataset", "acm"], "cannot be combined"),
        (["train", "--resume"], "give it with --out"),
        (["train", "--set", "fit.learning_rate=1e30", "--set", "model.path_length=2"], "became"),
        (["config", "gnt", "imdb"], 'did you mean "gtn"'),
        (["train", "--seed", "99999999999999999999999"], "fit.seed"),
        (["train", "--set", "model.path_length=100000"], "model.path_length = 100000"),
        (["train", "--out", "/proc/fastgtn"], "/proc/fastgtn: No such file or directory"),
        (["data", "make", "planted", "--out", "/proc/x.npz"], "/proc"),
        (["bench", "nodes", "--models", ","], "--models is empty"),
        (["bench", "nodes", "--datasets", "planed", "--models", "mlp"], 'did you mean "planted"'),
        (["bench", "nodes", "--markdown", "graph.npz"], "a file name that ends with .md, but got graph.npz"),
        (["bench", "nodes", "--markdown", "none/x.md"], "the folder none does not exist"),
        (["bench", "efficiency", "--max-gigabytes", "nan"], "--max-gigabytes is nan"),
        (["evaluate", "nowhere"], "the run folder nowhere does not exist: give the folder that the training printed"),
        (["explain", "runs/imbd"], 'the run folder runs/imbd does not exist: did you mean "runs/imdb"?'),
        (["explain", "runs/graph.npz"], "runs/graph.npz is a file, not a run folder"),
        (["train", "--graph", "users.csv"], "users.csv is not a graph archive: describe your tables in a graph.toml"),
        (["data", "check", "graph.toml"], "graph.toml is not a graph archive: describe your tables in a graph.toml"),
        (["predict", "nowhere", "--out", "p.txt"], ".parquet or .csv"),
        (["predict", "nowhere", "--out", "none/p.csv"], "does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/imdb").mkdir(parents=True)
    (tmp_path / "runs/graph.npz").touch()
    monkeypatch.setattr(sys, "argv", ["fastgtn", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    lines = capsys.readouterr().err.strip().splitlines()
    (error,) = [line for line in lines if not line.startswith("compiling kernels")]  # the first process of a machine
    assert stop.value.code == 2
    assert error.startswith("error: ")
    assert message in error


def test_a_run_is_continued_on_its_own_graph(trained: Path) -> None:
    with pytest.raises(fastgtn.InputError, match=r'model.name was "fast_gtn", now "gtn"') as refused:
        CliRunner().invoke(app, ["train", "--resume", "--out", str(trained), "--model", "gtn"], catch_exceptions=False)
    assert "dataset was" not in str(refused.value)


def test_mistakes_with_a_run_are_one_line_too(
    trained: Path, tmp_path: Path, academic: tuple[HeteroData, NodeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("mine")
    archive.write(tmp_path / "bare.npz", academic[0], None)
    for words, message in {
        ("predict", trained, "--out", "p.csv"): "p.csv already exists.*--force",
        ("predict", trained, "--graph", "planted", "--out", "q.csv"): "the schema of the graph differs",
        ("evaluate", trained, "--graph", "bare.npz"): "has no labels and splits of",
        ("train", "--out", trained): "already contains files",
    }.items():
        with pytest.raises(fastgtn.InputError, match=message):
            CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert (tmp_path / "p.csv").read_text() == "mine"
