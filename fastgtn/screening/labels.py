"""The training labels as numbers that a regression can fit, and permutations of them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from fastgtn.data import NodeTask

Array = np.ndarray
MOST_COLUMNS = 16  # more classes than this are mixed at random


def sampled_rows(task: NodeTask, most: int, rng: Generator) -> Array:
    """Places in the training split: all of them, or `most`, each class in its share."""
    count = len(task.train)
    if count <= most:
        return np.arange(count)
    order = rng.permutation(count)
    if task.train.labels.dim() == 1:
        order = order[np.argsort(task.train.labels.numpy()[order], kind="stable")]
    # every class lies in one piece, so that equal distances take its share of each
    return np.sort(order[np.linspace(0, count - 1, most).astype(np.int64)])


def label_columns(labels: Tensor, num_classes: int, rng: Generator) -> Array:
    """Centred columns [n, at most MOST_COLUMNS]: one per class, or random mixtures of very many classes."""
    if labels.dim() == 1 and labels.is_floating_point():  # a number to predict
        numbers = labels.double().numpy()[:, None]
        return numbers - numbers.mean(0)
    is_wide = num_classes > MOST_COLUMNS
    mixing = rng.normal(size=(num_classes, MOST_COLUMNS)) if is_wide else np.eye(num_classes)
    columns = mixing[labels.numpy()] if labels.dim() == 1 else labels.to(torch.float64).numpy() @ mixing
    centred: Array = columns - columns.mean(0)
    # a rotation keeps all sums of squares; the columns of one label per node have one dimension less
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    rotated: Array = (left * sizes)[:, sizes > 1e-9 * max(sizes.max(initial=0.0), 1e-30)]
    return rotated if rotated.size else centred[:, :1]


def permuted(columns: Array, count: int, rng: Generator) -> Array:
    """The columns in `count` random orders, side by side: [n, count · C]."""
    orders = [rng.permutation(len(columns)) for _ in range(count)]
    return np.concatenate([columns[order] for order in orders], axis=1) if orders else columns[:, :0]
