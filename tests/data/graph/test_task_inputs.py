"""Labels and splits as people have them: lists, numpy arrays, masks; and what is refused among them."""

from typing import Any

import numpy as np
import pytest
import torch

from fastgtn.data import NodeTask
from fastgtn.data.splits import draw_split, draw_val
from fastgtn.data.task_inputs import class_names, label_tensor, node_numbers
from fastgtn.errors import InputError

MASK = [True, False, True, False]


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 0, 1],
        np.array([0, 1, 0, 1], np.int8),
        np.array([0.0, 1.0, 0.0, 1.0]),
        np.array([0, 1, 0, 1], bool),
        torch.tensor([0.0, 1.0, 0.0, 1.0]),
        torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.bfloat16),
    ],
    ids=["list", "int8", "whole floats", "bool", "tensor of floats", "bfloat16"],
)
def test_labels_may_be_lists_arrays_or_whole_floats(labels: Any) -> None:
    task = NodeTask.from_labels("a", "single", labels, train=[0, 1], val=[2], test=[3])
    assert task.num_classes == 2
    assert task.train.labels.dtype == torch.int64
    assert task.train.labels.tolist() == [0, 1]


def test_several_labels_may_be_lists_or_booleans() -> None:
    for labels in ([[1, 0], [0, 1], [1, 1]], np.array([[1, 0], [0, 1], [1, 1]], bool)):
        task = NodeTask.from_labels("a", "multi", labels, train=[0, 2], val=[1])
        assert task.train.labels.dtype == torch.float32
        assert task.train.labels.tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("split", [[0, 2], (0, 2), range(0, 4, 2), np.array([0, 2], np.uint8), torch.tensor([0, 2])])
def test_a_split_is_node_numbers(split: Any) -> None:
    assert node_numbers(split, 4, "train").tolist() == [0, 2]


@pytest.mark.parametrize("mask", [MASK, np.array(MASK), torch.tensor(MASK)], ids=["list", "numpy", "tensor"])
def test_a_split_may_be_a_mask(mask: Any) -> None:
    """As PyG keeps it: train_mask has one entry per node."""
    task = NodeTask.from_labels("a", "single", [0, 1, 1, 0], train=mask, val=[1], test=[3])
    assert task.train.nodes.tolist() == [0, 2]
    assert task.train.labels.tolist() == [0, 1]


def test_a_split_may_be_absent() -> None:
    task = NodeTask.from_labels("a", "single", [0, 1], train=[0], val=[1], test=None)
    assert len(task.test_nodes) == 0
    assert NodeTask.from_labels("a", "single", [0, 1], train=[0, 1], val=[]).val_is_drawn is False
    with pytest.raises(InputError, match="the train split is empty"):
        NodeTask.from_labels("a", "single", [0, 1], train=None, val=[1])


def test_what_is_given_stays_as_it_is() -> None:
    labels = np.array([0, 1])
    labels.flags.writeable = False
    task = NodeTask.from_labels("a", "single", labels, train=[0], val=[1])
    task.train.labels[0] = 1
    assert labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("multi", [[0.0, 3.0]], 'labels of a "multi" task must be zeros and ones; found 3.0'),
        ("multi", [[0.0, float("nan")]], "must be zeros and ones; found nan"),
        ("multi", [0, 1], r'labels of a "multi" task cannot have shape \[2\]'),
        ("single", [0.9, 1.7], "must be whole numbers 0, 1, 2 …, −1 = none; found 0.9"),
        ("single", [0.0, float("nan")], "must be whole numbers .* found nan"),
        ("single", [0.0, float("inf")], "must be whole numbers .* found inf"),
        ("single", np.array([0, 2**64 - 1], np.uint64), "must be whole numbers .* found 18446744073709551615"),
        ("single", ["a", "b"], "must be numbers, not <U1"),
        ("single", [[0], [0, 1]], "must be numbers, not object"),
    ],
)
def test_labels_that_mean_nothing_are_refused(kind: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NodeTask.from_labels("a", kind, labels, train=[0], val=[1])


@pytest.mark.parametrize("names", [None, ["a", "b"]])
def test_no_label_at_all_is_said(names: list[str] | None) -> None:
    with pytest.raises(InputError, match="none of the 3 nodes has a label"):
        NodeTask.from_labels("a", "single", [-1, -1, -1], train=[0], val=[1], class_names=names)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ([True, False], r"train split must be a list of node numbers or a mask of 4 nodes, not bool \[2\]"),
        ([0.0, 1.0], "node numbers or a mask of 4 nodes, not float64"),
        ([[0], [1]], r"not int64 \[2, 1\]"),
        (["0"], "not <U1"),
        ({0, 1}, r"not object \[\]"),
        (3, r"not int64 \[\]"),
        ([0, 4], "train split has nodes outside 0 … 3"),
    ],
)
def test_splits_that_mean_nothing_are_refused(split: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NodeTask.from_labels("a", "single", [0, 1, 0, 1], train=split, val=[3])


def test_a_large_class_number_costs_nothing() -> None:
    """Class by class would be a million rounds."""
    labels = torch.tensor([0, 999_999] * 500)
    assert len(class_names(label_tensor(labels, "single"), None, None)) == 1_000_000
    train, val = draw_val(torch.arange(1000), labels, 0.2, seed=0)
    assert (labels[val] == 0).sum() == 100
    assert len(train) == 800


@pytest.mark.parametrize("fractions", [(float("nan"), 0.2, 0.2), (0.5, -0.1, 0.1), (0, 0.5, 0.5)])
def test_shares_of_a_split(fractions: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="must be positive and add up to one or less"):
        draw_split(np.array([0, 1]), fractions, seed=0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="the seed is -1; give a whole number, at least 0"):
        draw_split(np.array([0, 1]), (0.5, 0.25, 0.25), seed=-1)
