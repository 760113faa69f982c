"""Scores move to the class frequencies of the nodes to be predicted, without their labels."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from fastgtn import fit
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training.finish.label_shift import estimated_prior, shifted_scores
from fastgtn.training.fit import predict_logits

MEANS = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-1.5, -1.5]], dtype=torch.float64)


def sample(prior: list[float], count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of Gaussian classes, and the exact log-likelihood of each class as logits."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(prior), count, replacement=True, generator=generator)
    points = MEANS[labels] + torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return -(points[:, None] - MEANS).square().sum(2) / 2, labels


def test_the_prior_is_found() -> None:
    logits, _ = sample([0.1, 0.2, 0.7], 20_000, seed=0)
    prior = estimated_prior(logits.log_softmax(1), torch.full((3,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(prior, torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64), atol=0.02, rtol=0)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_predictions_become_those_of_bayes_rule_whatever_the_scale_of_the_scores(scale: float) -> None:
    prior = [0.05, 0.15, 0.8]
    val_logits, val_labels = sample([1 / 3] * 3, 2_000, seed=1)
    logits, labels = sample(prior, 4_000, seed=2)
    map_ = shifted_scores(scale * val_logits, val_labels, scale * logits)
    best = (logits + torch.tensor(prior).log()).argmax(1)
    found = map_(scale * logits).argmax(1)
    assert (found == best).double().mean() > 0.98
    assert (found == labels).double().mean() > (logits.argmax(1) == labels).double().mean() + 0.01


def test_equal_priors_change_almost_nothing() -> None:
    val_logits, val_labels = sample([1 / 3] * 3, 2_000, seed=3)
    logits, _ = sample([1 / 3] * 3, 4_000, seed=4)
    map_ = shifted_scores(val_logits, val_labels, logits)
    assert (map_(logits).argmax(1) == logits.argmax(1)).double().mean() > 0.97


def test_the_map_becomes_part_of_the_head() -> None:
    head, z = nn.Linear(5, 3), torch.randn(50, 5)
    labels = torch.randint(3, (50,))
    before = head(z).detach()
    map_ = shifted_scores(before, labels, before)
    map_.fold_into(head)
    torch.testing.assert_close(head(z).detach(), map_(before))


def test_extreme_scores_and_missing_classes_stay_finite() -> None:
    logits = torch.eye(3).repeat(20, 1) * 1e4
    map_ = shifted_scores(logits, torch.arange(3).repeat(20), logits)
    assert torch.isfinite(map_(logits)).all()
    only = shifted_scores(torch.randn(6, 3), torch.zeros(6, dtype=torch.int64), torch.randn(9, 3))
    assert torch.isfinite(only.shift).all()
    assert only.prior.sum() == pytest.approx(1.0)


def test_a_fit_moves_the_head_after_the_choice_of_the_epoch(academic: tuple[HeteroData, NodeTask]) -> None:
    graph, task = academic
    plain, moved = (fit(graph, task, {"fit": {"epochs": 3, "label_shift": s}}) for s in ("none", "em"))
    map_ = shifted_scores(plain.logits[task.val.nodes], task.val.labels, plain.logits[task.test_nodes])
    torch.testing.assert_close(moved.logits, map_(plain.logits))
    torch.testing.assert_close(predict_logits(moved.model, moved.inputs, task.target), moved.logits)
    before = moved.facts["val_before_label_shift"]
    assert ({name: plain.val[name] for name in before}, plain.epoch) == (before, moved.epoch)
    assert moved.facts["test_before_label_shift"] == plain.test
    assert moved.val == moved.evaluate("val")  # what is stored is what evaluate says


def test_it_is_refused_where_there_is_nothing_to_estimate_from(academic: tuple[HeteroData, NodeTask]) -> None:
    graph, task = academic
    untested = replace(task, test_nodes=task.test_nodes[:0])
    with pytest.raises(InputError, match=r"how frequent each class is among the test nodes.* 0 test nodes"):
        fit(graph, untested, {"fit": {"label_shift": "em"}})
