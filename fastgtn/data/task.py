"""The task on a graph: which nodes, which labels, which split; its loss and its metrics."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fastgtn.data.metrics import Kind as Kind
from fastgtn.data.metrics import Tally
from fastgtn.errors import InputError, nearest

MOST_CLASSES = 1_000_000


@dataclass(frozen=True, eq=False)
class Split:
    """Nodes of the target type with their labels: int64 [B], or float32 [B, num_classes] for several."""

    nodes: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, eq=False)
class NodeTask:
    """Predict the class of nodes of one type. Make one with :meth:`from_labels`.

    Training code is handed `train` and `val`; only :meth:`score_test` sees the labels of `test_nodes`.

    Args:
        kind: "single" (one label), "multi" (several) or "ranking" (one of very many: NDCG and MRR).
        val_is_drawn: True when the validation nodes were drawn from the training nodes, as for HGB graphs.
        class_weights: Factor on the loss of each class, [num_classes].
        threshold: Probability from which a label of a "multi" task counts as predicted.
    """

    target: str
    kind: Kind
    num_classes: int
    class_names: tuple[str, ...]
    train: Split
    val: Split
    test_nodes: Tensor
    val_is_drawn: bool = False
    class_weights: Tensor | None = None
    threshold: float = 0.5
    _labels: Tensor = field(default_factory=lambda: torch.empty(0), repr=False)

    @classmethod
    def from_labels(
        cls,
        target: str,
        kind: Kind,
        labels: Tensor,
        *,
        train: Tensor,
        val: Tensor | None = None,
        test: Tensor,
        class_names: Sequence[str] | None = None,
        num_classes: int | None = None,
        val_fraction: float = 0.2,
        seed: int = 0,
    ) -> "NodeTask":
        """Build the task from the labels of all nodes of the target type and the node numbers of each split.

        Args:
            labels: int64 [N], −1 = none; or zeros and ones [N, num_classes] for kind "multi".
            val: Without it `val_fraction` of the training nodes are drawn by `seed`, class by class.
        """
        if kind not in get_args(Kind):
            raise InputError(f'no task kind "{kind}"; {nearest(kind, get_args(Kind))}')
        labels = labels.float() if kind == "multi" else labels.long()
        if labels.dim() != (2 if kind == "multi" else 1):
            raise InputError(f'labels of a "{kind}" task cannot have shape {list(labels.shape)}.')
        names = _class_names(labels, class_names, num_classes)
        val_is_drawn = val is None
        train, test = _in_range(train, "train", len(labels)), _in_range(test, "test", len(labels))
        if val is None:
            train, val = _draw_val(train, labels, val_fraction, seed)
        val = _in_range(val, "val", len(labels))
        _check_splits({"train": train, "val": val, "test": test}, labels)
        return cls(
            target=target,
            kind=kind,
            num_classes=len(names),
            class_names=names,
            train=Split(train, labels[train]),
            val=Split(val, labels[val]),
            test_nodes=test,
            val_is_drawn=val_is_drawn,
            _labels=labels,
        )

    @property
    def selection_metric(self) -> str:
        """The validation metric by which an epoch or a configuration is chosen."""
        return "ndcg" if self.kind == "ranking" else "micro_f1"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy; for several labels the mean binary cross entropy over nodes and classes."""
        self._check_logits(logits, labels)
        weights = None if self.class_weights is None else self.class_weights.to(logits)
        if self.kind == "multi":
            return F.binary_cross_entropy_with_logits(logits, labels, pos_weight=weights)
        return F.cross_entropy(logits, labels, weight=weights)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax, or sigmoid where a node may have several labels."""
        return logits.sigmoid() if self.kind == "multi" else logits.softmax(-1)

    def loss_weight(self, labels: Tensor) -> float:
        """What the loss of these nodes counts in a mean over several groups of nodes."""
        if self.class_weights is None or self.kind == "multi":
            return float(len(labels))
        return float(self.class_weights[labels.cpu()].sum())

    @torch.no_grad()
    def tally(self, logits: Tensor, labels: Tensor) -> Tally:
        """What the metrics need to know of these rows; the tallies of blocks of rows can be added."""
        self._check_logits(logits, labels)
        if self.kind == "multi":
            return Tally.of_sets(self.probabilities(logits) >= self.threshold, labels)
        return Tally.of_classes(logits, labels, kind=self.kind)

    def metrics(self, logits: Tensor | Iterable[Tensor], labels: Tensor) -> dict[str, float]:
        """Scores between 0 and 1: accuracy, micro_f1, macro_f1; for ranking also ndcg and mrr.

        Args:
            logits: A row per label; or blocks of rows one after the other, none of which is kept.
        """
        if not len(labels):
            raise InputError("there are no nodes to score: the split is empty.")
        if isinstance(logits, Tensor):
            return self.tally(logits, labels).scores()
        tally = Tally.empty(self.kind, self.num_classes)
        for block in logits:
            tally += self.tally(block, labels[tally.rows : tally.rows + len(block)].to(block.device))
        if tally.rows != len(labels):
            raise InputError(f"the blocks of logits have {tally.rows} rows for {len(labels)} labels.")
        return tally.scores()

    def score_test(self, logits: Tensor | Iterable[Tensor]) -> dict[str, float]:
        """Score the test nodes, rows (or blocks of rows) in the order of `test_nodes`.

        Call it once, with the chosen weights.
        """
        labels = self._labels[self.test_nodes]
        return self.metrics(logits, labels.to(logits.device) if isinstance(logits, Tensor) else labels)

    def balanced(self) -> "NodeTask":
        """The same task with rare classes of the training split weighing more in the loss."""
        if self.kind == "multi":
            positives = self.train.labels.sum(0).clamp(min=1)
            weights = (len(self.train) - positives).clamp(min=1) / positives
        else:
            counts = torch.bincount(self.train.labels, minlength=self.num_classes).float()
            weights = len(self.train) / (self.num_classes * counts.clamp(min=1))
        return replace(self, class_weights=weights)

    def _check_logits(self, logits: Tensor, labels: Tensor) -> None:
        if logits.dim() != 2 or logits.size(0) != len(labels) or logits.size(1) != self.num_classes:
            raise InputError(
                f"logits have shape {list(logits.shape)}; expected [{len(labels)}, {self.num_classes}]: "
                "a row per node of the split, a column per class."
            )


def _class_names(labels: Tensor, names: Sequence[str] | None, num_classes: int | None) -> tuple[str, ...]:
    largest = int(labels.max()) if labels.numel() else -1
    found = labels.size(1) if labels.dim() == 2 else largest + 1
    expected = len(names) if names is not None else num_classes if num_classes is not None else found
    if found > expected or expected < 1 or (labels.dim() == 2 and found != expected):
        raise InputError(f"labels have {found} classes but {expected} are declared: make the two agree.")
    if expected > MOST_CLASSES:
        raise InputError(f"{expected:,} classes are too many: number them 0, 1, 2 …, at most {MOST_CLASSES:,}.")
    return tuple(names) if names is not None else tuple(str(c) for c in range(expected))


def _check_splits(splits: dict[str, Tensor], labels: Tensor) -> None:
    seen = torch.zeros(len(labels), dtype=torch.bool)
    for name, nodes in splits.items():
        if bool(seen[nodes].any()) or torch.bincount(nodes).gt(1).any():
            raise InputError(f"the {name} split repeats a node or shares one with another split: keep them apart.")
        seen[nodes] = True
        if labels.dim() == 1 and bool((labels[nodes] < 0).any()):
            missing = int((labels[nodes] < 0).sum())
            raise InputError(f"{missing} nodes of the {name} split have no label: label or remove them.")
    if not len(splits["train"]):
        raise InputError("the train split is empty: at least one labelled node is needed.")


def _in_range(nodes: Tensor, split: str, num_nodes: int) -> Tensor:
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        raise InputError(f"the {split} split has nodes outside 0 … {num_nodes - 1}, those of the target type.")
    return nodes.long()


def _draw_val(train: Tensor, labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Part the training nodes in two by seed, keeping the shares of the classes of a single label."""
    if not 0 <= fraction < 1:
        raise InputError(f"val_fraction is {fraction}; it must be at least 0 and below 1.")
    nodes = train.sort().values  # the order of the file must not matter
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    if labels.dim() == 1:  # interleave the classes: any leading part then has every class in its share
        y = labels[nodes]
        place = torch.empty(len(nodes), dtype=torch.double)
        for c in range(int(y.max()) + 1 if len(y) else 0):
            count = int((y == c).sum())
            place[y == c] = (torch.arange(count, dtype=torch.double) + 0.5) / count
        nodes = nodes[place.argsort(stable=True)]
    size = round(fraction * len(nodes))
    return nodes[size:].sort().values, nodes[:size].sort().values
