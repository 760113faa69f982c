"""Scores of node predictions, as fractions. A few lines of torch: importing torchmetrics takes seconds."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

RANK_ROWS = 4096  # rows ranked at once: the comparison with the logits never takes as much room as the logits
Kind = Literal["single", "multi", "ranking"]


@dataclass(frozen=True, eq=False)
class Tally:
    """All that the metrics need to know of predictions. Tallies of blocks add up to the tally of all rows.

    Args:
        right: Rows whose label, or whole set of labels, was predicted.
        hits: Right predictions of each class, [num_classes].
        total: Predictions and labels of each class together, [num_classes].
        ranks: Of the true class, row by row: the middle of the places that ties share, so that constant or
            undefined logits win nothing. Only of ranking tasks.
    """

    kind: Kind
    rows: int
    right: int
    hits: Tensor
    total: Tensor
    ranks: Tensor

    @staticmethod
    def empty(kind: Kind, num_classes: int) -> "Tally":
        zero = torch.zeros(num_classes, dtype=torch.int64)
        return Tally(kind, 0, 0, zero, zero, torch.empty(0, dtype=torch.float64))

    @staticmethod
    def of_classes(logits: Tensor, labels: Tensor, *, kind: Kind = "single") -> "Tally":
        """Of predictions of one class per node: the class with the largest logit."""
        num_classes, predicted = logits.size(1), logits.argmax(1)
        hits = torch.bincount(labels[predicted == labels], minlength=num_classes)
        total = torch.bincount(labels, minlength=num_classes) + torch.bincount(predicted, minlength=num_classes)
        tally = Tally(kind, len(labels), int(hits.sum()), hits, total, torch.empty(0, dtype=torch.float64))
        return replace(tally, ranks=_ranks(logits, labels)) if kind == "ranking" else tally

    @staticmethod
    def of_sets(predicted: Tensor, labels: Tensor) -> "Tally":
        """Of predictions of any number of classes per node, given as zeros and ones."""
        predicted, labels = predicted.bool(), labels.bool()
        right = int((predicted == labels).all(1).sum())
        total = predicted.sum(0) + labels.sum(0)
        return Tally("multi", len(labels), right, (predicted & labels).sum(0), total, torch.empty(0))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.kind, self.rows + other.rows, self.right + other.right, self.hits + other.hits,
            self.total + other.total, torch.cat([self.ranks, other.ranks]),
        )  # fmt: skip

    def scores(self) -> dict[str, float]:
        r"""Accuracy, micro- and macro-F1; for ranking also NDCG and MRR of the true class among all classes.

        .. math:: \mathrm{NDCG} = \frac{1}{\log_2(1 + r)} \qquad \mathrm{MRR} = \frac{1}{r}

        With one class per node, a class neither true nor predicted is left out of macro-F1; with several, every
        class counts.
        """
        accuracy = self.right / max(self.rows, 1)
        f1 = 2 * self.hits.double() / self.total.clamp(min=1)
        if self.kind == "multi":
            micro = float(2 * self.hits.sum().double() / self.total.sum().clamp(min=1))
            return {"accuracy": accuracy, "micro_f1": micro, "macro_f1": float(f1.mean())}
        # every wrong answer is one false positive and one false negative: micro-F1 is the accuracy
        scores = {"accuracy": accuracy, "micro_f1": accuracy, "macro_f1": float(f1[self.total > 0].mean())}
        if self.kind == "ranking":
            scores |= {"ndcg": float((1 / torch.log2(1 + self.ranks)).mean()), "mrr": float((1 / self.ranks).mean())}
        return scores


def _ranks(logits: Tensor, labels: Tensor) -> Tensor:
    rows = zip(torch.split(logits, RANK_ROWS), torch.split(labels, RANK_ROWS), strict=True)
    return torch.cat([_rank(*part) for part in rows]) if len(labels) else logits.new_empty(0).double()  # [B]


def _rank(logits: Tensor, labels: Tensor) -> Tensor:
    own = logits.gather(1, labels[:, None])
    best = 1 + (logits > own).sum(1)
    worst = logits.size(1) - (logits < own).sum(1)
    return (best + worst).double() / 2  # [B]
