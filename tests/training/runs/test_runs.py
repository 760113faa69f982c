"""The run folder: what is in it, what its numbers mean, and that nothing is written for a mistake."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyarrow import parquet
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config.tuned_configs import models, recipe, recipes
from fastgtn.data import NodeTask, archive
from fastgtn.errors import InputError
from fastgtn.runs import train
from fastgtn.runs.files import alone_in
from fastgtn.runs.train import open_folder
from fastgtn.training import DivergedError

Academic = tuple[HeteroData, NodeTask]


def test_the_folder_has_all_that_was_promised(graph_file: Path, tmp_path: Path) -> None:
    config = quick(graph_file, fit={"runs": 2, "seed": 3})
    summary = train(config, out=tmp_path / "run")
    names = {"config.toml", "history.jsonl", "result.json", "model.safetensors", "checkpoint", "filters.npz"}
    for seed in (3, 4):
        folder = tmp_path / "run" / f"seed-{seed}"
        assert {file.name for file in folder.iterdir()} == names | {"predictions.parquet"}
        stored, asked = fastgtn.Config.from_toml(folder / "config.toml"), config.for_seed(seed)
        assert stored.features.normalize != "auto"
        assert stored.fit.weight_decay == stored.fit.decay
        settled = {"model": stored.model, "graph": stored.graph, "features": stored.features}
        assert stored.fit.consistency == stored.fit.agreement
        decided = {"weight_decay": stored.fit.weight_decay, "consistency": stored.fit.consistency}
        settled["fit"] = asked.fit.model_copy(update=decided)
        assert stored == asked.model_copy(update=settled)
        assert len((folder / "history.jsonl").read_text().splitlines()) == 8
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored == summary
    assert summary["model"] == "fast_gtn"
    assert summary["dataset"] == "planted"
    keys = ["seed", "epoch", "val", "test", "seconds", "peak_memory_mb", "speed", "propagation"]
    assert list(summary["runs"][0]) == [*keys, "selected_by", "balance", "majority"]
    scores = [run["test"]["micro_f1"] for run in summary["runs"]]
    assert summary["test"]["micro_f1"] == {"mean": statistics.mean(scores), "std": statistics.stdev(scores)}
    one = json.loads((tmp_path / "run" / "seed-3" / "result.json").read_text())
    assert one["data_checksum"] == archive.checksum(graph_file)
    assert one["versions"]["torch"] == torch.__version__


def test_a_run_in_a_folder_is_the_run_in_memory(graph_file: Path, tmp_path: Path, academic: Academic) -> None:
    config = quick(graph_file)
    train(config, out=tmp_path / "run")
    run, result = fastgtn.load_run(tmp_path / "run"), fastgtn.fit(*academic, config)
    assert run.test == result.test
    assert run.history == result.history
    for name, weight in result.model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], weight)
    with np.load(tmp_path / "run" / "seed-0" / "filters.npz") as stored:
        assert np.array_equal(stored["layer_0"], result.filters[0])
        assert stored["relations"].tolist() == [str(r) for r in result.inputs.stack.relations]


def test_predictions_are_those_of_the_chosen_weights(graph_file: Path, tmp_path: Path, academic: Academic) -> None:
    _, task = academic
    train(quick(graph_file), out=tmp_path / "run")
    table = parquet.read_table(tmp_path / "run" / "seed-0" / "predictions.parquet").to_pydict()
    assert table["node"] == list(range(90))
    probabilities = np.array([table[f"p_{name}"] for name in task.class_names])
    assert probabilities.sum(0) == pytest.approx(1)
    assert table["predicted"] == [task.class_names[c] for c in probabilities.argmax(0)]
    assert [n for n in range(90) if table["split"][n] == "test"] == sorted(task.test_nodes.tolist())
    right = [table["predicted"][n] == task.class_names[task._labels[n]] for n in task.test_nodes.tolist()]
    run = fastgtn.load_run(tmp_path / "run")
    assert run.test["accuracy"] == pytest.approx(np.mean(right))


def test_folders_are_numbered_and_never_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = []
    for _ in range(2):
        with open_folder(quick(), None, {}, resume=False) as place:
            places.append(place)
    assert places == [Path("runs/planted-fast_gtn-0"), Path("runs/planted-fast_gtn-1")]
    with alone_in(places[0]), pytest.raises(InputError, match="another process is training into"), alone_in(places[0]):
        pass


def test_a_diverged_run_says_so_and_keeps_its_history(graph_file: Path, tmp_path: Path) -> None:
    config = quick(graph_file, fit={"learning_rate": 1e30, "epochs": 50})
    with pytest.raises(DivergedError, match=r"lower fit.learning_rate .* The history is in"):
        train(config, out=tmp_path / "run")
    failed = json.loads((tmp_path / "run" / "seed-0" / "failed.json").read_text())
    assert len((tmp_path / "run" / "seed-0" / "history.jsonl").read_text().splitlines()) == failed["epoch"]
    assert not (tmp_path / "run" / "seed-0" / "result.json").exists()
    with pytest.raises(InputError, match="no seed is finished: resume the run"):
        fastgtn.load_run(tmp_path / "run")


@pytest.mark.parametrize(
    "sections", [{"model": {"gamma": 3.0}}, {"fit": {"select_by": "ndcg"}}, {"dataset": "nothing.npz"}]
)
def test_a_mistake_writes_nothing(graph_file: Path, tmp_path: Path, sections: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        train(quick(sections.pop("dataset", graph_file), **sections), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_graph_without_task_is_refused(academic: Academic, tmp_path: Path) -> None:
    archive.write(tmp_path / "bare.npz", academic[0], None)
    with pytest.raises(InputError, match="has no labels and splits"):
        train(quick(tmp_path / "bare.npz"), out=tmp_path / "run")


def test_tensorboard_gets_every_epoch_or_is_asked_for(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = quick(graph_file, fit={"tensorboard": True})
    train(config, out=tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "seed-0" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("val_micro_f1")] == list(range(1, 9))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'fastgtn\[tensorboard\]'"):
        train(config, out=tmp_path / "other")


def test_every_recipe_is_a_config_of_its_dataset_and_model() -> None:
    assert ("planted", "fast_gtn") in recipes()
    for dataset, model in recipes():
        config = fastgtn.Config.of(recipe(model, dataset))
        assert (config.dataset, config.model.label) == (dataset, model)
        assert config.fit.epochs != "auto"  # what a search has decided is not left to trials
        assert model in models()
