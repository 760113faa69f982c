"""`fastgtn data ls | info | check | make`: what people and programs see."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app, main
from fastgtn.data import NodeTask, archive
from fastgtn.data.archive.file import CHECKSUMS
from fastgtn.errors import InputError

Shop = tuple[HeteroData, NodeTask]


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["data", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def run_json(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code))


@pytest.fixture
def folder(shop: Shop, tmp_path: Path) -> Path:
    archive.write(tmp_path / "shop.npz", *shop)
    return tmp_path


def test_ls_shows_what_is_there_and_what_the_paper_has(folder: Path) -> None:
    text = run("ls", "--data-dir", folder)
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert rows["shop"].split()[1:] == ["7", "10", "2/3", "2", "2/1/1", "–"]
    assert rows["dblp"].endswith("not here     ")
    listed = run_json("ls", "--data-dir", folder)
    assert listed["graphs"]["shop"]["nodes"] == 7
    assert listed["missing"]["dblp"]["edges"] == 67496
    assert set(listed["graphs"]) == {"planted", "shop"}


def test_ls_survives_a_damaged_archive(folder: Path) -> None:
    (folder / "broken.npz").write_bytes(b"PK")
    assert "damaged broken:" in run("ls", "--data-dir", folder)
    assert "broken" in run_json("ls", "--data-dir", folder)["unreadable"]


def test_info_counts_types_relations_and_classes(folder: Path) -> None:
    info = run_json("info", "shop", "--data-dir", folder)
    assert info["node_types"]["user"] | {"density": 0} == {
        "nodes": 4,
        "features": 2,
        "density": 0,
        "layout": "sparse",
        "isolated": 0,
    }
    visits = info["relations"]["visits"]
    assert (visits["edges"], visits["weighted"], visits["max_degree"], visits["mean_degree"]) == (5, True, 2, 5 / 3)
    assert info["class_counts"] == {"old": {"train": 1, "val": 1}, "young": {"train": 1, "val": 0}}
    assert info["checksum"] == archive.checksum(folder / "shop.npz")
    text = run("info", "shop", "--data-dir", folder)
    assert "single label of user · 2 classes · 2/1/1" in text
    assert "user → shop" in text


def test_info_names_the_file_whose_labels_make_no_sense(folder: Path) -> None:
    arrays = dict(np.load(folder / "shop.npz"))
    del arrays[CHECKSUMS]
    arrays["labels"][arrays["labels"] >= 0] = 99
    np.savez(folder / "spoiled.npz", **arrays)
    with pytest.raises(InputError, match=r"spoiled\.npz: .*classes"):
        run("info", folder / "spoiled.npz")


def test_info_of_a_planted_graph_tells_the_answer() -> None:
    assert "labels follow the meta-path APVPA" in run("info", "planted")
    assert run_json("info", "planted")["planted"]["path"] == "APVPA"


def test_check_ends_with_one_when_something_is_wrong(shop: Shop, folder: Path) -> None:
    assert "errors 0 · warnings 0 · notes 0" in run("check", folder / "shop.npz")
    graph, task = shop
    graph["user"].node_id[1] = "ann"
    archive.write(folder / "twice.npz", graph, task)
    text = run("check", folder / "twice.npz", code=1)
    assert "duplicate ids" in text
    assert "→ Make ids unique" in text
    findings = run_json("check", folder / "twice.npz", code=1)["findings"]
    assert [finding["check"] for finding in findings] == ["duplicate ids"]


def test_check_takes_the_path_length(shop: Shop, folder: Path) -> None:
    graph, task = shop
    graph["town"].num_nodes = 1
    graph["town", "home", "shop"].edge_index = torch.tensor([[0], [0]])
    graph["shop", "lies", "town"].edge_index = torch.tensor([[0], [0]])
    archive.write(folder / "town.npz", graph, task)
    checks = [found["check"] for found in run_json("check", folder / "town.npz", "--path-length", 1)["findings"]]
    assert checks == ["unreachable types", "features"]
    assert [found["check"] for found in run_json("check", folder / "town.npz")["findings"]] == ["features"]


def test_make_random_schema_writes_the_graph_and_its_answer(tmp_path: Path) -> None:
    out = tmp_path / "s.npz"
    run_json("make", "random-schema", "--seed", "3", "--types", "4", "--paths", "2", "--out", out)
    graph, _ = archive.read(out)
    assert len(graph.node_types) == 4
    assert len(graph.planted["paths"]) == 2
    assert f"labels follow the meta-path {graph.planted['path']}" in run("info", out)


def test_make_planted_writes_the_graph_that_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "g.npz"
    options = ("--path", "APT", "--authors", 120, "--papers", 90, "--venues", 12, "--terms", 30, "--seed", 4)
    report = run_json("make", "planted", *options, "--out", out)
    assert report["nodes"] == {"author": 120, "paper": 90, "venue": 12, "term": 30}
    graph, _ = archive.read(out)
    assert (graph.planted["path"], graph.planted["seed"]) == ("APT", 4)
    assert "next: fastgtn data check" in run("make", "planted", *options, "--out", tmp_path / "h.npz")
    assert (tmp_path / "h.npz").read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "dpbl"], 'did you mean "dblp"?'),
        (["check", "no.npz"], "no graph archive at no.npz"),
        (["make", "planted", "--path", "AX", "--out", "g.npz"], 'the path "AX" cannot be planted'),
        (["ls", "--data-dir", "no/such"], "the data folder no/such does not exist"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FASTGTN_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["fastgtn", "data", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
