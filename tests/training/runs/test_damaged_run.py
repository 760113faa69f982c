"""Whatever happens to the files of a run, every command works or says in one line what is wrong."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.doors import damaged_values
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_config import quick
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.errors import InputError
from fastgtn.runs import load_run, train
from fastgtn.runs.records import finished_seeds

Damage = Callable[[bytes, random.Random], bytes]


@pytest.fixture(scope="module")
def whole_run(academic: tuple[HeteroData, NodeTask], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two seeds, with a checkpoint of every epoch."""
    folder = tmp_path_factory.mktemp("whole")
    archive.write(folder / "academic.npz", *academic)
    config = quick(folder / "academic.npz", fit={"runs": 2, "epochs": 3, "checkpoint_every": 1})
    train(config, out=folder / "run")
    return folder / "run"


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def junk(_: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([0, 1, 10, 1000]))


def confuse(data: bytes, chance: random.Random) -> bytes:
    """JSON whose values have other types, or are gone; other files get a foreign line."""
    try:
        return damaged_values(data, chance)
    except ValueError:
        return data + b"\n[x]\ny = 1\n"


def files_of(run: Path) -> list[Path]:
    return sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file() and path.name != ".lock")


@settings(max_examples=30, deadline=None)
@given(
    place=st.integers(0, 100),
    damage=st.sampled_from([cut, flip, junk, confuse, None]),
    seed=st.integers(0, 10_000),
    command=st.sampled_from(["evaluate", "predict", "explain", "reasons", "report", "resume"]),
)
def test_a_damaged_run_is_used_or_refused(
    whole_run: Path, place: int, damage: Damage | None, seed: int, command: str
) -> None:
    folder = whole_run.parent / "damaged"
    run = Path(shutil.copytree(whole_run, folder / "run"))
    files = files_of(run)
    path = run / files[place % len(files)]
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes(), random.Random(seed)))
    words = {
        "evaluate": ["evaluate", run],
        "predict": ["predict", run, "--out", folder / "predictions.csv"],
        "explain": ["explain", run],
        "reasons": ["explain", run, "--node", 0],
        "report": ["report", run, "--out", folder / "report.html"],
        "resume": ["train", "--resume", "--out", run],
    }[command]
    answer = CliRunner().invoke(app, [str(word) for word in words])
    if answer.exception is not None:
        assert isinstance(answer.exception, InputError), (path, damage, words)
        assert "\n" not in str(answer.exception)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"val": "good"}, r"result\.json is missing or damaged \(val: Input should be a valid dictionary\)"),
        ({"epoch": "3"}, r"epoch: Input should be a valid integer"),
        ({"test": {"micro_f1": None}}, r"test\.micro_f1: Input should be a valid number"),
    ],
)
def test_a_result_of_other_types_is_named(whole_run: Path, tmp_path: Path, changes: Any, message: str) -> None:
    run = Path(shutil.copytree(whole_run, tmp_path / "run"))
    path = run / "seed-1" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError, match=message):
        load_run(run, seed=1)


def test_a_history_that_is_none_and_a_summary_without_seeds_are_named(whole_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole_run, tmp_path / "run"))
    (run / "seed-0" / "history.jsonl").write_text('{"epoch": 1, "loss": 0.5}\n{"loss": 0.4}\n')
    with pytest.raises(
        InputError, match=r"history\.jsonl is missing or damaged \(line 2 is not a record of an epoch\)"
    ):
        _ = load_run(run, seed=0).history
    (run / "result.json").write_text('{"runs": [{"epoch": 3}]}')
    with pytest.raises(InputError, match=r"runs\.0\.seed: Field required"):
        finished_seeds(run)
