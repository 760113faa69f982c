"""The term that asks nodes without labels to get the same answer whatever dropout leaves out."""

from typing import Any

import pytest
import torch
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config import Config
from fastgtn.data import NodeTask, make_random_schema
from fastgtn.errors import InputError
from fastgtn.training.build import Inputs
from fastgtn.training.consistency import MOST_NODES, disagreement, nodes_without_labels, ramp

SMALL: dict[str, Any] = {"model": {"hidden": 8, "path_length": 2, "num_channels": 1}, "fit": {"epochs": 15}}
ON: dict[str, Any] = {"fit": {"consistency": 1.0}}


@pytest.fixture(scope="module")
def planted() -> tuple[HeteroData, NodeTask]:
    return make_random_schema(0, types=3, relations=6, steps=2, targets=200)


def test_views_are_compared_with_their_sharpened_mean() -> None:
    answers = torch.tensor([[[0.9, 0.1], [0.5, 0.5]], [[0.7, 0.3], [0.5, 0.5]]], dtype=torch.float64)  # [views, n, 2]
    sharp = torch.tensor([0.8**2, 0.2**2], dtype=torch.float64) / (0.8**2 + 0.2**2)
    expected = sum(((answers[view, 0] - sharp) ** 2).sum() for view in range(2)) / 2  # the second node is undecided
    torch.testing.assert_close(disagreement(list(answers.log())), torch.as_tensor(expected))


def test_the_target_of_the_views_has_no_gradient() -> None:
    logits = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    disagreement([logits, logits]).backward()
    answer = logits.detach().softmax(-1)
    sharp = answer**2 / (answer**2).sum(-1, keepdim=True)
    wanted = logits.detach().clone().requires_grad_()
    (wanted.softmax(-1) - sharp).square().sum().backward()
    torch.testing.assert_close(logits.grad, wanted.grad)


def test_the_term_grows_over_the_first_steps() -> None:
    assert (ramp(0), ramp(9), ramp(19), ramp(500)) == (0.05, 0.5, 1.0, 1.0)


def test_training_makes_views_of_unlabelled_nodes_agree(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    agreed = []
    for weight in (0.0, 10.0):
        settings = {"epochs": 60, "select_by": "last", "consistency": weight}
        result = fastgtn.fit(graph, task, Config.of(SMALL, {"fit": settings}))
        result.model.train()
        torch.manual_seed(0)
        plan = result.inputs.plan(result.model, result.inputs.rows(task.target, task.test_nodes))
        with torch.no_grad():
            views = torch.stack([plan.logits(result.model).argmax(-1) for _ in range(8)])
        agreed.append(float((views[:-1] == views[1:]).double().mean()))
    assert agreed[1] > agreed[0] + 0.02


def test_unrolled_rows_give_the_same_training(planted: tuple[HeteroData, NodeTask]) -> None:
    given = {"model": {"dropout": 0.0, "head_dropout": 0.5, "encoder": "linear"}}
    planted[0]["shop"].x = torch.randn(planted[0]["shop"].num_nodes, 3)  # embeddings cannot be unrolled
    losses = []
    for propagation in ("implicit", "unrolled"):
        config = Config.of(SMALL, given, ON, {"model": {"propagation": propagation}})
        losses.append([record["loss"] for record in fastgtn.fit(*planted, config).history])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_baselines_can_have_it(planted: tuple[HeteroData, NodeTask]) -> None:
    values = {"model": {"name": "gcn", "hidden": 8}, "fit": {"epochs": 5}}
    with_term, without = (fastgtn.fit(*planted, Config.of(values, {"fit": {"consistency": c}})) for c in (1.0, 0.0))
    assert with_term.history[-1]["loss"] != without.history[-1]["loss"]


def test_nodes_of_the_training_split_are_no_others(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    inputs = Inputs.of(graph, Config.of(SMALL))
    assert not len(nodes_without_labels(inputs, task, Config.of(SMALL)))
    others = nodes_without_labels(inputs, task, Config.of(SMALL, ON))
    assert len(others) + len(task.train) == graph[task.target].num_nodes <= MOST_NODES
    assert not set(others.tolist()) & set(task.train.nodes.tolist())


def test_mini_batches_are_refused(planted: tuple[HeteroData, NodeTask]) -> None:
    with pytest.raises(InputError, match=r"fit\.consistency needs training without mini-batches"):
        fastgtn.fit(*planted, Config.of(SMALL, ON, {"batch": {"size": 16}}))


def test_several_labels_are_refused(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    labels = torch.nn.functional.one_hot(task._labels, task.num_classes)
    several = NodeTask.from_labels(task.target, "multi", labels, train=task.train.nodes)
    with pytest.raises(InputError, match=r"fit\.consistency needs one class per node"):
        fastgtn.fit(graph, several, Config.of(SMALL, ON))


def test_without_dropout_the_term_sharpens_answers(planted: tuple[HeteroData, NodeTask]) -> None:
    none = {"model": {"dropout": 0.0, "head_dropout": 0.0}}
    with_term, without = (
        fastgtn.fit(*planted, Config.of(SMALL, none, {"fit": {"consistency": c}})) for c in (1.0, 0.0)
    )
    assert with_term.history[-1]["loss"] != without.history[-1]["loss"]


def test_only_models_with_trials_can_leave_it_open() -> None:
    with pytest.raises(InputError, match=r'fit\.consistency = "auto" is not tried for "gcn"'):
        Config.of({"model": {"name": "gcn"}, "fit": {"consistency": "auto"}})
