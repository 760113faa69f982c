"""What a task scores without a model."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from fastgtn.data.task import NodeTask


def majority_score(task: NodeTask, split: str) -> float:
    """The micro-F1 on a split of always guessing the commonest training class."""
    guess = torch.tensor(max(range(task.num_classes), key=task.balance.__getitem__))
    plain, parts = replace(task, cut=None), {"train": task.train, "val": task.val}
    count = len(parts[split]) if split in parts else len(task.test_nodes)
    logits = F.one_hot(guess, task.num_classes).float().expand(count, -1)
    scores = plain.metrics(logits, parts[split].labels) if split in parts else plain.score_test(logits)
    return scores["micro_f1"]
