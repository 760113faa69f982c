"""A run folder from somebody else reaches no file outside of it, and ends in one clear line at worst."""

import json
import os
import re
import resource
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from optuna.exceptions import StorageInternalError
from quick_config import quick
from safetensors.torch import save_file
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.errors import InputError
from fastgtn.leftovers import OLD_SECONDS, sweep
from fastgtn.runs import load_run, train
from fastgtn.runs.checkpoint import FORMAT, read_tensors
from fastgtn.runs.files import alone_in, write_text, write_whole
from fastgtn.runs.train import Listener, stored_config
from fastgtn.training.loop import State
from fastgtn.tuning.search import tune
from fastgtn.tuning.study import is_alive, open_study
from fastgtn.tuning.trials import Budget

STATE = "seed-0/checkpoint/state.safetensors"


@pytest.fixture(scope="module")
def foreign(academic: tuple[HeteroData, NodeTask], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose second seed was broken off: the checkpoint of the first is there as well."""
    folder = tmp_path_factory.mktemp("foreign")
    archive.write(folder / "academic.npz", *academic)
    train(quick(folder / "academic.npz", fit={"epochs": 3, "checkpoint_every": 1}), out=folder / "run")
    (folder / "run" / "seed-0" / "result.json").unlink()
    return folder / "run"


@pytest.fixture
def run(foreign: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(foreign, tmp_path / "run"))


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A file of the user's that no command has to do with."""
    path = tmp_path / "treasure.txt"
    path.write_text("mine")
    return path


def resumed(run: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["train", "--resume", "--out", str(run), *more])


def test_links_under_the_names_of_half_written_files_are_not_followed(run: Path, treasure: Path) -> None:
    for name in (".report.partial.html", ".result.partial.json", "seed-0/.result.partial.json", "report.html"):
        (run / name).symlink_to(treasure)
    assert resumed(run).exit_code == 0
    answer = CliRunner().invoke(app, ["report", str(run), "--force", "--nodes", "2"])
    assert answer.exit_code == 0, answer.output
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert treasure.read_text() == "mine"


def test_a_table_of_predictions_does_not_follow_links(run: Path, treasure: Path, tmp_path: Path) -> None:
    resumed(run)
    for name in (".p.partial.csv", "p.csv"):
        (tmp_path / name).symlink_to(treasure)
    answer = CliRunner().invoke(app, ["predict", str(run), "--out", str(tmp_path / "p.csv"), "--force"])
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "p.csv").read_text().startswith('"node"')
    assert treasure.read_text() == "mine"


def test_a_graph_archive_does_not_follow_links(
    academic: tuple[HeteroData, NodeTask], treasure: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graph.npz").symlink_to(treasure)
    archive.write(tmp_path / "graph.npz", *academic, overwrite=True)
    assert archive.read(tmp_path / "graph.npz")[0]["author"].num_nodes == 90
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".other.guessed.partial.npz").symlink_to(treasure)
    with pytest.raises(FileExistsError):
        archive.write(tmp_path / "other.npz", *academic)
    assert treasure.read_text() == "mine"


def test_the_lock_of_a_run_may_not_be_a_link(run: Path, treasure: Path) -> None:
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(treasure)
    answer = resumed(run)
    assert isinstance(answer.exception, InputError)
    assert re.search(r"\.lock is a symbolic link, .* delete the link", str(answer.exception))
    assert treasure.read_text() == "mine"
    (run / ".lock").unlink()
    os.mkfifo(run / ".lock")
    with pytest.raises(InputError, match=r"\.lock is not a regular file: delete it"), alone_in(run):
        pass


@pytest.mark.parametrize("name", ["seed-0", "seed-0/checkpoint"])
def test_folders_of_a_run_may_not_be_links(run: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(run / name, tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()}
    shutil.rmtree(run / name)
    (run / name).symlink_to(tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "elsewhere" / "checkpoint", ignore_errors=True)
    (run / STATE).unlink(missing_ok=True)
    answer = resumed(run)
    assert isinstance(answer.exception, InputError)
    assert "is a symbolic link" in str(answer.exception)
    assert all(path.read_bytes() == before[path] for path in (tmp_path / "elsewhere").rglob("*") if path.is_file())


def test_a_pipe_instead_of_a_file_is_refused_instead_of_waited_for(run: Path) -> None:
    resumed(run)
    for name in ("result.json", "model.safetensors"):
        path = run / "seed-0" / name
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(InputError, match=rf"{name} is missing or damaged \(it is not a regular file\)"):
            load_run(run / "seed-0")
        path.unlink()
        path.write_bytes(content)


def forged(run: Path, **changes: torch.Tensor) -> None:
    tensors, metadata = read_tensors(run / STATE)
    save_file(tensors | changes, run / STATE, metadata)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("optimizer.0.exp_avg", torch.zeros(1), r"optimizer\.0\.exp_avg has shape \[1\] and torch.float32 instead of"),
        ("optimizer.0.exp_avg_sq", torch.zeros(2, 2, dtype=torch.float64), r"exp_avg_sq has shape \[2, 2\]"),
        ("optimizer.0.step", torch.zeros(3), r"optimizer\.0\.step has shape \[3\]"),
        ("optimizer.999.exp_avg", torch.zeros(1), r"there are moments of parameter 999"),
        ("optimizer.0.more", torch.zeros(1), r"optimizer\.0\.more is missing or not expected"),
        ("best.head.bias", torch.zeros(1), r"best\.head\.bias has shape \[1\]"),
        ("model.head.bias", torch.zeros(1), r"size mismatch for head\.bias"),
        ("rng", torch.zeros(3, dtype=torch.uint8), r"RNG state size to be 3"),
    ],
)
def test_a_forged_checkpoint_is_refused(run: Path, name: str, tensor: torch.Tensor, message: str) -> None:
    forged(run, **{name: tensor})
    answer = resumed(run)
    assert isinstance(answer.exception, InputError)
    assert re.search(rf"state\.safetensors is missing or damaged \(.*{message}", str(answer.exception))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"epoch": 3, "seconds": 1.0, "best": {"epoch": 9, "score": 1.0, "val_loss": 0.1}}, "the best epoch is 9 of 3"),
        ({"epoch": 3, "seconds": 1.0, "best": {"epoch": 1, "score": "x", "val_loss": 0.1}}, "valid number"),
        ({"epoch": "3", "seconds": 1.0}, "valid integer"),
    ],
)
def test_a_checkpoint_whose_facts_are_forged_is_refused(run: Path, facts: Any, message: str) -> None:
    tensors, metadata = read_tensors(run / STATE)
    save_file(tensors, run / STATE, metadata | {"facts": json.dumps(facts)})
    answer = resumed(run)
    assert isinstance(answer.exception, InputError)
    assert re.search(rf"state\.safetensors is missing or damaged \(.*{message}", str(answer.exception))


def test_weights_of_a_later_format_are_refused_and_those_without_a_number_are_read(run: Path) -> None:
    resumed(run)
    path = run / "seed-0" / "model.safetensors"
    tensors, metadata = read_tensors(path)
    assert metadata["format"] == str(FORMAT)
    save_file(tensors, path, {name: value for name, value in metadata.items() if name != "format"})
    assert load_run(run).config.fit.epochs == 3
    save_file(tensors, path, metadata | {"format": str(FORMAT + 1)})
    with pytest.raises(InputError, match=rf"has format {FORMAT + 1}, .* reads formats up to {FORMAT}: update fastgtn"):
        load_run(run)
    save_file(tensors, path, metadata | {"format": "new"})
    with pytest.raises(InputError, match='its format is "new", not a number'):
        load_run(run)


def test_a_worker_with_another_name_is_nobody_and_no_file_of_it_is_deleted(
    foreign: Path, tmp_path: Path, treasure: Path
) -> None:
    config = quick(foreign.parent / "academic.npz", model={"name": "mlp"})
    search = {"out": tmp_path / "search", "fixed": {"fit": {"epochs": 2}}}
    tune(config, budget=Budget(1), **search)
    storage = f"sqlite:///{tmp_path / 'search' / 'study.db'}"
    study = optuna.load_study(study_name="fastgtn", storage=storage)
    study.ask().set_user_attr("worker", str(treasure))
    study.ask().set_user_attr("worker", "../treasure.txt")
    study.ask().set_user_attr("worker", ["x"])
    tune(config, budget=Budget(2), **search)
    assert treasure.read_text() == "mine"
    link = tmp_path / "search" / f".worker-{'0' * 32}"
    link.symlink_to(treasure)
    assert not is_alive(tmp_path / "search", link.name)
    assert treasure.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "message"), [("study.db", "is a link or not a regular"), (".lock", "is a symbolic link")]
)
def test_the_files_of_a_search_may_not_be_links(
    foreign: Path, tmp_path: Path, treasure: Path, name: str, message: str
) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / name).symlink_to(treasure)
    with pytest.raises(InputError, match=message):
        tune(quick(foreign.parent / "academic.npz"), out=tmp_path / "search", budget=Budget(1))
    assert treasure.read_text() == "mine"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE trials SET state = 'elsewhere'", "cannot be opened as a search"),
        ("UPDATE trials SET datetime_start = 5", "cannot be opened as a search"),
        ("UPDATE trial_values SET value = NULL", r"cannot be opened as a search \(AssertionError\)"),
        ("DELETE FROM trial_user_attributes WHERE key = 'val_loss'", "trial 0 has no finite score, loss or epoch"),
        ("UPDATE trial_user_attributes SET value_json = '\"x\"' WHERE key = 'seconds'", "the time of trial 0 is not a"),
        ("UPDATE trials SET number = NULL", "its trials are not numbered from zero"),
        ("DELETE FROM study_directions", "it has 0 directions instead of one"),
        ("UPDATE trials SET state = 'PRUNED'", "trial 0 was stopped without a reason"),
    ],
)
def test_a_search_whose_rows_were_changed_is_refused(
    foreign: Path, tmp_path: Path, statement: str, message: str
) -> None:
    search = {"out": tmp_path / "search", "fixed": {"fit": {"epochs": 2}}}
    config = quick(foreign.parent / "academic.npz", model={"name": "mlp"})
    tune(config, budget=Budget(1), **search)
    with sqlite3.connect(tmp_path / "search" / "study.db") as database:
        database.execute(statement)
    database.close()
    with pytest.raises(InputError, match=message):
        tune(config, budget=Budget(2), **search)


def test_a_search_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"study.db cannot be read or written \(disk I/O error\): free some space"),
        open_study(tmp_path / "search", {"metric": "micro_f1"}, {}, {}, seed=0),
    ):
        raise StorageInternalError("disk I/O error")


def test_left_overs_of_killed_processes_are_swept_at_the_next_start(run: Path) -> None:
    left = [run / f".run.{'a' * 16}.partial.json", (run / STATE).with_name(f".state.{'0' * 16}.partial.safetensors")]
    for path in left:
        path.write_text("half")
    assert resumed(run).exit_code == 0
    assert not any(path.exists() for path in left)


def test_a_file_that_another_process_may_be_writing_is_left_alone(tmp_path: Path) -> None:
    young, old, other = (tmp_path / f".{name}.{'a' * 16}.partial.txt" for name in ("page", "page.2", "else"))
    for path in (young, old, other, tmp_path / ".page.partial.txt"):
        path.write_text("half")
    long_ago = young.stat().st_mtime - OLD_SECONDS - 1
    for path in (old, other):
        os.utime(path, (long_ago, long_ago))
    write_text(tmp_path / "page.txt", "whole")
    assert [path.exists() for path in (young, other, old)] == [True, True, False]
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".page.partial.txt", "page.txt"]


def test_all_files_of_a_run_have_the_same_permissions(run: Path) -> None:
    resumed(run)
    before = os.umask(0o022)
    os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o666 & ~before}, modes


class _FullDisk(Listener):
    """After the first epoch no file may grow beyond a few bytes, as on a full disk."""

    def epoch_done(self, seed: int, state: State) -> None:  # noqa: ARG002
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_full_disk_is_one_clear_line_and_the_run_continues(foreign: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    config = quick(foreign.parent / "academic.npz", fit={"epochs": 3, "checkpoint_every": 1})
    try:
        with pytest.raises(InputError, match=r"could not be written \(.*\): free some space, then run the command"):
            train(config, out=tmp_path / "run", listener=_FullDisk())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "run").rglob("*.partial*"))
    whole = train(config, out=tmp_path / "run", resume=True)
    again = train(config, out=tmp_path / "undisturbed")
    assert whole["val"] == again["val"]


def test_every_way_to_run_out_of_space_is_named(tmp_path: Path) -> None:
    def fill(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"table\.csv could not be written \(No space left on device\)"):
        write_whole(tmp_path / "table.csv", fill)
    assert not list(tmp_path.iterdir())


def test_a_refused_resume_changes_nothing(run: Path) -> None:
    files = [path for path in sorted(run.rglob("*")) if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    with alone_in(run):
        answer = resumed(run, "--runs", "4")
    assert isinstance(answer.exception, InputError)
    assert "another process is training into" in str(answer.exception)
    assert {path: path.read_bytes() for path in files} == before
    forged(run, rng=torch.zeros(3, dtype=torch.uint8))
    answer = resumed(run, "--runs", "4")
    assert isinstance(answer.exception, InputError)
    assert all(path.read_bytes() == before[path] for path in files if path != run / STATE)


class _Second(Listener):
    """Starts the same run once more while it is being trained."""

    def __init__(self, run: Path) -> None:
        self.run, self.refused = run, 0

    def epoch_done(self, seed: int, state: State) -> None:  # noqa: ARG002
        for resume in (True, False):
            with pytest.raises(InputError, match=r"another process is training into|already contains files"):
                train(stored_config(self.run), out=self.run, resume=resume)
            self.refused += 1


def test_of_two_processes_that_continue_a_run_one_is_refused(run: Path) -> None:
    (run / STATE).unlink()
    second = _Second(run)
    summary = train(stored_config(run), out=run, resume=True, listener=second)
    assert second.refused == 6
    assert load_run(run).val == summary["runs"][0]["val"]
