"""Scores of node predictions, as fractions. A few lines of torch: importing torchmetrics takes seconds."""

import torch
from torch import Tensor

RANK_ROWS = 4096  # rows ranked at once: the comparison with the logits never takes as much room as the logits


def single_label(predicted: Tensor, labels: Tensor, num_classes: int) -> dict[str, float]:
    """Accuracy, micro- and macro-F1, one class per node; a class neither true nor predicted is left out."""
    hits = torch.bincount(labels[predicted == labels], minlength=num_classes)
    total = torch.bincount(labels, minlength=num_classes) + torch.bincount(predicted, minlength=num_classes)
    f1 = 2 * hits.double() / total.clamp(min=1)
    accuracy = float(hits.sum() / max(len(labels), 1))
    # every wrong answer is one false positive and one false negative: micro-F1 is the accuracy
    return {"accuracy": accuracy, "micro_f1": accuracy, "macro_f1": float(f1[total > 0].mean())}


def multi_label(predicted: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy of the whole set, micro- and macro-F1 of several classes per node; every class counts."""
    predicted, labels = predicted.bool(), labels.bool()
    hits = (predicted & labels).sum(0).double()  # [C]
    total = (predicted.sum(0) + labels.sum(0)).double()  # [C]
    return {
        "accuracy": float((predicted == labels).all(1).double().mean()),
        "micro_f1": float(2 * hits.sum() / total.sum().clamp(min=1)),
        "macro_f1": float((2 * hits / total.clamp(min=1)).mean()),
    }


def ranking(logits: Tensor, labels: Tensor) -> dict[str, float]:
    r"""NDCG and MRR of the true class among all classes.

    .. math:: \mathrm{NDCG} = \frac{1}{\log_2(1 + r)} \qquad \mathrm{MRR} = \frac{1}{r}

    The rank r is the middle of the places that ties share, so constant or undefined logits win nothing.
    """
    rows = zip(torch.split(logits, RANK_ROWS), torch.split(labels, RANK_ROWS), strict=True)
    ranks = torch.cat([_rank(*part) for part in rows])  # [B]
    return {"ndcg": float((1 / torch.log2(1 + ranks)).mean()), "mrr": float((1 / ranks).mean())}


def _rank(logits: Tensor, labels: Tensor) -> Tensor:
    own = logits.gather(1, labels[:, None])
    best = 1 + (logits > own).sum(1)
    worst = logits.size(1) - (logits < own).sum(1)
    return (best + worst).double() / 2  # [B]
