"""What `fit` promises: the chosen epoch, the untouched test labels, the same bits for the same seed."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config import FeatureOptions
from fastgtn.data import NodeTask, Split
from fastgtn.errors import InputError
from fastgtn.runs import Result
from fastgtn.training import DivergedError
from fastgtn.training.build import Inputs, build_features, build_model
from fastgtn.training.loop import State, Trainer
from fastgtn.training.steps import WholeGraph, plan_passes
from fastgtn.training.team import ALONE

Academic = tuple[HeteroData, NodeTask]


def same_weights(one: Result, other: Result) -> bool:
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_a_few_lines_train_a_model_that_knows_the_planted_labels(academic: Academic) -> None:
    graph, task = academic
    config = {
        "graph": {"empty_rows": "zero"},
        "model": {"gamma": 0.0, "dropout": 0.0, "aggregate": "sum"},
        "fit": {"epochs": 100, "learning_rate": 0.02, "weight_decay": 1e-4},
    }
    result = fastgtn.fit(graph, task, config)
    assert result.test["micro_f1"] > 0.8 > 2 / task.num_classes
    options = result.config.model
    assert [f.shape for f in result.filters] == [(options.path_length, options.num_channels, len(result.inputs.stack))]
    assert result.logits.shape == (graph[task.target].num_nodes, task.num_classes)


def test_the_chosen_epoch_is_the_best_on_validation_then_the_lowest_loss_then_the_earliest(academic: Academic) -> None:
    result = fastgtn.fit(*academic, quick())
    key = {r["epoch"]: (r["val_micro_f1"], -r["val_loss"], -r["epoch"]) for r in result.history}
    assert result.epoch == max(key, key=key.__getitem__)
    logits = result.logits[academic[1].val.nodes]
    assert result.val == pytest.approx(academic[1].metrics(logits, academic[1].val.labels))


@pytest.mark.parametrize(("select_by", "best"), [("loss", min), ("macro_f1", max)])
def test_epochs_are_chosen_by_the_metric_that_was_asked_for(academic: Academic, select_by: str, best: Any) -> None:
    result = fastgtn.fit(*academic, quick(fit={"select_by": select_by}))
    values = [record[f"val_{select_by}"] for record in result.history]
    assert values[result.epoch - 1] == best(values)
    assert fastgtn.fit(*academic, quick(fit={"select_by": "last"})).epoch == 8


def test_test_labels_never_reach_the_weights_or_the_choice(academic: Academic) -> None:
    graph, task = academic
    wrong = task._labels.clone()
    wrong[task.test_nodes] = (wrong[task.test_nodes] + 1) % task.num_classes
    one, other = fastgtn.fit(graph, task, quick()), fastgtn.fit(graph, replace(task, _labels=wrong), quick())
    assert same_weights(one, other)
    assert one.epoch == other.epoch
    assert one.test != other.test


def test_the_same_seed_gives_the_same_bits_and_leaves_the_callers_generator_alone(academic: Academic) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other = (fastgtn.fit(*academic, quick()) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert same_weights(one, other)
    assert one.history == other.history
    assert not same_weights(one, fastgtn.fit(*academic, quick(fit={"seed": 1})))


@pytest.mark.parametrize("name", ["gtn", "fast_gtn"])
def test_one_shared_pass_gives_the_history_of_two(
    academic: Academic, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    graph, task = academic
    config = quick(model={"name": name, "dropout": 0.0, "propagation": "implicit"})
    inputs = Inputs.of(graph, config)
    histories = []
    for price in (0, 1):
        monkeypatch.setattr("fastgtn.training.build.Plan.cost", price)
        torch.manual_seed(0)
        state = State.start(build_model(config.model, inputs.features, inputs.stack.relations, 3), config.fit)
        passes = plan_passes(inputs, task, state.model, config)
        if price:
            passes = WholeGraph.of(inputs, task, state.model, config, ALONE)
        assert isinstance(passes, WholeGraph)
        assert (passes.validation is None) == (price == 0)
        Trainer(state, passes, task, config.fit).run(lambda _: None)
        histories.append(state.history)
    for shared, apart in zip(*histories, strict=True):
        assert shared == pytest.approx(apart, rel=1e-4)


def test_dropout_and_averaging_are_validated_in_a_pass_of_their_own(academic: Academic) -> None:
    graph, task = academic
    for section in ({"model": {"dropout": 0.5}}, {"fit": {"average": 0.9}, "model": {"dropout": 0.0}}):
        config = quick(**section)
        inputs = Inputs.of(graph, config)
        model = build_model(config.model, inputs.features, inputs.stack.relations, 3)
        passes = plan_passes(inputs, task, model, config)
        assert isinstance(passes, WholeGraph)
        assert passes.validation is not None


def test_an_average_of_one_epoch_is_that_epoch_and_later_ones_differ(academic: Academic) -> None:
    plain, mean = (fastgtn.fit(*academic, quick(fit={"average": a, "select_by": "last"})) for a in (0.0, 0.9))
    assert plain.history[0]["loss"] == mean.history[0]["loss"]
    assert not same_weights(plain, mean)


def test_filters_have_a_learning_rate_of_their_own(academic: Academic) -> None:
    slow, fast = (
        fastgtn.fit(*academic, quick(fit={"filter_learning_rate": rate, "select_by": "last"})) for rate in (1e-9, 0.5)
    )
    spread = [abs(r.filters[0] - 1 / r.filters[0].shape[-1]).max() for r in (slow, fast)]
    assert spread[0] < 0.1 < spread[1]


def test_patience_stops_early_and_clipping_changes_the_steps(academic: Academic) -> None:
    result = fastgtn.fit(*academic, quick(fit={"patience": 2, "epochs": 200}))
    assert len(result.history) == result.epoch + 2 < 200
    free, tight = (fastgtn.fit(*academic, quick(fit={"clip": c, "select_by": "last"})) for c in (0.0, 1e-6))
    assert not same_weights(free, tight)


def test_row_normalised_features_sum_to_one_dense_and_sparse(academic: Academic) -> None:
    graph = academic[0]
    dense = build_features(graph, FeatureOptions(normalize="row")).blocks[0].matrix
    assert isinstance(dense, torch.Tensor)
    torch.testing.assert_close(dense.abs().sum(1), torch.ones(len(dense)))
    sparse_graph = graph.clone()
    for node_type in graph.node_types:
        sparse_graph[node_type].x = graph[node_type].x.to_sparse_csr()
    sparse = build_features(sparse_graph, FeatureOptions(normalize="row")).blocks[0].matrix
    torch.testing.assert_close(sparse @ torch.eye(dense.size(1)), dense)


def test_non_local_and_several_labels_and_no_features_train(academic: Academic) -> None:
    graph, task = academic
    graph = graph.clone()
    graph.shared_features = False
    del graph["venue"].x
    several = torch.nn.functional.one_hot(task._labels.clamp(min=0), task.num_classes).float()
    multi = NodeTask.from_labels(
        task.target, "multi", several, train=task.train.nodes, val=task.val.nodes, test=task.test_nodes
    )
    result = fastgtn.fit(graph, multi, quick(model={"non_local": {"enabled": True}}, fit={"class_weights": "balanced"}))
    assert set(result.test) >= {"accuracy", "micro_f1", "macro_f1"}
    assert "non_local" in [r.name for r in result.model.backbone.hop_filters()[0].relations]


@pytest.mark.parametrize("name", ["fast_gtn", "gtn", "gcn", "mlp", "hgt"])
def test_features_in_double_precision_give_the_same_model(academic: Academic, name: str) -> None:
    graph, task = academic
    double = copy.copy(graph)
    for node_type in graph.node_types:
        if "x" in graph[node_type]:
            double[node_type].x = graph[node_type].x.double()
    results = [fastgtn.fit(one, task, quick(model={"name": name, "hidden": 8})) for one in (graph, double)]
    assert results[0].history == results[1].history


@pytest.mark.parametrize("name", ["rgcn", "hgt"])
def test_relational_models_need_a_relation(academic: Academic, name: str) -> None:
    graph, task = academic
    bare = HeteroData()
    bare[task.target].x = graph[task.target].x
    with pytest.raises(InputError, match="the graph has no relations"):
        fastgtn.fit(bare, task, quick(model={"name": name}))


def test_what_cannot_be_trained_is_refused(academic: Academic) -> None:
    graph, task = academic
    empty = torch.empty(0, dtype=torch.int64)
    unvalidated = replace(task, val=Split(empty, empty))
    with pytest.raises(InputError, match=r'the validation split is empty.*fit.select_by = "last"'):
        fastgtn.fit(graph, unvalidated, quick())
    assert fastgtn.fit(graph, unvalidated, quick(fit={"select_by": "last"})).val == {}
    assert fastgtn.fit(graph, replace(task, test_nodes=empty), quick()).test == {}
    with pytest.raises(InputError, match='"ndcg" needs a ranking task'):
        fastgtn.fit(graph, task, quick(fit={"select_by": "ndcg"}))
    with pytest.raises(InputError, match="gamma is a share between 0 and 1"):
        fastgtn.fit(graph, task, quick(model={"gamma": 2.0}))
    with pytest.raises(InputError, match=r"training needs a task, made by NodeTask.from_labels .* but got str"):
        fastgtn.fit(graph, "author", quick())
    with pytest.raises(InputError, match='the target of the task is "autor"; did you mean "author"'):
        fastgtn.fit(graph, replace(task, target="autor"), quick())
    with pytest.raises(InputError, match=r"the task has a label for author 90, but the graph has only 90"):
        fastgtn.fit(graph, replace(task, test_nodes=torch.tensor([90])), quick())
    with pytest.raises(DivergedError, match=r"became (nan|inf) in epoch .* lower fit.learning_rate"):
        fastgtn.fit(graph, task, quick(fit={"learning_rate": 1e30, "epochs": 50}))
    extreme = graph.clone()
    for node_type in extreme.node_types:
        extreme[node_type].x = torch.full_like(extreme[node_type].x, 3e38)
    with pytest.raises(DivergedError, match=r"is (nan|inf) before the first step, .* normalize the features"):
        fastgtn.fit(extreme, task, quick(features={"normalize": "none"}))
