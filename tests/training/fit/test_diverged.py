"""Numbers that are no longer finite stop a run, with the epoch, the tensor and advice, before a weight is spoilt."""

import numpy as np
import pytest
import torch
from quick_config import quick

import fastgtn
from fastgtn.data import load
from fastgtn.errors import InputError
from fastgtn.nn.baselines.parts.random_walks import WalkGraph, random_walks
from fastgtn.runs.records import read_history
from fastgtn.runs.train import train
from fastgtn.training import DivergedError
from fastgtn.training.loop import Trainer


@pytest.fixture
def spoilt(monkeypatch):
    """In the third epoch, the gradient of one tensor is not finite."""
    before = Trainer._require_finite_gradient

    def spoil(trainer):
        if trainer.state.epoch == 2:
            named = trainer.state.model.named_parameters()
            name, parameter = next((n, p) for n, p in named if n.endswith("head.weight"))
            parameter.grad[0, 0] = float("inf")
            spoilt_names.append(name)
        before(trainer)

    spoilt_names: list[str] = []
    monkeypatch.setattr(Trainer, "_require_finite_gradient", spoil)
    return spoilt_names


def test_a_gradient_that_is_not_finite_names_its_tensor_and_keeps_the_checkpoint(spoilt, tmp_path):
    config = quick(fit={"epochs": 6, "checkpoint_every": 1})
    with pytest.raises(
        DivergedError, match=r"the gradient of .*head\.weight became infinite or NaN in epoch 3: lower fit"
    ):
        train(config, out=tmp_path / "run")
    assert len(spoilt) == 1
    kept = sorted(path.name for path in (tmp_path / "run" / "seed-0").iterdir())
    assert any("checkpoint" in name for name in kept), kept


def test_in_the_first_epoch_the_data_is_named():
    graph, task = load("planted")
    assert task is not None
    for node_type in graph.node_types:
        graph[node_type].x = torch.full((graph[node_type].num_nodes, 4), 3e38)
    message = r"the (loss|gradient of .*) is .* before the first step, so features or edge weights are too large"
    with pytest.raises(DivergedError, match=message):
        fastgtn.fit(graph, task, quick(features={"normalize": "none"}))


def star(leaves: int) -> WalkGraph:
    ptr = np.array([0, leaves, *range(leaves + 1, 2 * leaves + 1)])
    col = np.array([*range(1, leaves + 1), *[0] * leaves], np.int32)
    return WalkGraph(ptr, col, np.cumsum(np.ones(2 * leaves)))


def test_walks_with_extreme_p_and_q_end():
    """On a star nearly every draw is refused."""
    graph = star(6)
    walks = random_walks(graph, torch.arange(7).numpy(), 10, p=1e5, q=1e5, seed=1)
    assert (walks >= 0).all()
    assert ((walks[:, 1:] == 0) != (walks[:, :-1] == 0)).all()  # between the middle and a leaf


def test_the_slow_draw_has_the_same_distribution():
    """A path 1 – 0 – 2, 3: from 1 over 0, the way back weighs 1/p and the others 1/q."""
    graph = star(3)
    starts = torch.ones(20_000, dtype=torch.int64).numpy()
    for p, q in ((2.0, 0.5), (1e6, 4e6)):
        third = random_walks(graph, starts, 3, p=p, q=q, seed=5)[:, 2]
        back = (1 / p) / (1 / p + 2 / q)
        assert abs(float((third == 1).mean()) - back) < 0.015


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "1" + "0" * 400, "true", '"x"'])
def test_a_history_that_cannot_be_drawn_is_refused(value, tmp_path):
    (tmp_path / "history.jsonl").write_text('{"epoch": 1, "loss": 0.5}\n{"epoch": 2, "loss": ' + value + "}\n")
    with pytest.raises(InputError, match="line 2 is not a record of an epoch"):
        read_history(tmp_path)
