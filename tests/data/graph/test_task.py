"""The task: splits, losses, and metrics that agree with scikit-learn."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from torch import Tensor

from fastgtn.data import NodeTask
from fastgtn.errors import InputError


def make_task(kind: str = "single", num_classes: int = 3, num_nodes: int = 12) -> NodeTask:
    labels = torch.arange(num_nodes) % num_classes
    if kind == "multi":
        labels = torch.nn.functional.one_hot(labels, num_classes)
    nodes = torch.arange(num_nodes)
    return NodeTask.from_labels("paper", kind, labels, train=nodes[:6], val=nodes[6:8], test=nodes[8:])  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(1, 30), st.integers(0, 10**6))
def test_single_label_scores_are_scikit_learns_also_for_absent_classes(classes: int, nodes: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits, labels = torch.randn(nodes, classes, generator=draw), torch.randint(classes, (nodes,), generator=draw)
    scores, guess = make_task(num_classes=classes).metrics(logits, labels), logits.argmax(1)
    assert scores["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(labels, guess))
    for average in ("micro", "macro"):
        expected = sklearn_metrics.f1_score(labels, guess, average=average)
        assert scores[f"{average}_f1"] == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(1, 30), st.integers(0, 10**6))
def test_multi_label_scores_are_scikit_learns(classes: int, nodes: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(nodes, classes, generator=draw)
    labels = torch.randint(2, (nodes, classes), generator=draw).float()
    scores, guess = make_task("multi", classes).metrics(logits, labels), logits >= 0
    assert scores["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(labels, guess))
    for average in ("micro", "macro"):
        expected = sklearn_metrics.f1_score(labels, guess, average=average, zero_division=0)
        assert scores[f"{average}_f1"] == pytest.approx(expected)


def test_ranking_scores_are_scikit_learns() -> None:
    draw = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(5000, 40, generator=draw), torch.randint(40, (5000,), generator=draw)
    scores = make_task("ranking", 40, 80).metrics(logits, labels)
    one_hot = torch.nn.functional.one_hot(labels, 40)
    assert scores["ndcg"] == pytest.approx(sklearn_metrics.ndcg_score(one_hot, logits))
    # with one right answer, mean reciprocal rank is the mean average precision
    assert scores["mrr"] == pytest.approx(sklearn_metrics.label_ranking_average_precision_score(one_hot, logits))


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_undecided_logits_get_the_middle_rank(value: float) -> None:
    scores = make_task("ranking").metrics(torch.full((4, 3), value), torch.tensor([0, 1, 2, 0]))
    assert scores["mrr"] == pytest.approx(1 / 2)


def test_negative_logits_rank_like_any_other() -> None:
    scores = make_task("ranking").metrics(torch.tensor([[-3.0, -1.0, -2.0]]), torch.tensor([1]))
    assert scores["mrr"] == scores["ndcg"] == 1


def test_threshold_decides_which_labels_are_predicted() -> None:
    task = make_task("multi", 2)
    labels = torch.tensor([[1.0, 1.0]])
    assert task.metrics(torch.tensor([[0.1, -0.1]]), labels)["accuracy"] == 0
    eager = replace(task, threshold=0.4)
    assert eager.metrics(torch.tensor([[0.1, -0.1]]), labels)["accuracy"] == 1


def test_losses_and_probabilities_fit_the_kind() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0]])
    single, multi = make_task(), make_task("multi")
    assert single.loss(logits, torch.tensor([0])) < single.loss(logits, torch.tensor([1]))
    assert single.probabilities(logits).sum() == pytest.approx(1)
    assert multi.probabilities(logits)[0, 1] == 0.5
    assert multi.loss(logits, torch.tensor([[1.0, 0.0, 0.0]])) < multi.loss(logits, torch.tensor([[0.0, 1.0, 1.0]]))


def test_class_weights_make_a_rare_class_heavier() -> None:
    labels = torch.tensor([0, 0, 0, 1, 0, 1])
    nodes = torch.arange(6)
    task = NodeTask.from_labels("a", "single", labels, train=nodes[:4], val=nodes[4:5], test=nodes[5:])
    weights = task.balanced().class_weights
    assert weights is not None
    assert weights.tolist() == pytest.approx([4 / 6, 2])
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # wrong on the rare class
    assert task.balanced().loss(logits, torch.tensor([0, 1])) > task.loss(logits, torch.tensor([0, 1]))
    multi = make_task("multi").balanced().class_weights
    assert multi is not None
    assert multi.tolist() == [2, 2, 2]


def test_only_the_test_score_sees_test_labels() -> None:
    task = make_task()
    perfect = torch.nn.functional.one_hot(torch.arange(8, 12) % 3, 3).float()
    assert task.score_test(perfect)["micro_f1"] == 1
    assert "_labels" not in repr(task)
    assert make_task("ranking").selection_metric == "ndcg"
    assert task.selection_metric == "micro_f1"


def draw(fraction: float, seed: int, labels: Tensor, train: Tensor) -> NodeTask:
    rest = torch.empty(0, dtype=torch.int64)
    return NodeTask.from_labels("a", "single", labels, train=train, test=rest, val_fraction=fraction, seed=seed)


def test_a_drawn_validation_split_keeps_the_shares_of_the_classes() -> None:
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    task = draw(0.2, 0, labels, torch.arange(100))
    assert task.val_is_drawn
    assert torch.bincount(task.val.labels).tolist() == [12, 6, 2]
    assert sorted([*task.train.nodes.tolist(), *task.val.nodes.tolist()]) == list(range(100))


def test_the_drawn_split_depends_on_the_seed_and_not_on_the_order() -> None:
    labels = torch.arange(50) % 2
    in_order, mixed = torch.arange(50), torch.randperm(50)
    one, same, other = draw(0.2, 1, labels, in_order), draw(0.2, 1, labels, mixed), draw(0.2, 2, labels, in_order)
    assert torch.equal(one.val.nodes, same.val.nodes)
    assert not torch.equal(one.val.nodes, other.val.nodes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "singel"}, 'no task kind "singel"; did you mean "single"'),
        ({"labels": torch.zeros(4, 2)}, 'labels of a "single" task cannot have shape'),
        ({"labels": torch.tensor([-1, 1, 0, 0])}, "1 nodes of the train split have no label"),
        ({"train": torch.tensor([0, 9])}, r"train split has nodes outside 0 … 3"),
        ({"val": torch.tensor([-1])}, r"val split has nodes outside"),
        ({"test": torch.tensor([0])}, "test split repeats a node or shares one"),
        ({"train": torch.tensor([0, 0])}, "train split repeats a node"),
        ({"train": torch.tensor([], dtype=torch.int64)}, "train split is empty"),
        ({"class_names": ["a"]}, "labels have 2 classes but 1 are declared"),
        ({"val": None, "val_fraction": 1.5}, "val_fraction is 1.5"),
    ],
)
def test_mistakes_in_labels_and_splits(change: dict[str, object], message: str) -> None:
    good = {
        "target": "a",
        "kind": "single",
        "labels": torch.tensor([0, 1, 0, 1]),
        "train": torch.tensor([0]),
        "val": torch.tensor([1]),
        "test": torch.tensor([3]),
    }
    with pytest.raises(InputError, match=message):
        NodeTask.from_labels(**{**good, **change})  # type: ignore[arg-type]


def test_logits_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"logits have shape \[4, 2\]; expected \[4, 3\]"):
        make_task().score_test(torch.zeros(4, 2))
    with pytest.raises(InputError, match=r"expected \[6, 3\]"):
        make_task().loss(torch.zeros(5, 3), make_task().train.labels)
    with pytest.raises(InputError, match="no nodes to score"):
        make_task().metrics(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
