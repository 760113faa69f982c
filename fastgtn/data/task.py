"""The task on a graph: which nodes, which labels, which split; its loss and its metrics."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from fastgtn.data.metrics import Kind as Kind
from fastgtn.data.metrics import Tally
from fastgtn.data.splits import draw_val
from fastgtn.data.task_inputs import Numbers, check_splits, label_tensor, node_numbers
from fastgtn.data.task_inputs import class_names as named_classes
from fastgtn.errors import InputError


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
        labels: Numbers,
        *,
        train: Numbers | None,
        val: Numbers | None = None,
        test: Numbers | None = None,
        class_names: Sequence[str] | None = None,
        num_classes: int | None = None,
        val_fraction: float = 0.2,
        seed: int = 0,
    ) -> "NodeTask":
        """Build the task from the labels of all nodes of the target type and the nodes of each split.

        Labels and splits may be tensors, numpy arrays or lists; a split is node numbers, or a mask over all nodes.

        Args:
            labels: Whole numbers [N], −1 = none; or zeros and ones [N, num_classes] for kind "multi".
            val: Without it `val_fraction` of the training nodes are drawn by `seed`, class by class.
        """
        y = label_tensor(labels, kind)
        names = named_classes(y, class_names, num_classes)
        train_nodes, test_nodes = node_numbers(train, len(y), "train"), node_numbers(test, len(y), "test")
        if val is None:
            train_nodes, val_nodes = draw_val(train_nodes, y, val_fraction, seed=seed)
        else:
            val_nodes = node_numbers(val, len(y), "val")
        check_splits({"train": train_nodes, "val": val_nodes, "test": test_nodes}, y)
        return cls(
            target=target,
            kind=kind,
            num_classes=len(names),
            class_names=names,
            train=Split(train_nodes, y[train_nodes]),
            val=Split(val_nodes, y[val_nodes]),
            test_nodes=test_nodes,
            val_is_drawn=val is None,
            _labels=y,
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
