"""The commands that write archives: what they print, and that a mistake writes nothing."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from typer.testing import CliRunner, Result

import fastgtn.cli
from fastgtn.cli.data.build import build_graph, import_graph
from fastgtn.data import archive
from fastgtn.errors import InputError

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_graph" / "graph.toml"
app = typer.Typer()
app.command("import")(import_graph)
app.command("build")(build_graph)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refuse(message: str, *arguments: object) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.fixture
def gtn_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    links = sp.csr_matrix(([1, 1, 1], ([0, 1, 2], [3, 3, 4])), shape=(5, 5))
    contents = {"edges": [links, links.T.tocsr()], "node_features": np.eye(5), "labels": [[[0, 0]], [[1, 1]], [[2, 0]]]}
    for name, value in contents.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(value))
    return folder


def test_build_prints_the_graph_and_the_next_step(tmp_path: Path) -> None:
    out = tmp_path / "shops.npz"
    result = run("build", EXAMPLE, "--out", out)
    assert result.exit_code == 0
    assert "shops · 72 nodes · 558 edges" in result.stdout
    assert f"next: fastgtn data check {out}" in result.stdout
    assert result.stderr == ""  # no progress bar where nobody watches
    assert archive.read(out)[0]["shop"].num_nodes == 12


def test_build_as_json(tmp_path: Path) -> None:
    document = json.loads(run("build", EXAMPLE, "--out", tmp_path / "shops", "--json").stdout)
    assert document["nodes"] == {"user": 60, "shop": 12}
    assert document["edges"]["rev_visits"] == document["edges"]["visits"]
    assert document["task"]["classes"] == ["bargain", "family", "luxury"]
    assert archive.read(tmp_path / "shops")[0].name == "shops"  # a folder of .npy files


def test_import_with_and_without_names(gtn_folder: Path, tmp_path: Path) -> None:
    result = run("import", "gtn", gtn_folder, "--out", tmp_path / "a.npz")
    assert "type_0 3 · type_1 2" in result.stdout
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"types": {"paper": 3, "author": 2}, "relations": ["PA", "AP"]}))
    document = json.loads(run("import", "gtn", gtn_folder, "-o", tmp_path / "b.npz", "--types", names, "--json").stdout)
    assert document["nodes"] == {"paper": 3, "author": 2}
    assert document["edges"] == {"PA": 3, "AP": 3}


def test_an_existing_archive_is_replaced_only_by_force(gtn_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.npz"
    out.write_text("precious")
    refuse("already exists", "import", "gtn", gtn_folder, "--out", out)
    refuse("already exists", "build", EXAMPLE, "--out", out)
    assert out.read_text() == "precious"
    assert run("import", "gtn", gtn_folder, "--out", out, "--force").exit_code == 0
    assert archive.read(out)[0].num_nodes == 5


def test_mistakes_write_nothing(gtn_folder: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    out = tmp_path / "a.npz"
    refuse('no importer "gnt"; did you mean "gtn"', "import", "gnt", gtn_folder, "--out", out)
    refuse("hgb files contain node types", "import", "hgb", gtn_folder, "--out", out, "--types", EXAMPLE)
    refuse("does not exist: create it first", "import", "gtn", gtn_folder, "--out", tmp_path / "no" / "a.npz")
    refuse("no such file", "import", "gtn", tmp_path, "--out", out)
    refuse("no file *_adj.pkl", "import", "gaug", tmp_path / "no" / "cora", "--out", out)
    refuse("no such file", "build", tmp_path / "graph.toml", "--out", out)
    (gtn_folder / "edges.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    refuse("refers to os.system", "import", "gtn", gtn_folder, "--out", out)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_mistake_is_one_line_and_exit_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fastgtn.cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["fastgtn", "build", str(tmp_path / "graph.toml"), "--out", str(tmp_path / "a")])
    with pytest.raises(SystemExit) as stop:
        fastgtn.cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
