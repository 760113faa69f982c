"""Faithfulness: score a trained model without a meta-path, and with only that path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.data import NodeTask, Split
from fastgtn.explain.linear import LinearPart, Messages
from fastgtn.explain.ranking import RankedPath
from fastgtn.nn import Features, NodeClassifier
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
    """The metric with all paths, with none (only a node's own features), and for each path."""

    metric: str
    split: str
    whole: float
    none: float
    paths: tuple[PathEffect, ...]

    def to_dict(self) -> dict[str, Any]:
        listed = [
            {
                "path": effect.name,
                "weight": effect.weight,
                "without": effect.without,
                "only": effect.only,
                "change_without": effect.without - self.whole,
                "change_only": effect.only - self.whole,
            }
            for effect in self.paths
        ]
        return {
            "metric": self.metric,
            "split": self.split,
            "whole": self.whole,
            "none": self.none,
            "paths": listed,
        }


def faithfulness(
    model: NodeClassifier,
    stack: RelationStack,
    features: Features | Tensor,
    task: NodeTask,
    paths: Iterable[RankedPath],
    *,
    split: str = "val",
    metric: str | None = None,
) -> Faithfulness:
    """Score a trained one-layer model without some of its meta-paths. Nothing is retrained.

    The remaining paths share the weight of all paths, so that a node's own features keep their share. A node that
    none of them reaches uses only its own features.

    Args:
        paths: The paths to test, usually a ranking.
        split: "val" or "train". The test split is not available here.
        metric: The metric; by default the selection metric.
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
