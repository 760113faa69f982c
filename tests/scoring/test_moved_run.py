"""A run whose graph was moved says so in one line, and every command takes the new place."""

from pathlib import Path

import pytest
from quick_config import quick
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app
from fastgtn.data import NodeTask, archive
from fastgtn.errors import InputError
from fastgtn.runs import train

COMMANDS = {
    "evaluate": [],
    "predict": ["--out", "p.csv"],
    "explain": [],
    "explain --node": ["--node", "a-05"],
    "report": ["--out", "r.html"],
    "serve": ["--port", "0"],
}


@pytest.fixture(scope="module")
def moved(academic: tuple[HeteroData, NodeTask], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of a run, and the new place of its graph."""
    folder = tmp_path_factory.mktemp("moved")
    archive.write(folder / "academic.npz", *academic)
    train(quick(folder / "academic.npz"), out=folder / "run")
    (folder / "run").rename(folder / "elsewhere")
    (folder / "academic.npz").rename(folder / "there.npz")
    return folder / "elsewhere", folder / "there.npz"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_names_the_old_place_and_takes_the_new_one(
    moved: tuple[Path, Path], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastgtn.serve.server.run_server", lambda *_, **__: None)
    run, graph = moved
    words = [name.split()[0], str(run), *COMMANDS[name]]
    answer = CliRunner().invoke(app, words)
    assert isinstance(answer.exception, InputError)
    assert "academic.npz, which no longer exists: give its new path with --graph" in str(answer.exception)
    answer = CliRunner().invoke(app, [*words, "--graph", str(graph)])
    assert answer.exit_code == 0, answer.output


def test_a_result_that_keeps_its_graph_can_be_moved(run_folder: Path, tmp_path: Path) -> None:
    before = fastgtn.load_run(run_folder).predict()
    place = tmp_path / "elsewhere"
    place.mkdir()
    for path in run_folder.rglob("*"):
        if path.is_file():
            (place / path.relative_to(run_folder)).parent.mkdir(parents=True, exist_ok=True)
            (place / path.relative_to(run_folder)).write_bytes(path.read_bytes())
    assert fastgtn.load_run(place).predict().equals(before)
