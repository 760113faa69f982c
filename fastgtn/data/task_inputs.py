"""Labels, classes and splits as a user gives them: turned into tensors, or refused with the reason."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fastgtn.data.metrics import Kind
from fastgtn.errors import InputError, nearest

Array = np.ndarray[Any, np.dtype[Any]]
Numbers = Tensor | ArrayLike  # tensors, numpy arrays, lists

MOST_CLASSES = 1_000_000
LARGEST_LABEL = 2**53  # whole numbers above it are not exact as floats


def label_tensor(labels: Numbers, kind: Kind) -> Tensor:
    """Labels as int64 [N], or as float32 [N, C]: zeros and ones for kind "multi", any for "number" (NaN = none)."""
    if kind not in get_args(Kind):
        raise InputError(f'no task kind "{kind}"; {nearest(kind, get_args(Kind))}')
    array = _array(labels)
    if array.dtype.kind not in "biuf":
        raise InputError(f'labels of a "{kind}" task must be numbers, not {array.dtype} {list(array.shape)}.')
    if kind == "number":
        return _numbers(array)
    if array.ndim != (2 if kind == "multi" else 1):
        expected = "[N, classes], zeros and ones" if kind == "multi" else "[N], one class per node"
        raise InputError(f'labels of a "{kind}" task cannot have shape {list(array.shape)}; expected {expected}.')
    if kind == "multi":
        wrong = (array != 0) & (array != 1)
        if wrong.any():
            raise InputError(f'labels of a "multi" task must be zeros and ones; found {array[wrong][0]}.')
        return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
    as_float = array.astype(np.float64)
    wrong = ~(np.abs(as_float) < LARGEST_LABEL) | (as_float != np.trunc(as_float))  # NaN is below nothing
    if wrong.any():
        raise InputError(
            f'labels of a "{kind}" task must be whole numbers 0, 1, 2 …, −1 = none; found {array[wrong][0]}.'
        )
    return torch.from_numpy(np.require(array, np.int64, ["C", "W"]))


def _numbers(array: Array) -> Tensor:
    if array.ndim not in (1, 2):
        raise InputError(
            f'labels of a "number" task cannot have shape {list(array.shape)}; expected [N], or [N, outputs].'
        )
    values = torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
    if bool(values.isinf().any()):
        raise InputError('labels of a "number" task must be finite in single precision, NaN = none; found infinity.')
    return values if values.dim() == 2 else values[:, None]


def is_labelled(labels: Tensor, kind: Kind) -> Tensor:
    """Which nodes have a label; a node of kind "multi" always counts, for it may have none of the labels."""
    if kind == "number":
        return ~labels.isnan().any(1)
    return labels >= 0 if labels.dim() == 1 else torch.ones(len(labels), dtype=torch.bool)


def class_names(
    labels: Tensor, names: Sequence[str] | None, num_classes: int | None, *, kind: Kind = "single"
) -> tuple[str, ...]:
    """The name of each class, numbers where none are given; labels and declared classes must agree."""
    if kind == "number" and not bool(is_labelled(labels, kind).any()):
        raise InputError(f"none of the {len(labels)} nodes has a number to learn from: NaN means none.")
    if labels.dim() == 1 and not bool((labels >= 0).any()):
        raise InputError(f"none of the {len(labels)} nodes has a label: number the classes 0, 1, 2 …; −1 means none.")
    found = labels.size(1) if labels.dim() == 2 else int(labels.max()) + 1
    expected = len(names) if names is not None else num_classes if num_classes is not None else found
    if found > expected or expected < 1 or (labels.dim() == 2 and found != expected):
        raise InputError(f"labels have {found} classes but {expected} are declared: make the two agree.")
    if expected > MOST_CLASSES:
        raise InputError(f"{expected:,} classes are too many: number them 0, 1, 2 …, at most {MOST_CLASSES:,}.")
    if names is None:
        return tuple(str(c) for c in range(expected))
    if len(set(names)) < len(names):
        repeated = Counter(names).most_common(1)[0][0]
        raise InputError(f'the class name "{repeated}" is used twice or more: give every class a different name.')
    return tuple(names)


def node_numbers(split: Numbers | None, num_nodes: int, what: str) -> Tensor:
    """The nodes of a split, given as numbers or as a mask; None means an empty split."""
    nodes = _array([] if split is None else split)
    if nodes.dtype == bool and nodes.shape == (num_nodes,):
        nodes = np.flatnonzero(nodes)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise InputError(
            f"the {what} split must be a list of node numbers or a mask of {num_nodes} nodes, "
            f"not {nodes.dtype} {list(nodes.shape)}."
        )
    if nodes.size and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        raise InputError(f"the {what} split has nodes outside 0 … {num_nodes - 1}, those of the target type.")
    return torch.from_numpy(np.require(nodes, np.int64, ["C", "W"]))


def check_splits(splits: dict[str, Tensor], labels: Tensor, *, kind: Kind = "single") -> None:
    """Refuse splits that share or repeat a node, contain an unlabelled node, or have no training nodes."""
    seen = torch.zeros(len(labels), dtype=torch.bool)
    for name, nodes in splits.items():
        if bool(seen[nodes].any()) or torch.bincount(nodes).gt(1).any():
            raise InputError(f"the {name} split repeats a node or shares one with another split: keep them apart.")
        seen[nodes] = True
        missing = int((~is_labelled(labels[nodes], kind)).sum())
        if missing:
            raise InputError(f"{missing} nodes of the {name} split have no label: label or remove them.")
    if not len(splits["train"]):
        raise InputError("the train split is empty: at least one labelled node is needed.")


def _array(values: Numbers) -> Array:
    """Convert to a numpy array; rows of different lengths become objects."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().to_dense()
        return np.asarray(values.float() if values.dtype == torch.bfloat16 else values)
    try:
        return np.asarray(values)
    except ValueError:
        return np.array(None, dtype=object)
