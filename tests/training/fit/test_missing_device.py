"""A device that the machine does not have: one line before anything is done, and runs of other machines still work."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from quick_config import quick
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.data import make_planted
from fastgtn.errors import InputError
from fastgtn.links import fit_encoders
from fastgtn.runs.learned.control import train_control
from fastgtn.training import device as devices
from fastgtn.training.team import ALONE, Team

GRAPH, TASK = make_planted(authors=60, papers=60, venues=8, terms=12)
MISSING = {"fit": {"device": "cuda"}}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu_is_one_line_before_anything_is_read_or_written(tmp_path: Path) -> None:
    assert devices.chosen_device("auto", ALONE) == torch.device("cpu")
    with pytest.raises(InputError, match=r'fit.device = "cuda", but this torch .* finds no such device'):
        devices.chosen_device("cuda", ALONE)
    graph, out = tmp_path / "empty.npz", tmp_path / "run"
    graph.write_bytes(b"")  # reading it would be another mistake
    common = ["--graph", str(graph), "--model", "gcn", "--set", "fit.device=cuda", "--out", str(out)]
    for line in (["train"], ["tune"], ["train", "--task", "link"], ["tune", "--task", "link"]):
        result = CliRunner().invoke(app, [*line, *common])
        assert isinstance(result.exception, InputError)
        assert "finds no such device" in str(result.exception)
        assert not out.exists()
    for fit in (lambda: fastgtn.fit(GRAPH, TASK, MISSING), lambda: fit_encoders(None, "gcn", MISSING)):
        with pytest.raises(InputError, match="finds no such device"):
            fit()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_the_control_of_a_run_from_another_machine_is_trained_here() -> None:
    """A run that was trained on a GPU is explained on a machine without one."""
    result = fastgtn.fit(GRAPH, TASK, quick(fit={"epochs": 1}))
    moved = replace(result, config=Config.of(result.config.model_dump(), MISSING))
    assert moved.config.fit.device == "cuda"
    assert train_control(moved) == train_control(result)


def test_several_processes_train_on_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    team = Team(0, 2)
    assert devices.chosen_device("auto", team) == torch.device("cpu")
    with pytest.raises(InputError, match="2 processes train together"):
        devices.chosen_device("cuda", team)
