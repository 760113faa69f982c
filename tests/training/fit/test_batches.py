"""Mini-batches: with all neighbours they are the full batch; otherwise a function of seed, epoch and number alone."""

import threading
import time
from typing import Any

import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config.models import options_by_name
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.runs import Result
from fastgtn.training.batches import Batcher, made_ahead, shuffled
from fastgtn.training.build import Inputs, build_model

Academic = tuple[HeteroData, NodeTask]


def weights(result: Result) -> dict[str, torch.Tensor]:
    return result.model.state_dict()


def assert_same(one: Result, other: Result) -> None:
    assert one.history == other.history
    for name, weight in weights(one).items():
        assert torch.equal(weight, weights(other)[name]), name


@pytest.mark.parametrize(
    "sections",
    [
        {"name": "fast_gtn"},
        {"name": "gtn", "gamma": 1.0, "aggregate": "concat", "own": "shared", "rescale": False},
        {"name": "fast_gtn", "path_length": 3, "num_layers": 2},
        {"name": "mlp"},
    ],
)
def test_one_batch_with_all_neighbours_is_the_full_batch(academic: Academic, sections: dict[str, Any]) -> None:
    model = {"dropout": 0.0, **sections}
    fit = {"select_by": "last", "average": 0.5}
    full = fastgtn.fit(*academic, quick(model=model, fit=fit))
    batched = fastgtn.fit(*academic, quick(model=model, fit=fit, batch={"size": 10_000, "fanouts": "all"}))
    for one, other in zip(full.history, batched.history, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    for name, weight in weights(full).items():
        # Adam divides by the size of a gradient, so rounding shows where that is tiny; a step is 1e-2
        torch.testing.assert_close(weights(batched)[name], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["fast_gtn", "gtn"])
def test_small_batches_with_all_neighbours_have_the_logits_and_gradients_of_the_full_graph(
    academic: Academic, name: str
) -> None:
    graph, task = academic
    config = quick(model={"name": name, "dropout": 0.0}, batch={"size": 7, "fanouts": ["all"]})
    inputs = Inputs.of(graph, config)
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    rows = inputs.rows(task.target, task.train.nodes)
    expected = inputs.plan(model, rows).logits(model)
    task.loss(expected, task.train.labels).backward()
    gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
    model.zero_grad()
    batcher = Batcher(inputs, model, config.batch)
    for part in shuffled(len(rows), 7, 3):
        logits = batcher.make(rows[part], seed=5).plan.logits(model)
        torch.testing.assert_close(logits, expected[part], rtol=1e-4, atol=1e-5)
        (task.loss(logits, task.train.labels[part]) * len(part) / len(rows)).backward()
    for key, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[key], rtol=1e-4, atol=1e-6)


def test_an_epoch_has_every_training_node_once() -> None:
    parts = shuffled(23, 5, 0, 4)
    assert [len(part) for part in parts] == [5, 5, 5, 5, 3]
    assert sorted(torch.cat(parts).tolist()) == list(range(23))
    assert [part.tolist() for part in shuffled(23, 5, 0, 4)] == [part.tolist() for part in parts]
    assert torch.cat(shuffled(23, 5, 0, 5)).tolist() != torch.cat(parts).tolist()


@pytest.mark.parametrize("sampler", ["neighbor", "layer"])
def test_results_do_not_depend_on_prefetching(academic: Academic, sampler: str) -> None:
    batch = {"size": 8, "fanouts": [4, 3], "sampler": sampler, "budget": 9}
    one, other = (fastgtn.fit(*academic, quick(batch=batch | {"prefetch": ahead})) for ahead in (0, 3))
    assert_same(one, other)
    reseeded = fastgtn.fit(*academic, quick(batch=batch, fit={"seed": 1}))
    assert reseeded.history != one.history


@pytest.mark.parametrize("name", ["fast_gtn_non_local", *options_by_name()])
def test_every_model_trains_in_batches(academic: Academic, name: str) -> None:
    model: dict[str, Any] = {"name": name}
    if name == "fast_gtn_non_local":
        model = {"name": "fast_gtn", "non_local": {"enabled": True}}
    config = quick(model=model, batch={"size": 8, "fanouts": 3, "eval": "batches"}, fit={"epochs": 2})
    result = fastgtn.fit(*academic, config)
    assert len(result.history) == 2
    assert 0 <= result.test["micro_f1"] <= 1


def test_sampled_training_learns(academic: Academic) -> None:
    model = {"gamma": 0.0, "dropout": 0.0, "aggregate": "sum"}
    fit = {"epochs": 100, "learning_rate": 0.02, "weight_decay": 1e-4}
    config = quick(graph={"empty_rows": "zero"}, model=model, fit=fit, batch={"size": 16, "fanouts": [8, 8]})
    assert fastgtn.fit(*academic, config).test["micro_f1"] > 0.8


def test_the_time_of_training_is_accounted_for(academic: Academic) -> None:
    speed = fastgtn.fit(*academic, quick(batch={"size": 8, "prefetch": 0})).speed
    assert speed["targets_per_second"] > 0
    assert speed["sampling"] + speed["gathering"] + speed["computing"] == pytest.approx(1, abs=1e-3)
    assert speed["sampling"] > 0 < speed["gathering"]
    assert fastgtn.fit(*academic, quick()).speed["computing"] == 1


def test_fan_outs_go_on_for_longer_paths_and_end_with_the_hops() -> None:
    options = quick(batch={"fanouts": [9, "all", 4]}).batch
    assert options.fanouts_of(2) == [9, None]
    assert options.fanouts_of(5) == [9, None, 4, 4, 4]
    assert quick(batch={"fanouts": "all"}).batch.fanouts_of(3) == [None] * 3
    assert quick(batch={"fanouts": 6}).batch.fanouts_of(2) == [6, 6]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fanouts", [], r"batch.fanouts.*at least 1 item"),
        ("fanouts", [0], r"batch.fanouts.*greater than or equal to 1"),
        ("size", -1, r"batch.size = -1: .*greater than or equal to 0"),
        ("sampler", "neighbour", r'batch.sampler cannot be "neighbour"; did you mean "neighbor"'),
        ("eval", "some", r'batch.eval cannot be "some"'),
        ("fanout", 5, r'no config key "batch.fanout" in \[batch\]; did you mean "fanouts"'),
    ],
)
def test_wrong_batch_keys_are_named(key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(batch={key: value})


def test_things_are_made_ahead_in_order_and_not_further_than_asked() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number * number

    squares = made_ahead(make, range(20), 3)
    assert next(squares) == 0
    time.sleep(0.05)
    assert max(made) <= 4
    assert list(squares) == [n * n for n in range(1, 20)]


def test_an_error_in_a_thread_comes_out_and_no_thread_stays() -> None:
    def make(number: int) -> int:
        if number == 3:
            raise InputError("number three")
        return number

    before = set(threading.enumerate())
    things = made_ahead(make, range(10), 2)
    assert [next(things) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match="number three"):
        next(things)
    abandoned = made_ahead(lambda n: n, range(10), 4)
    next(abandoned)
    abandoned.close()
    assert set(threading.enumerate()) <= before
