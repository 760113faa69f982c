"""The task on a graph: which nodes, which labels, which split; its loss and its metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from fastgtn.data.decision import decided
from fastgtn.data.metrics import Answers, Tally, main_metric, metrics_of
from fastgtn.data.metrics import Kind as Kind
from fastgtn.data.number_unit import NumberLoss, NumberScale, NumberUnit, in_unit
from fastgtn.data.pyg.graph import as_hetero, stored_labels
from fastgtn.data.splits import draw_val
from fastgtn.data.task_inputs import Numbers, check_splits, label_tensor, node_numbers
from fastgtn.data.task_inputs import class_names as named_classes
from fastgtn.errors import InputError

RARE = 0.4  # of an equal share


@dataclass(frozen=True, eq=False)
class Split:
    """Nodes of the target type with their labels: int64 [B], or float32 [B, num_classes] for several or numbers."""

    nodes: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, eq=False)
class NodeTask:
    """Predict the class of nodes of one type, or numbers. Make one with :meth:`from_labels` or :meth:`from_hetero`.

    Training code is handed `train` and `val`; only :meth:`score_test` sees the labels of `test_nodes`.

    Args:
        kind: "single" (one label), "multi" (several), "ranking" (one of very many: NDCG and MRR) or "number" (one or
            several numbers per node, which `num_classes` counts and `class_names` names).
        val_is_drawn: True when the validation nodes were drawn from the training nodes, as for HGB graphs.
        class_weights: Factor on the loss of each class, [num_classes].
        threshold: Probability from which a label of a "multi" task counts as predicted.
        cut: Of two classes, the one that is asked for and the probability from which it is predicted; None predicts the
            more probable class.
        unit: How numbers are learned, where labels and logits are standardised.
        largest: Where the logits of numbers are logarithms, the largest number that each output may predict.
        number_loss: "mse" or "huber", for numbers.
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
    cut: tuple[int, float] | None = None
    unit: NumberUnit | None = None
    largest: tuple[float, ...] | None = None
    number_loss: NumberLoss = "mse"
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
            labels: Whole numbers [N], −1 = none; or zeros and ones [N, num_classes] for kind "multi"; or numbers [N]
                or [N, outputs] for kind "number", NaN = none.
            val: Without it `val_fraction` of the training nodes are drawn by `seed`, class by class.
        """
        y = label_tensor(labels, kind)
        names = named_classes(y, class_names, num_classes, kind=kind)
        train_nodes, test_nodes = node_numbers(train, len(y), "train"), node_numbers(test, len(y), "test")
        if val is None:
            train_nodes, val_nodes = draw_val(train_nodes, y, val_fraction, seed=seed)
        else:
            val_nodes = node_numbers(val, len(y), "val")
        check_splits({"train": train_nodes, "val": val_nodes, "test": test_nodes}, y, kind=kind)
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

    @classmethod
    def from_hetero(
        cls,
        graph: HeteroData | Data,
        target: str | None = None,
        *,
        kind: Kind | None = None,
        class_names: Sequence[str] | None = None,
        val_fraction: float = 0.2,
        seed: int = 0,
    ) -> "NodeTask":
        """Read the task from `y`, `train_mask`, `val_mask` and `test_mask`, as the datasets of PyG have them.

        Args:
            target: The node type; by default the only one that has labels and masks.
            kind: By default "single" for whole numbers [N], "multi" for zeros and ones [N, classes], and "number" for
                other numbers.
            val_fraction: Share of the training nodes that `seed` draws for validation if there is no `val_mask`.
        """
        found = stored_labels(as_hetero(graph), target, kind)
        splits = found.splits
        return cls.from_labels(
            found.target,
            found.kind,
            found.labels,
            train=splits["train"],
            val=splits["val"],
            test=splits["test"],
            class_names=class_names,
            val_fraction=val_fraction,
            seed=seed,
        )

    @cached_property
    def balance(self) -> tuple[float, ...]:
        """The share of each class among the training nodes; empty for numbers."""
        if self.kind == "number" or not len(self.train):
            return ()
        if self.kind == "multi":
            return tuple(self.train.labels.mean(0).tolist())
        counts = torch.bincount(self.train.labels, minlength=self.num_classes)
        return tuple((counts / len(self.train)).tolist())

    @property
    def positive(self) -> int:
        """Of two classes, the one of the threshold, else the rarer one; the second where they are equal."""
        if self.cut is not None or not self.balance:
            return 1 if self.cut is None else self.cut[0]
        return int(self.kind == "single" and self.num_classes == 2 and self.balance[0] >= self.balance[1])

    @property
    def has_rare_class(self) -> bool:
        """Whether the smallest class has less than 0.4 of an equal share: of two classes, less than 20 %."""
        if self.kind != "single" or self.num_classes < 2 or not self.balance:
            return False
        return min(self.balance) < RARE / self.num_classes

    @property
    def selection_metric(self) -> str:
        """The validation metric by which an epoch or a configuration is chosen.

        Where a class is rare, always guessing another one has a high micro-F1: average precision, or with more than two
        classes macro-F1, can tell the difference.
        """
        if self.has_rare_class:
            return "average_precision" if self.num_classes == 2 else "macro_f1"
        main = main_metric(metric.name for metric in metrics_of(self.kind))
        assert main is not None
        return main.name

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy; for several labels the mean binary cross entropy over nodes and classes.

        Numbers: the loss of :meth:`NumberUnit.loss`.
        """
        self._check_logits(logits, labels)
        if self.kind == "number":
            unit = self.unit or NumberUnit(torch.zeros(self.num_classes), torch.ones(self.num_classes))
            return unit.loss(logits, labels, self.number_loss)
        weights = None if self.class_weights is None else self.class_weights.to(logits)
        if self.kind == "multi":
            return F.binary_cross_entropy_with_logits(logits, labels, pos_weight=weights)
        return F.cross_entropy(logits, labels, weight=weights)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax, or sigmoid where a node may have several labels; numbers in the unit of the user."""
        if self.kind == "number":
            return in_unit(logits, self.largest)
        return logits.sigmoid() if self.kind == "multi" else logits.softmax(-1)

    def chosen(self, probabilities: Tensor) -> Tensor:
        """The predicted class of each row, [B], or the set of classes, [B, num_classes]; numbers stay what they are."""
        if self.kind == "number":
            return probabilities
        if self.kind == "multi":
            return probabilities >= self.threshold
        return probabilities.argmax(1) if self.cut is None else decided(probabilities, *self.cut)

    def with_outcome(self, decision: Mapping[str, Any] | None, largest: Sequence[float] | None = None) -> "NodeTask":
        """The same task with what was stored with a run.

        Args:
            decision: The threshold that says which of two classes is predicted.
            largest: The largest numbers, if the model predicts logarithms.
        """
        task = self if largest is None else replace(self, largest=tuple(largest))
        if decision is None:
            return task
        return replace(task, cut=(self.class_names.index(decision["class_name"]), float(decision["threshold"])))

    def loss_weight(self, labels: Tensor) -> float:
        """The weight of the loss of these nodes in a mean over several groups of nodes."""
        if self.class_weights is None or self.kind in ("multi", "number"):
            return float(len(labels))
        return float(self.class_weights[labels.cpu()].sum())

    @torch.no_grad()
    def tally(self, logits: Tensor, labels: Tensor, *, each_epoch: str | None = None) -> Tally:
        """The counts that the metrics need of these rows; the tallies of blocks of rows can be added.

        Args:
            each_epoch: Leave out what only costly metrics need, but for the metric with this name.
        """
        self._check_logits(logits, labels)
        if self.kind == "number":
            if self.unit is not None:
                numbers, labels = self.unit.numbers(logits), self.unit.told(labels)
            else:
                numbers = in_unit(logits, self.largest)
            return Tally.of(Answers(self.kind, numbers, numbers, labels), each_epoch=each_epoch)
        is_plain = self.kind != "multi" and self.cut is None  # the largest logit needs no probabilities
        chosen = logits.argmax(1) if is_plain else self.chosen(self.probabilities(logits))
        return Tally.of(Answers(self.kind, logits, chosen, labels, self.positive), each_epoch=each_epoch)

    def metrics(self, logits: Tensor | Iterable[Tensor], labels: Tensor) -> dict[str, float]:
        """The value of every metric that this kind of task has (:mod:`fastgtn.data.metrics`).

        Args:
            logits: A row per label; or blocks of rows one after the other, none of which is kept.
        """
        if not len(labels):
            raise InputError("there are no nodes to score: the split is empty.")
        if isinstance(logits, Tensor):
            return self.tally(logits, labels).scores()
        tally = Tally(self.kind)
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
        if self.kind == "number":
            raise InputError("a task of numbers has no classes to balance: leave fit.class_weights out.")
        if self.kind == "multi":
            positives = self.train.labels.sum(0).clamp(min=1)
            weights = (len(self.train) - positives).clamp(min=1) / positives
        else:
            counts = torch.bincount(self.train.labels, minlength=self.num_classes).float()
            weights = len(self.train) / (self.num_classes * counts.clamp(min=1))
        return replace(self, class_weights=weights)

    def standardized(self, *, loss: NumberLoss = "mse", scale: NumberScale = "linear") -> "NodeTask":
        """The same task of numbers as a model learns it; metrics stay in the unit of the user."""
        unit = NumberUnit.fit(self.train.labels, scale)
        train, val = (Split(s.nodes, unit.learned(s.labels)) for s in (self.train, self.val))
        return replace(self, train=train, val=val, unit=unit, number_loss=loss)

    def _check_logits(self, logits: Tensor, labels: Tensor) -> None:
        if logits.dim() != 2 or logits.size(0) != len(labels) or logits.size(1) != self.num_classes:
            raise InputError(
                f"logits have shape {list(logits.shape)}; expected [{len(labels)}, {self.num_classes}]: "
                "a row per node of the split, a column per class."
            )
