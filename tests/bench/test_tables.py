"""Tables say what the run folders say, go on where they stopped, and mark what could not be run."""

import contextlib
import json
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fastgtn.bench import paper
from fastgtn.bench.ablation import ablation_plans, ablation_report, non_local_attention
from fastgtn.bench.cells import Cell, Plan, plan, run_cells
from fastgtn.bench.hgb import hgb_plans, hgb_report
from fastgtn.bench.large import MODELS as MODELS_OF_TABLE_2
from fastgtn.bench.large import large_plans
from fastgtn.bench.nodes import compare, nodes_report, paired
from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.errors import InputError
from fastgtn.options import merged

QUICK = {"model": {"hidden": 8}, "fit": {"epochs": 4}}


def quick_plans(graph_file: Path, *models: str, runs: int = 2) -> list[Plan]:
    return [plan(str(graph_file), model, runs=runs, seed=0, extra=QUICK) for model in models]


def scored(model: str, val: float, tests: list[float], dataset: str = "imdb") -> Cell:
    spread = {"micro_f1": {"mean": float(np.mean(tests)), "std": 0.0}}
    runs = [{"test": {"micro_f1": score}} for score in tests]
    return Cell(dataset, model, {"test": spread, "val": {"micro_f1": {"mean": val, "std": 0.0}}, "runs": runs})


def test_a_table_has_the_numbers_of_the_run_folders(graph_file: Path, tmp_path: Path) -> None:
    plans = quick_plans(graph_file, "mlp", "gtn")
    cells = run_cells(plans, tmp_path / "bench")
    report = nodes_report(cells, command="fastgtn bench nodes", seeds=[0, 1])
    for one, row in zip(plans, report.tables[0].rows, strict=True):
        stored = json.loads((tmp_path / "bench" / one.folder_name / "result.json").read_text())
        test = stored["test"]["micro_f1"]
        assert f"{100 * test['mean']:.2f} ± {100 * test['std']:.2f}" in row[1]
    assert [row[0] for row in report.tables[0].rows] == ["MLP", "GTN"]
    assert [table.title for table in report.tables[:2]] == ["micro-F1", "macro-F1"]
    assert "| academic" in report.markdown()
    assert report.notes[0] == (
        "Test scores in points, mean ± sample standard deviation of the seeds 0 … 1; the best of a dataset is bold. "
        "Epochs and configs were chosen on validation scores."  # the paper has no number for an own graph
    )


def test_a_finished_cell_is_read_and_a_changed_config_is_another_cell(graph_file: Path, tmp_path: Path) -> None:
    (one,) = quick_plans(graph_file, "mlp", runs=1)
    (first,) = run_cells([one], tmp_path)
    result = tmp_path / one.folder_name / "seed-0" / "result.json"
    written = result.stat().st_mtime_ns
    (again,) = run_cells([one], tmp_path)
    assert result.stat().st_mtime_ns == written
    assert again.summary["test"] == first.summary["test"]
    (more,) = run_cells(quick_plans(graph_file, "mlp", runs=2), tmp_path)
    assert result.stat().st_mtime_ns == written
    assert [run["seed"] for run in more.summary["runs"]] == [0, 1]
    changed = plan(str(graph_file), "mlp", runs=1, seed=0, extra={"fit": {"epochs": 5}})
    assert changed.folder_name != one.folder_name


@pytest.mark.slow
def test_cells_in_other_processes_are_the_same_cells(graph_file: Path, tmp_path: Path) -> None:
    plans = quick_plans(graph_file, "mlp", runs=1)
    (here,) = run_cells(plans, tmp_path / "here")
    (there,) = run_cells(plans, tmp_path / "there", jobs=2)
    assert there.summary["test"] == here.summary["test"]
    with pytest.raises(InputError, match="--jobs is 0; it must be at least 1"):
        run_cells(plans, tmp_path, jobs=0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc to find processes in")
def test_workers_end_with_the_process_that_started_them(graph_file: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "fastgtn",
        "bench",
        "nodes",
        "--graph",
        str(graph_file),
        "--models",
        "gcn,mlp",
        "--runs",
        "100000",
        "--jobs",
        "2",
        "--out",
        str(tmp_path / "bench"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        while not list(tmp_path.glob("bench/*/seed-0/result.json")):
            assert parent.poll() is None
            time.sleep(0.1)
        workers = {pid for pid, (_, ppid) in processes().items() if ppid == parent.pid}
        assert workers
        parent.kill()
    while any(processes().get(pid, ("Z", 0))[0] != "Z" for pid in workers):
        time.sleep(0.1)


def test_a_lost_worker_is_one_clear_line(graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.map", lost)
    with pytest.raises(
        InputError, match=r"one of the parallel processes was ended from outside.* Finished results are"
    ):
        run_cells([plan(str(graph_file), "mlp", runs=1, seed=0)], tmp_path, jobs=2)


def processes() -> dict[int, tuple[str, int]]:
    """State and parent of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            state, ppid = path.read_text().rpartition(")")[2].split()[:2]
            found[int(path.parent.name)] = (state, int(ppid))
    return found


def test_what_cannot_be_run_is_marked_with_its_reason(ring_file: Path, tmp_path: Path) -> None:
    missing = plan("ppi", "mlp", runs=1, seed=0, extra=QUICK)
    cells = run_cells([missing, *quick_plans(ring_file, "mlp", runs=1)], tmp_path / "bench", data_dir=tmp_path)
    report = nodes_report(cells, command="", seeds=[0])
    (score,) = cells[1].scores("micro_f1")
    assert report.tables[0].rows == [["MLP", "– / 40.38", f"**{100 * score:.2f}**"]]  # one seed has no deviation
    assert report.notes[0].startswith("Test scores in points, of seed 0; the best of a dataset is bold, and the paper")
    assert any(note.startswith('not run: mlp on ppi: the dataset "ppi" is not in') for note in report.notes)
    assert report.values["cells"][0]["reason"].startswith("the dataset")


def test_a_model_that_does_not_apply_is_marked(ring_file: Path, tmp_path: Path) -> None:
    (cell,) = run_cells([plan(str(ring_file), "han", runs=1, seed=0)], tmp_path)
    assert cell.reason
    assert not cell.summary


def test_ours_is_chosen_on_validation_and_meets_the_strongest_baseline() -> None:
    cells = [
        scored("gtn", 0.9, [0.70, 0.72, 0.74]),
        scored("fast_gtn", 0.8, [0.80, 0.81, 0.82]),
        scored("gcn", 0.9, [0.60, 0.60, 0.60]),
        scored("gat", 0.1, [0.65, 0.66, 0.61]),
    ]
    found = compare(cells)
    assert found is not None
    assert (found["ours"], found["baseline"]) == ("gtn", "gat")
    assert found["difference"] == pytest.approx(0.08)
    assert compare(cells[:2]) is None


def test_paired_tests_know_sure_differences_from_chance() -> None:
    noise = np.array([0.01, -0.01, 0.02, -0.02, 0.0, 0.015, -0.005, 0.01, -0.02, 0.005])
    sure, chance = paired(0.7 + noise, np.full(10, 0.6)), paired(0.7 + noise, np.full(10, 0.7))
    assert sure["p_t_test"] is not None
    assert chance["p_t_test"] is not None
    assert sure["p_t_test"] < 0.001 < 0.5 < chance["p_t_test"]
    assert sure["p_wilcoxon"] == pytest.approx(2 / 2**10)
    assert paired(np.array([0.7]), np.array([0.6]))["p_t_test"] is None
    assert paired(np.array([0.5, 0.5]), np.array([0.5, 0.5]))["p_wilcoxon"] is None


def test_the_papers_numbers_are_those_of_its_tables() -> None:
    assert paper.MICRO_F1["imdb", "fast_gtn_non_local"] == 64.63
    assert paper.MICRO_F1["imdb", "fast_gtn"] == 60.23
    assert paper.MICRO_F1["flickr", "mlp"] == 69.10
    assert paper.MICRO_F1["cora", "gtn"] == 79.99
    assert ("dblp", "mixhop") not in paper.MICRO_F1
    assert set(paper.ABSENT) == {"oag-cs", "oag-ml", "oag-nn", "ppi"}


def test_the_ablation_reads_the_attention_of_every_hop(graph_file: Path, tmp_path: Path) -> None:
    plans = [
        Plan(one.dataset, one.model, Config.of(one.config.model_dump(), QUICK, {"model": {"path_length": 3}}))
        for one in ablation_plans([str(graph_file)], runs=2, seed=0)
    ]
    cells = run_cells(plans, tmp_path / "bench")
    report = ablation_report(cells, command="", seeds=[0, 1])
    by_model = {cell.model: cell for cell in cells}
    assert list(by_model) == ["gtn", paper.NO_IDENTITY, "fast_gtn", "fast_gtn_non_local"]
    folder = Path(by_model["fast_gtn_non_local"].summary["out"])
    seeds = [np.load(folder / f"seed-{seed}" / "filters.npz") for seed in (0, 1)]
    column = [str(name) for name in seeds[0]["relations"]].index("non_local")
    first_applied = np.mean([file["layer_0"][2, :, column].mean() for file in seeds])
    (weights,) = non_local_attention(by_model["fast_gtn_non_local"])
    assert weights[0] == pytest.approx(first_applied)
    assert len(weights) == 3
    assert report.tables[1].rows[0][3] == ", ".join(f"{weight:.3f}" for weight in weights)
    without = Config.from_toml(Path(by_model[paper.NO_IDENTITY].summary["out"]) / "config.toml")
    assert not without.graph.identity
    assert non_local_attention(Cell("imdb", "fast_gtn_non_local", reason="no data")) == []


def test_the_command_prints_tables_and_json_and_keeps_files(graph_file: Path, tmp_path: Path) -> None:
    words = [
        "bench",
        "nodes",
        "--graph",
        str(graph_file),
        "--models",
        "mlp",
        "--runs",
        "1",
        "--out",
        str(tmp_path / "b"),
    ]
    page = tmp_path / "table.md"
    answer = CliRunner().invoke(app, [*words, "--markdown", str(page)])
    assert answer.exit_code == 0
    assert page.read_text() in answer.stdout
    values = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert values["cells"][0]["model"] == "mlp"
    assert values["seeds"] == [0]
    refused = CliRunner().invoke(app, [*words, "--markdown", str(page)])
    assert "already exists" in str(refused.exception)
    assert CliRunner().invoke(app, [*words, "--markdown", str(page), "--force"]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nodes", "--models", "gnc"], 'no model "gnc"'),
        (["nodes", "--datasets", "imdb", "--graph", "x.npz"], "cannot be combined"),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str) -> None:
    answer = CliRunner().invoke(app, ["bench", *words])
    assert isinstance(answer.exception, InputError)
    assert message in str(answer.exception)


def test_large_graphs_are_made_once_and_all_models_have_the_same_batches(tmp_path: Path) -> None:
    command = ["bench", "large", "--scale", "0.02", "--epochs", "1", "--models", "mlp,fast_gtn", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert "### NDCG" in first.output
    assert "### micro-F1" not in first.output
    made = tmp_path / "graphs" / "oag-nn-x0_02-seed-0"
    written = {path: path.stat().st_mtime_ns for path in made.iterdir()}
    assert CliRunner().invoke(app, command).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in made.iterdir()} == written
    plans = large_plans("oag-nn", made, MODELS_OF_TABLE_2, runs=1, seed=0, epochs=3, batch_size=64)
    assert {(p.config.batch.size, p.config.fit.epochs) for p in plans} == {(64, 3)}
    assert [p.config.graph.identity for p in plans if p.model in ("gtn", paper.NO_IDENTITY)] == [False, True]


def test_a_shape_that_does_not_exist_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "large", "--shapes", "oag-xx", "--out", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "oag-nn" in str(result.exception)


def test_the_main_table_is_without_corrected_class_frequencies_and_another_one_is_with_them(
    graph_file: Path, tmp_path: Path
) -> None:
    plain, corrected = (
        plan(str(graph_file), "mlp", runs=2, seed=0, extra=merged(QUICK, {"fit": {"label_shift": shift}}))
        for shift in ("none", "em")
    )
    cells = run_cells([plain, corrected], tmp_path)
    report = nodes_report(cells[1:], command="", seeds=[0, 1])
    assert report.tables[0] == nodes_report(cells[:1], command="", seeds=[0, 1]).tables[0]
    (beside,) = [table for table in report.tables if table.title == "micro-F1 with corrected class frequencies"]
    assert f"{100 * cells[1].summary['test']['micro_f1']['mean']:.2f}" in beside.rows[0][1]
    assert cells[1].before_shift().scores("micro_f1") == cells[0].scores("micro_f1")
    del cells[1].summary["runs"][0]["test_before_label_shift"]
    assert "delete its folder" in cells[1].before_shift().reason


def test_divisions_of_the_labelled_nodes_are_one_cell() -> None:
    plans = hgb_plans(["hgb_dblp"], ["gtn"], runs=3, seed=2)
    assert [(one.config.split_seed, one.config.fit.seed, one.config.fit.runs) for one in plans] == [
        (2, 2, 1),
        (3, 3, 1),
        (4, 4, 1),
    ]
    assert len({one.folder_name for one in plans}) == 3
    cells = [scored("gtn", 0.9, [score], dataset="hgb_dblp") for score in (0.94, 0.95, 0.96)]
    for cell in cells:
        cell.summary["runs"][0]["val"] = {"micro_f1": 0.9}
    report = hgb_report(cells, command="fastgtn bench hgb", runs=3)
    assert report.tables[0].rows == [["GTN", "**95.00 ± 1.00**"]]
    assert ["Simple-HGN", "94.46"] in report.tables[1].rows
    diverged = Cell("hgb_dblp", "gcn", reason="the loss diverged")
    incomplete = hgb_report([*cells, diverged], command="", runs=3)
    assert incomplete.tables[0].rows[1] == ["GCN", "–"]
    assert incomplete.notes[-1] == "not run: gcn on hgb_dblp: the loss diverged"
