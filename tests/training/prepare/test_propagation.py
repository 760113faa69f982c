"""Training over edges and with unrolled rows is one training; the estimate takes the cheaper way."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config import Config
from fastgtn.data import NodeTask, make_planted
from fastgtn.data.task import Split
from fastgtn.errors import InputError
from fastgtn.runs.train import train
from fastgtn.training import propagation
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.propagation import Choice, choose

Academic = tuple[HeteroData, NodeTask]


def numbers(history: list[dict[str, Any]]) -> np.ndarray:
    return np.array([[record["loss"], record["val_loss"]] for record in history])


@pytest.mark.parametrize("name", ["gtn", "fast_gtn"])
@pytest.mark.parametrize("K", [1, 3])
def test_unrolled_training_has_the_history_of_implicit_training(academic: Academic, name: str, K: int) -> None:
    """With dropout of the head, averaged weights and weight decay, which also moves weights without gradient."""
    histories = []
    for how in ("implicit", "unrolled"):
        model = {"name": name, "path_length": K, "dropout": 0.0, "head_dropout": 0.3, "propagation": how}
        result = fastgtn.fit(*academic, quick(model=model, fit={"average": 0.9}))
        assert result.propagation is not None
        assert result.propagation.chosen == how
        histories.append(result)
    implicit, unrolled = histories
    np.testing.assert_allclose(numbers(unrolled.history), numbers(implicit.history), rtol=2e-5)
    torch.testing.assert_close(unrolled.logits, implicit.logits, rtol=1e-3, atol=1e-4)


def test_tables_beyond_the_memory_limit_go_to_a_file_and_train_alike(
    academic: Academic, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = quick(model={"dropout": 0.0, "propagation": "unrolled"})
    inside = fastgtn.fit(*academic, config)
    monkeypatch.setattr(propagation, "TABLE_BYTES", 1.0)
    outside = fastgtn.fit(*academic, config)
    assert outside.history == inside.history


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"model": {"dropout": 0.5}}, "dropout 0.5 changes the features in every step: set model.dropout = 0"),
        ({"model": {"num_layers": 2}}, "the model has 2 layers: set model.num_layers = 1"),
        ({"model": {"non_local": {"enabled": True}}}, "set model.non_local.enabled = false"),
        ({"batch": {"size": 8}}, "mini-batches read different edges in every step: set batch.size = 0"),
    ],
)
def test_what_cannot_be_unrolled_is_refused_and_auto_uses_edges(
    academic: Academic, sections: dict[str, Any], message: str
) -> None:
    model = {"dropout": 0.0, **sections.get("model", {})}
    with pytest.raises(InputError, match=message):
        fastgtn.fit(*academic, quick(**sections | {"model": model | {"propagation": "unrolled"}}))
    result = fastgtn.fit(*academic, quick(**sections | {"model": model}, fit={"epochs": 1}))
    if "batch" not in sections:
        assert result.propagation is not None
        assert result.propagation.chosen == "implicit"
        assert message in result.propagation.reason


def test_types_without_features_are_refused(academic: Academic) -> None:
    graph, task = academic
    graph = graph.clone()
    graph.shared_features = False
    del graph["venue"].x
    with pytest.raises(InputError, match=r"learn embeddings \(venue\): give them features"):
        fastgtn.fit(graph, task, quick(model={"dropout": 0.0, "propagation": "unrolled"}))


def chosen(config: Config, *, labels: int, features: int = 64) -> Choice:
    graph, task = make_planted("APA", authors=400, papers=600, venues=6, terms=12, features=features, seed=1)
    inputs = Inputs.of(graph, config)
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    rows = inputs.rows(task.target, torch.arange(400))
    return choose(inputs, model, config, rows[:labels], rows[-labels // 2 :])


def test_few_labels_are_unrolled_and_many_are_not() -> None:
    config = quick(model={"dropout": 0.0, "hidden": 2, "path_length": 2}, fit={"epochs": 200})
    few, many = chosen(config, labels=8, features=256), chosen(config, labels=200, features=256)
    for choice, way in ((few, "unrolled"), (many, "implicit")):
        found = choice.propagation
        assert found is not None
        assert found.chosen == way
        assert found.implicit_cost is not None
        assert found.unrolled_cost is not None
        assert (found.unrolled_cost < found.implicit_cost) == (way == "unrolled")
        assert (choice.train is not None) == (choice.val is not None) == (way == "unrolled")


def test_large_tables_and_too_many_paths_leave_it_to_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    config = quick(model={"dropout": 0.0, "path_length": 2}, fit={"epochs": 200})
    monkeypatch.setattr(propagation, "TABLE_BYTES", 8 * 64 * 4 * 9)  # nine tables of the training rows alone
    found = chosen(config, labels=8).propagation
    assert found is not None
    assert found.chosen == "implicit"
    assert "tables of unrolled rows would take" in found.reason
    monkeypatch.setattr(propagation, "TABLE_BYTES", 8 * 64 * 4 * 3)
    found = chosen(config, labels=8).propagation
    assert found is not None
    assert found.reason.startswith("there are more than 3 paths")
    monkeypatch.setattr("fastgtn.nn.path_tables.tables.MOST_PATHS", 5)
    with pytest.raises(InputError, match="more than 5 paths"):
        chosen(quick(model={"dropout": 0.0, "propagation": "unrolled"}), labels=8)


def test_the_choice_is_stored_with_the_result(graph_file: Any, tmp_path: Any) -> None:
    config = quick(graph_file, model={"dropout": 0.0, "propagation": "unrolled"})
    run = train(config, out=tmp_path / "run")["runs"][0]
    assert list(run["propagation"]) == ["chosen", "reason", "implicit_cost", "unrolled_cost", "paths", "megabytes"]
    assert run["propagation"]["chosen"] == "unrolled"
    assert run["propagation"]["paths"] > 0


def test_training_without_validation_nodes_can_be_unrolled(academic: Academic) -> None:
    graph, task = academic
    task = replace(task, val=Split(task.val.nodes[:0], task.val.labels[:0]))
    config = quick(model={"dropout": 0.0, "propagation": "unrolled"}, fit={"select_by": "last"})
    assert fastgtn.fit(graph, task, config).epoch == 8
