"""An interrupted run of link models is continued exactly, and only by the run that it was."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links.settings import LinkSettings
from fastgtn.links.train import train_links
from fastgtn.training.loop import State

FIT = {"epochs": 3, "checkpoint_every": 1, "average": 0.9}


class Interrupted(Exception):
    """Stands for the end of a process."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("resume") / "shop.npz"
    archive.write(place, make_planted_links(users=40, items=25, seed=0), None)
    return place


def settings_of(shop: Path, **sections: Any) -> LinkSettings:
    return LinkSettings.of({"dataset": str(shop), "link": {"relation": "buys"}, "fit": FIT, **sections})


def stop_at(epoch: int) -> Any:
    def watch(seed: int, state: State) -> None:  # noqa: ARG001
        if state.epoch == epoch:
            raise Interrupted

    return watch


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"name": "fast_gtn", "hidden": 8, "dropout": 0.2}},
        {"model": {"name": "gcn", "hidden": 8, "decoder": "mlp"}, "batch": {"size": 40}},
    ],
    ids=["whole", "batches"],
)
def test_a_resumed_run_equals_one_without_interruption(shop: Path, tmp_path: Path, sections: dict[str, Any]) -> None:
    settings = settings_of(shop, **sections)
    whole = train_links(settings, out=tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_links(settings, out=tmp_path / "parts", watch=stop_at(epoch=2))
    parts = train_links(settings, out=tmp_path / "parts", resume=True)
    assert json.dumps({**parts, "out": ""}) == json.dumps({**whole, "out": ""})
    one, other = (tmp_path / name / "seed-0" for name in ("whole", "parts"))
    assert len((other / "history.jsonl").read_text().splitlines()) == FIT["epochs"]
    assert (one / "history.jsonl").read_text() == (other / "history.jsonl").read_text()
    first, second = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def run(*words: str) -> Any:
    return json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)


def run_killed(step: int, mark: Path, *words: str) -> None:
    """The same command in a process that is killed after an optimizer step."""
    script = [sys.executable, str(Path(__file__).parents[1] / "killed_worker.py"), str(step), str(mark)]
    ended = subprocess.run([*script, *words], capture_output=True, check=False)
    assert (ended.returncode, mark.exists()) == (-signal.SIGKILL, True), ended.stderr


def without_clocks(answer: Any) -> Any:
    """A summary without its folder and what clocks say."""
    if isinstance(answer, dict):
        return {k: without_clocks(v) for k, v in answer.items() if k not in ("out", "seconds", "folder")}
    return [without_clocks(part) for part in answer] if isinstance(answer, list) else answer


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_command_continues_bit_for_bit(shop: Path, tmp_path: Path) -> None:
    words = ["train", "--graph", str(shop), "--task", "link", "--link", "buys", "--model", "gcn", "--runs", "2"]
    words += ["--set", "model.hidden=4", "--set", "fit.epochs=3", "--set", "fit.checkpoint_every=1"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_killed(27, tmp_path / "mark", *words, "--out", str(parts))  # of five steps an epoch: the third of seed 1
    first, second = run(*words, "--out", str(whole)), run("train", "--resume", "--out", str(parts))
    assert without_clocks(second) == without_clocks(first)
    for seed in ("seed-0", "seed-1"):
        assert (whole / seed / "history.jsonl").read_text() == (parts / seed / "history.jsonl").read_text()
        one, other = (load_file(folder / seed / "model.safetensors") for folder in (whole, parts))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_search_continues_with_the_same_trials(shop: Path, tmp_path: Path) -> None:
    words = ["tune", "--graph", str(shop), "--task", "link", "--link", "buys", "--model", "gcn", "--trials", "3"]
    words += ["--set", "model.hidden=4", "--set", "fit.epochs=2"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_killed(14, tmp_path / "mark", *words, "--out", str(parts))  # of ten steps a trial: the second one
    first, second = (run(*words, "--out", str(folder)) for folder in (whole, parts))
    assert without_number(second["best"]) == without_number(first["best"])
    assert (parts / "best.toml").read_text() == (whole / "best.toml").read_text()
    with (whole / "trials.csv").open() as one, (parts / "trials.csv").open() as other:
        rows, all_rows = ([without_number(row) for row in csv.DictReader(file)] for file in (one, other))
    lost = [row for row in all_rows if row["state"] == "fail"]
    assert len(lost) == 1
    assert [row for row in all_rows if row not in lost] == rows
    assert len(rows) == 3


def without_number(row: dict[str, Any]) -> dict[str, Any]:
    """A trial without its number, which a killed one has used up, and without its seconds."""
    return {key: value for key, value in row.items() if key not in ("trial", "seconds")}


def test_finished_seeds_are_kept_and_damaged_ones_are_trained_again(shop: Path, tmp_path: Path) -> None:
    settings = settings_of(shop, model={"name": "gcn", "hidden": 4})
    before = train_links(settings, out=tmp_path / "run", runs=1)
    weights = tmp_path / "run" / "seed-0" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    words = ["train", "--out", str(tmp_path / "run"), "--resume", "--runs", "2", "--json"]
    answer = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)  # the folder has all settings
    assert weights.stat().st_mtime_ns == written
    assert [run["seed"] for run in answer["runs"]] == [0, 1]
    for path, damage in ((weights, b"no"), (weights.with_name("result.json"), b'{"seed": 0, "val": 3, "test": {}}')):
        path.write_bytes(damage)
        again = train_links(settings, out=tmp_path / "run", runs=1, resume=True)
        assert again["test"] == before["test"]
        assert path.stat().st_size > len(damage)


def test_a_run_that_was_killed_before_its_first_file_is_begun(shop: Path, tmp_path: Path) -> None:
    joined = LinkSettings.of({"dataset": str(shop), "link": {"relation": "buys", "longest": 2}})
    (tmp_path / "run").mkdir()
    left = tmp_path / "run" / ".run.0123456789abcdef.partial.json"
    left.write_text("{")
    assert train_links(joined, out=tmp_path / "run", resume=True)["runs"]
    assert not left.exists()


def test_a_run_of_other_settings_or_another_graph_is_not_continued(shop: Path, tmp_path: Path) -> None:
    shop = Path(shutil.copy(shop, tmp_path / "shop.npz"))  # other tests use the first one
    joined = LinkSettings.of({"dataset": str(shop), "link": {"relation": "buys"}})
    train_links(joined, out=tmp_path / "run")
    with pytest.raises(InputError, match="already contains files: resume that run with --resume"):
        train_links(joined, out=tmp_path / "run")
    other = LinkSettings.of({"dataset": str(shop), "link": {"relation": "buys", "longest": 2}})
    with pytest.raises(InputError, match=r"a run of other settings \(longest was 4, now 2\)"):
        train_links(other, out=tmp_path / "run", resume=True)
    archive.write(shop.with_name("other.npz"), make_planted_links(users=40, items=25, seed=1), None)
    shop.with_name("other.npz").replace(shop)
    with pytest.raises(InputError, match="the graph has changed since the run"):
        train_links(joined, out=tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="--resume needs the folder of the run"):
        CliRunner().invoke(app, ["train", "--graph", str(shop), "--task", "link", "--resume"], catch_exceptions=False)
