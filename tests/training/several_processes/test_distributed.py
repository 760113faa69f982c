"""Several processes train as one would; a killed one is started again, and nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_config import quick

from fastgtn.data import archive
from fastgtn.errors import InputError
from fastgtn.runs import train
from fastgtn.runs.checkpoint import read_tensors
from fastgtn.training.team import ALONE, Team, joined

TESTS = Path(__file__).parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

ONE_CONFIG = {"trial_seconds": 0.0}  # the first case has trials: only the first process makes them

# dropout draws its numbers in each process anew: without it the results agree to rounding
CASES: dict[str, dict[str, Any]] = {
    "full": {"model": {"dropout": 0.0}, "fit": {"class_weights": "balanced", "epochs": 4}},
    "batches": {
        "model": {"dropout": 0.0},
        "batch": {"size": 16, "fanouts": [4, 3]},
        "fit": {"clip": 0.5, "epochs": 4, **ONE_CONFIG},
    },
    "non-local": {
        "model": {"dropout": 0.0, "non_local": {"enabled": True}},
        "batch": {"size": 16, "fanouts": 4},
        "fit": {"epochs": 2, **ONE_CONFIG},
    },
    "relational": {
        "model": {"name": "rgcn", "dropout": 0.0},
        "batch": {"size": 16, "fanouts": [2, 1]},
        "fit": {"epochs": 3, **ONE_CONFIG},
    },
}
# three processes for batches of two targets: one has nothing to do, and must take part all the same
UNEVEN = {
    "features": {"normalize": "none"},
    "model": {"own": "shared", "rescale": False, "name": "gtn", "dropout": 0.0, "gamma": 1.0, "aggregate": "concat"},
    "batch": {"size": 2, "fanouts": 2},
    "fit": {"epochs": 1, **ONE_CONFIG},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, academic: Any) -> Path:
    """All cases with one and with several processes."""
    folder = tmp_path_factory.mktemp("together")
    archive.write(folder / "academic.npz", *academic)
    jobs = [(name, size, case) for name, case in CASES.items() for size in (1, 2)]
    jobs += [("uneven", size, UNEVEN) for size in (1, 3)]
    words = [str(TESTS / "train_together.py"), str(folder), str(folder / "academic.npz"), json.dumps(jobs)]
    subprocess.run([sys.executable, *words], check=True, cwd=TESTS, env=os.environ | ONE_THREAD)
    return folder


def history(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "seed-0" / "history.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("case", "size"), [*((name, 2) for name in CASES), ("uneven", 3)])
def test_several_processes_train_as_one_would(trained: Path, case: str, size: int) -> None:
    alone, together = trained / f"{case}-1", trained / f"{case}-{size}"
    for one, other in zip(history(alone), history(together), strict=True):
        assert other == pytest.approx(one, rel=1e-3)
    names = [str(path.relative_to(alone)) for path in sorted(alone.rglob("*")) if path.is_file()]
    assert names == [str(path.relative_to(together)) for path in sorted(together.rglob("*")) if path.is_file()]
    weights, others = (read_tensors(folder / "seed-0/checkpoint/state.safetensors")[0] for folder in (alone, together))
    for name in weights:
        if name.startswith("model."):
            torch.testing.assert_close(others[name], weights[name], rtol=1e-3, atol=2e-4)
    one, other = (json.loads((folder / "result.json").read_text())["runs"][0] for folder in (alone, together))
    assert (other["epoch"], other["val"]) == (one["epoch"], pytest.approx(one["val"]))


def test_parts_cover_everything_once_and_are_even() -> None:
    for size in (1, 2, 3, 7):
        parts = [Team(rank, size).part(17) for rank in range(size)]
        assert [n for part in parts for n in range(17)[part]] == list(range(17))
        lengths = [part.stop - part.start for part in parts]
        assert max(lengths) - min(lengths) <= 1


def test_without_torchrun_there_is_one_process() -> None:
    with joined() as team:
        assert team is ALONE


def test_a_run_that_may_be_restarted_needs_a_folder(graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    with pytest.raises(InputError, match="--max-restarts resumes a run: give its folder with --out"):
        train(quick(graph_file))


def last_document(text: str) -> dict[str, Any]:
    """The last JSON document; on a busy machine torchrun may start finished workers again, which print it once more."""
    found: dict[str, Any] = json.loads(text[text.rfind("\n{\n") + 1 :])
    return found


@pytest.mark.slow
def test_a_killed_worker_is_started_again_and_nothing_is_lost(graph_file: Path, tmp_path: Path) -> None:
    environment = os.environ | ONE_THREAD | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "3"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(TESTS / "killed_worker.py")]
    words = ["train", "--graph", str(graph_file), "--json", "--set", "fit.epochs=12", "--set", "batch.size=16"]
    words += ["--set", "fit.trial_seconds=0"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    printed = []
    for folder, step in ((whole, 0), (cut, 20)):
        command = [*torchrun, str(step), str(mark := tmp_path / "killed"), *words, "--out", str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        assert mark.exists() == (folder == cut)
        printed.append(last_document(done.stdout))
    assert printed[0]["test"] == printed[1]["test"]
    assert history(cut) == history(whole)
    one, other = (read_tensors(folder / "seed-0/model.safetensors")[0] for folder in (whole, cut))
    assert all(torch.equal(one[name], other[name]) for name in one)
