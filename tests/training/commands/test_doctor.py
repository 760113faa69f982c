"""`fastgtn doctor` says what is installed and what works, and exits with 1 where something does not."""

import json

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.cli.doctor import facts


def test_the_facts_are_shown_and_everything_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FASTGTN_DATA", str(tmp_path))
    shown = CliRunner().invoke(app, ["doctor", "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["checks"] == {"kernels": "works", "tables": "works", "writing": "works"}
    assert "torch " in found["facts"]["uses"]
    assert found["facts"]["data"] == f"{tmp_path} · 0 graphs"
    assert f"FASTGTN_DATA={tmp_path}" in found["facts"]["set"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", ["_try_kernels", "_try_tables", "_try_writing"])
def test_what_is_broken_is_named(part, monkeypatch):
    def fail() -> None:
        raise OSError("it is broken")

    for each in ("_try_kernels", "_try_tables", "_try_writing"):
        monkeypatch.setattr(facts, each, fail if each == part else lambda: None)
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert f"{part.removeprefix('_try_'):<8}FAILS (OSError: it is broken)" in shown.stdout
    assert shown.stdout.count("works") == 2


def test_a_missing_data_folder_is_a_fact_not_a_crash(monkeypatch):
    monkeypatch.setenv("FASTGTN_DATA", "/nowhere")
    assert "does not exist" in facts.facts()["data"]
