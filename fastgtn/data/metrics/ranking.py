r"""The place of the true class among all classes.

.. math:: \mathrm{NDCG} = \frac{1}{\log_2(1 + r)} \qquad \mathrm{MRR} = \frac{1}{r}
"""

import torch
from torch import Tensor

from fastgtn.data.metrics.metric import Answers, Metric, Rows, register

RANK_ROWS = 4096  # rows ranked at once: the comparison needs less memory than the logits


def true_ranks(answers: Answers) -> Rows:
    """The rank of the true class of each row, [B].

    Ties share the middle rank, so that constant or undefined logits have no advantage.
    """
    logits, labels = answers.logits, answers.labels
    rows = zip(torch.split(logits, RANK_ROWS), torch.split(labels, RANK_ROWS), strict=True)
    return Rows(torch.cat([_rank(*part) for part in rows]) if len(labels) else logits.new_empty(0).double())


def ndcg(ranks: Rows) -> float:
    """Normalised discounted cumulative gain of the true class."""
    return float((1 / torch.log2(1 + ranks.values)).mean())


def mrr(ranks: Rows) -> float:
    """Mean reciprocal rank."""
    return float((1 / ranks.values).mean())


def _rank(logits: Tensor, labels: Tensor) -> Tensor:
    own = logits.gather(1, labels[:, None])
    best = 1 + (logits > own).sum(1)
    worst = logits.size(1) - (logits < own).sum(1)
    return (best + worst).double() / 2  # [B]


NDCG = register(Metric("ndcg", "NDCG", true_ranks, ndcg, kinds=("ranking",), main_of=("ranking",)))
MRR = register(Metric("mrr", "MRR", true_ranks, mrr, kinds=("ranking",)))
