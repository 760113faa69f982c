"""Does a meta-path matter? Drop it, or keep only it, in a trained model, and look at the validation metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.data import NodeTask, Split
from fastgtn.insight.linear_part import LinearPart, Messages
from fastgtn.insight.ranking import RankedPath
from fastgtn.models import Features, NodeClassifier
from fastgtn.relations import RelationStack


@dataclass(frozen=True)
class PathEffect:
    """The metric without one path, and with that path alone."""

    name: str
    weight: float
    without: float
    only: float


@dataclass(frozen=True)
class Faithfulness:
    """What the metric is with all paths, with none (a node's own features alone), and path by path."""

    metric: str
    split: str
    whole: float
    none: float
    paths: tuple[PathEffect, ...]

    def to_dict(self) -> dict[str, Any]:
        listed = [
            {
                "path": effect.name, "weight": effect.weight, "without": effect.without, "only": effect.only,
                "change_without": effect.without - self.whole, "change_only": effect.only - self.whole,
            }
            for effect in self.paths
        ]  # fmt: skip
        return {
            "metric": self.metric, "split": self.split, "whole": self.whole, "none": self.none, "paths": listed,
        }  # fmt: skip


def faithfulness(
    model: NodeClassifier, stack: RelationStack, features: Features | Tensor, task: NodeTask,
    paths: Iterable[RankedPath], *, split: str = "val", metric: str | None = None,
) -> Faithfulness:  # fmt: skip
    """Score a trained model of one layer with some of its meta-paths taken away; nothing is trained again.

    The paths that stay share the mass of all paths, so that a node's own features keep their part; nodes that none of
    them reaches have their own features alone.

    Args:
        paths: The paths to try one by one, usually a ranking.
        split: "val" or "train"; the test split is scored once, elsewhere.
        metric: By default the one that chose the epoch.
    """
    nodes = {"train": task.train, "val": task.val}[split]
    name = metric or task.selection_metric
    part = LinearPart(model, stack, features, task.target)
    nothing = Messages(np.zeros_like(part.whole.values), np.zeros_like(part.whole.mass))
    effects = []
    for ranked in paths:
        message = part.along(ranked.path)
        without = _score(model, part, part.whole - message, task, nodes, name)
        only = _score(model, part, message, task, nodes, name)
        effects.append(PathEffect(ranked.name, ranked.weight, without, only))
    whole, none = (_score(model, part, messages, task, nodes, name) for messages in (part.whole, nothing))
    return Faithfulness(name, split, whole, none, tuple(effects))


@torch.no_grad()
def _score(
    model: NodeClassifier, part: LinearPart, messages: Messages, task: NodeTask, split: Split, metric: str
) -> float:
    hidden = part.hidden(messages, split.nodes).to(model.head.weight.dtype)
    return task.metrics(model.head(part.aggregate(hidden)), split.labels)[metric]
