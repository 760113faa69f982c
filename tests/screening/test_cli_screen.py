"""The command prints a table, JSON and a plot, and refuses what it cannot do."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app, main


def test_the_table_names_the_planted_path() -> None:
    result = CliRunner().invoke(app, ["screen", "--longest", "2", "--set", "dataset=planted"])
    assert result.exit_code == 0, result.output
    assert "verdict" in result.output
    assert "99 permutations" in result.output
    assert "next    fastgtn train --dataset planted" in result.output


def test_json_and_plot(tmp_path: Path) -> None:
    plot = tmp_path / "screen.svg"
    result = CliRunner().invoke(app, ["screen", "--longest", "2", "--json", "--plot", str(plot)])
    found = json.loads(result.stdout)
    assert found["dataset"] == "planted"
    assert {"path", "r_squared", "p_value", "added", "chosen"} <= set(found["paths"][0])
    assert "itself" in plot.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plot", "a.txt"], "a.txt must end with one of .png, .svg, .pdf"),
        (["--dataset", "acm", "--graph", "g.npz"], "cannot be combined"),
    ],
)
def test_mistakes_are_one_line(options: list[str], message: str, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("sys.argv", ["fastgtn", "screen", *options])
    with pytest.raises(SystemExit):
        main()
    assert message in capsys.readouterr().err


def test_a_plot_is_not_replaced(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    plot = tmp_path / "screen.png"
    plot.write_bytes(b"mine")
    monkeypatch.setattr("sys.argv", ["fastgtn", "screen", "--plot", str(plot)])
    with pytest.raises(SystemExit):
        main()
    assert "already exists" in capsys.readouterr().err
    assert plot.read_bytes() == b"mine"
