"""A run that was killed at any moment and continued is, bit for bit, the run that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_config import quick

from fastgtn.errors import InputError
from fastgtn.runs import train
from fastgtn.runs.checkpoint import read_tensors
from fastgtn.runs.train import Listener, seeds_of, stored_config
from fastgtn.training.loop import State

TESTS = Path(__file__).parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # many small processes: threads only wait


def outcome(folder: Path) -> dict[str, Any]:
    """All that a finished run of two seeds says, without what clocks and memory say."""
    result = json.loads((folder / "result.json").read_text())
    for run in result["runs"]:
        del run["seconds"], run["peak_memory_mb"], run["speed"]
    del result["out"]
    files = ("history.jsonl", "config.toml", "predictions.parquet")
    texts = {f"{seed}/{name}": (folder / seed / name).read_bytes() for seed in ("seed-0", "seed-1") for name in files}
    return {"result": result, **texts}


def same_tensors(one: Path, other: Path) -> bool:
    first, second = read_tensors(one)[0], read_tensors(other)[0]
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_a_killed_run_continues_bit_for_bit(graph_file: Path, tmp_path: Path) -> None:
    script = [sys.executable, str(TESTS / "kill_and_resume.py"), str(tmp_path), str(graph_file)]
    subprocess.run(script, check=True, cwd=TESTS, env=os.environ | ONE_THREAD)
    killed = sorted(tmp_path.glob("killed-*"))
    assert len(killed) >= 5
    for folder in killed:
        assert outcome(folder) == outcome(tmp_path / "undisturbed"), folder
        for name in ("seed-0/model.safetensors", "seed-1/model.safetensors", "seed-1/checkpoint/state.safetensors"):
            assert same_tensors(folder / name, tmp_path / "undisturbed" / name), (folder, name)
        assert not list(folder.rglob("*.partial*"))


@pytest.mark.slow
def test_the_command_line_is_killed_from_outside_and_continues(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ONE_THREAD.items():
        monkeypatch.setenv(name, value)
    words = ["--graph", str(graph_file), "--set", "fit.epochs=30", "--set", "fit.checkpoint_every=5", "--runs", "2"]
    words += ["--set", "fit.trial_seconds=0"]
    fastgtn = [sys.executable, "-m", "fastgtn", "train", "--json"]
    undisturbed = json.loads(subprocess.check_output([*fastgtn, *words, "--out", str(tmp_path / "whole")]))
    process = subprocess.Popen([*fastgtn, *words, "--out", str(tmp_path / "cut")], stdout=subprocess.DEVNULL)
    while not (tmp_path / "cut" / "seed-0" / "checkpoint" / "state.safetensors").exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resumed = subprocess.check_output([*fastgtn, "--resume", "--out", str(tmp_path / "cut")])
    assert json.loads(resumed)["test"] == undisturbed["test"]
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_finished_seeds_are_kept_and_more_can_be_added(graph_file: Path, tmp_path: Path) -> None:
    train(quick(graph_file, fit={"runs": 1}), out=tmp_path / "run")
    first = (tmp_path / "run" / "seed-0" / "result.json").stat().st_mtime_ns
    summary = train(quick(graph_file, fit={"runs": 2}), out=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "seed-0" / "result.json").stat().st_mtime_ns == first
    assert [run["seed"] for run in summary["runs"]] == [0, 1]


def test_seeds_that_are_not_asked_for_again_are_not_lost(graph_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(quick(graph_file, fit={"runs": 2}), out=out)
    for fit, asked in (({"runs": 1}, [0]), ({"seed": 3, "runs": 1}, [3])):
        summary = train(quick(graph_file, fit=fit), out=out, resume=True)
        assert [run["seed"] for run in summary["runs"]] == asked
    stored = json.loads((out / "result.json").read_text())
    assert [run["seed"] for run in stored["runs"]] == [0, 1, 3]
    assert seeds_of(stored_config(out)) == range(2)


@pytest.mark.parametrize("name", ["model.safetensors", "result.json"])
@pytest.mark.parametrize("size", [None, 0, 100])
def test_what_is_damaged_in_a_finished_seed_is_made_anew(
    graph_file: Path, tmp_path: Path, name: str, size: int | None
) -> None:
    train(quick(graph_file), out=tmp_path / "whole")
    out = tmp_path / "run"
    train(quick(graph_file), out=out)
    if size is None:
        (out / "seed-0" / name).unlink()
    else:
        (out / "seed-0" / name).write_bytes((out / "seed-0" / name).read_bytes()[:size])
    train(quick(graph_file), out=out, resume=True)
    weights = Path("seed-0") / "model.safetensors"
    assert same_tensors(out / weights, tmp_path / "whole" / weights)
    results = [json.loads((folder / "result.json").read_text()) for folder in (out, tmp_path / "whole")]
    assert results[0]["test"] == results[1]["test"]


def test_a_folder_of_another_config_or_graph_is_refused(graph_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(quick(graph_file), out=out)
    with pytest.raises(InputError, match=r"already contains files: resume that run with --resume, or choose another"):
        train(quick(graph_file), out=out)
    with pytest.raises(InputError, match=r"a different config \(model.path_length was 2, now 3\)"):
        train(quick(graph_file, model={"path_length": 3}), out=out, resume=True)
    with pytest.raises(InputError, match=r"--resume needs the folder of the run: give it with --out"):
        train(quick(graph_file), resume=True)
    record = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(record | {"data_checksum": "other"}))
    with pytest.raises(InputError, match="the graph has changed since"):
        train(quick(graph_file), out=out, resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="is not a run folder"):
        train(quick(graph_file), out=tmp_path / "mine", resume=True)
    with pytest.raises(InputError, match="is a file"):
        train(quick(graph_file), out=tmp_path / "mine" / "thesis.txt")


@pytest.mark.parametrize("name", ["checkpoint/state.safetensors", "history.jsonl"])
def test_a_damaged_checkpoint_is_one_clear_line(graph_file: Path, tmp_path: Path, name: str) -> None:
    train(quick(graph_file), out=tmp_path / "run")
    seed = tmp_path / "run" / "seed-0"
    (seed / "result.json").unlink()
    content = (seed / name).read_bytes()
    (seed / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"is missing or damaged .*: the run cannot be used"):
        train(quick(graph_file), out=tmp_path / "run", resume=True)


class Interrupted(Listener):
    """Ends a run in the middle, some epochs after its last checkpoint."""

    def epoch_done(self, seed: int, state: State) -> None:  # noqa: ARG002
        if state.epoch == 5:
            raise KeyboardInterrupt


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_run_in_batches_continues_bit_for_bit(graph_file: Path, tmp_path: Path, ahead: int) -> None:
    config = quick(graph_file, batch={"size": 16, "fanouts": [4, 3]}, fit={"average": 0.9, "runs": 2})
    train(config, out=tmp_path / "undisturbed")
    with pytest.raises(KeyboardInterrupt):
        train(config, out=tmp_path / "cut", listener=Interrupted())
    now = quick(graph_file, batch={"size": 16, "fanouts": [4, 3], "prefetch": ahead}, fit={"average": 0.9, "runs": 2})
    train(now, out=tmp_path / "cut", resume=True)
    for seed in ("seed-0", "seed-1"):
        one, other = (tmp_path / name / seed for name in ("undisturbed", "cut"))
        assert same_tensors(one / "model.safetensors", other / "model.safetensors")
        assert (one / "history.jsonl").read_text() == (other / "history.jsonl").read_text()
