"""Real graphs of every kind train with one command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "model", "chance"),
    [
        ("dblp", "fast_gtn", 0.5),
        ("dblp", "gtn", 0.5),
        ("cora", "fast_gtn", 0.5),  # homogeneous: one relation and the identity
        ("hgb_imdb", "fast_gtn", 0.3),  # several labels, another feature width for each node type
        ("heco_aminer", "fast_gtn", 0.3),  # no features at all
    ],
)
def test_a_real_graph_trains_with_one_command(
    real_graphs: Path, tmp_path: Path, dataset: str, model: str, chance: float
) -> None:
    words = ["train", "--dataset", dataset, "--model", model, "--data-dir", str(real_graphs), "--json"]
    words += ["--out", str(tmp_path / "run"), "--set", "fit.epochs=30"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    summary = json.loads(result.stdout)
    assert summary["dataset"] == dataset
    assert summary["test"]["micro_f1"]["mean"] > chance
