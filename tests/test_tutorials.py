"""The tutorials about real tables, run as they are printed on the real tables, which are not part of the project."""

import csv
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import data_folder

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
Rows = list[dict[str, str]]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def follow(page: str, tables: str, toml: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Copy the tables, write the printed graph.toml, run every printed command; returns what each one printed."""
    source = data_folder() / "tables" / tables
    if not source.is_dir():
        pytest.skip(f"the tables are not in {source}")
    text = (PAGES / page).read_text()
    for file in source.glob("*.csv"):
        shutil.copy(file, folder)
    (folder / toml).write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    monkeypatch.chdir(folder)
    printed = {}
    for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        if command.startswith("fastgtn"):
            answer = CliRunner().invoke(app, command.split()[1:])
            assert answer.exit_code == 0, (command, answer.output, answer.exception)
            printed[" ".join(command.split()[1:3])] = answer.stdout
        else:
            subprocess.run(command, shell=True, check=True, capture_output=True)
    return printed


def rows_of(path: Path) -> Rows:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_bad_loans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = follow("bad-loans.md", "berka", "loans.toml", tmp_path, monkeypatch)
    assert "class balance" in printed["data check"]
    assert re.search(r"average precision (\d+)", printed["train --graph"])
    assert (tmp_path / "loans.html").stat().st_size > 10_000
    is_bad = {row["loan_id"]: row["status"] in "BD" for row in rows_of(tmp_path / "loan.csv")}
    scored = rows_of(tmp_path / "scored.csv")
    assert len(scored) == 61
    assert {row["split"] for row in scored} == {"none"}
    assert roc_auc_score([is_bad[row["node"]] for row in scored], [float(row["p_bad"]) for row in scored]) > 0.9


def test_film_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = follow("film-scores.md", "ml100k", "ratings.toml", tmp_path, monkeypatch)
    assert float(re.search(r"test .*?R² ([\d.]+)", printed["train --graph"]).group(1)) > 40  # type: ignore[union-attr]
    stars: dict[str, list[float]] = {}
    for row in rows_of(tmp_path / "ratings.csv"):
        stars.setdefault(row["item_id"], []).append(float(row["rating"]))
    scored = rows_of(tmp_path / "scored.csv")
    assert len(scored) == 116
    assert r2_score([np.mean(stars[row["node"]]) for row in scored], [float(row["predicted"]) for row in scored]) > 0.3


def test_recommend_films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = follow("recommend-films.md", "ml100k", "films.toml", tmp_path, monkeypatch)
    assert re.search(r"1  UFUF", printed["train --graph"])
    assert "film Star Wars (1977)" in printed["explain runs/films-links-0"]
    rows = rows_of(tmp_path / "recommendations.csv")
    assert len(rows) == 10 * 943
    assert (tmp_path / "films.html").stat().st_size > 10_000
