"""The explicit way is the same function, and FastGTN is what it is said to be equal to."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fastgtn.bench.efficiency import Sizes, efficiency_cells, efficiency_report, measure
from fastgtn.bench.exactness import exactness_cases
from fastgtn.bench.explicit import ExplicitGTN
from fastgtn.bench.measure import peak_memory
from fastgtn.cli import app
from fastgtn.data import archive, load
from fastgtn.errors import InputError
from fastgtn.nn import GTN, Features
from fastgtn.relations import RelationStack

SMALL = Sizes(path_length=2, hidden=8, rounds=1)


@pytest.mark.parametrize("path_length", [2, 3])
def test_explicit_gtn_is_gtn_with_the_same_gradients(graph_file: Path, path_length: int) -> None:
    graph, _ = load(graph_file)
    features, stack = Features.from_hetero(graph), RelationStack.from_hetero(graph)
    torch.manual_seed(0)
    gtn = GTN(features, 8, stack.relations, dropout=0.0, path_length=path_length, bias=True)
    explicit = ExplicitGTN(gtn, max_memory=1e9)
    grads = []
    for way in (gtn, explicit):
        out = way(features, stack)
        grads.append([out, *torch.autograd.grad(out.square().sum(), list(gtn.parameters()))])
    for implicit, written_out in zip(*grads, strict=True):
        torch.testing.assert_close(implicit, written_out, rtol=1e-4, atol=1e-5)


def test_measurements_are_kept_and_what_does_not_fit_is_marked(graph_file: Path, tmp_path: Path) -> None:
    (cell,) = efficiency_cells([str(graph_file)], SMALL, tmp_path / "out")
    assert set(cell["training"]) == {"explicit", "implicit", "fast_gtn"}
    assert all(found["seconds"] > 0 for phase in ("inference", "training") for found in cell[phase].values())
    assert efficiency_cells([str(graph_file)], SMALL, tmp_path / "out") == [cell]
    tight = Sizes(path_length=2, hidden=8, rounds=1, max_gigabytes=1e-6)
    cells = efficiency_cells([str(graph_file), "ppi"], tight, tmp_path / "out", data_dir=tmp_path)
    assert set(cells[0]["inference"]) == {"implicit", "fast_gtn"}
    report = efficiency_report(cells, tight, command="")
    assert any("academic: explicit GTN was not run: the learned graphs have up to" in note for note in report.notes)
    assert any(note.startswith("ppi: not run: ") for note in report.notes)
    assert report.tables[0].rows[0][1] == "–"
    assert report.tables[0].rows[-1][4] == "230× · 100×"
    assert report.tables[1].rows[-1][4] == "150× · 60×"


def test_trained_models_and_their_copies_are_equally_sure(graph_file: Path, ring_file: Path, tmp_path: Path) -> None:
    cases, skipped = exactness_cases([str(graph_file), str(ring_file), "ppi"], epochs=5, data_dir=tmp_path)
    assert [(case.dataset, case.model) for case in cases] == [
        ("academic", "GTN"),
        ("ring", "GTN"),
        ("ring", "GCN"),
        ("ring", "MixHop"),
    ]
    for case in cases:
        assert case.largest_difference < 1e-5
        assert len(set(case.ours)) > 10  # not one number for all nodes
    assert skipped[0].startswith("not run: ppi: ")


def test_exactness_draws_and_prints(ring_file: Path, tmp_path: Path) -> None:
    words = ["bench", "exactness", "--graph", str(ring_file), "--epochs", "2", "--out", str(tmp_path / "out")]
    answer = CliRunner().invoke(app, [*words, "--json"])
    assert [case["model"] for case in json.loads(answer.stdout)["cases"]] == ["GTN", "GCN", "MixHop"]
    assert (tmp_path / "out" / "exactness.png").read_bytes().startswith(b"\x89PNG")
    assert "FastGTN = MixHop" in CliRunner().invoke(app, words).stdout


def test_a_graph_without_task_cannot_be_measured(graph_file: Path, tmp_path: Path) -> None:
    graph, _ = load(graph_file)
    archive.write(tmp_path / "bare.npz", graph, None)
    with pytest.raises(InputError, match="has no labels and splits, which this command needs"):
        measure(str(tmp_path / "bare.npz"), SMALL)


def test_the_peak_of_memory_is_that_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty million bytes: freed before the call ends where the system counts, kept where samples are taken."""
    found = [peak_memory(lambda: torch.ones(10_000_000).sum().item()) for _ in range(2)]
    kept: list[torch.Tensor] = []
    monkeypatch.setattr("fastgtn.bench.measure._CLEAR", Path("/nowhere"))
    found.append(peak_memory(lambda: kept.append(torch.ones(10_000_000))))
    assert all(35e6 < peak < 60e6 for peak in found), found
