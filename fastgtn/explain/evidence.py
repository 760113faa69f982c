"""The evidence behind a ranking: what the graph alone gives, what each path contributes, what dropping it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fastgtn.data import NodeTask
from fastgtn.explain.contribution import PathParts
from fastgtn.explain.faithfulness import faithfulness
from fastgtn.explain.ranking import RankedPath, Ranking, rank_metapaths
from fastgtn.explain.walks import backbone_of
from fastgtn.nn import Features, NodeClassifier
from fastgtn.relations import RelationStack
from fastgtn.screening import Screening

CANDIDATES = 40  # the heaviest paths, whose contributions are computed
MOST_BYTES = 4e9  # of all parts of the logits of all nodes


def judge_metapaths(
    model: NodeClassifier,
    stack: RelationStack,
    features: Features | Tensor,
    task: NodeTask,
    *,
    top: int = 20,
    screening: Screening | None = None,
    metric: str | None = None,
    **options: Any,
) -> Ranking:
    """Rank the meta-paths of a model by their contribution to its predictions, with evidence for each.

    Of the heaviest paths each one gets its share under uniform filters, which is what the graph alone gives, its
    contribution, the change of the validation score without it, and its p-value of the screening. A model of several
    layers is not a sum over meta-paths: its paths are ranked by share, without contributions.

    Args:
        screening: The test of all paths on the training labels, for p-values.
        metric: The metric of the change; by default the selection metric.
        options: Further arguments of :func:`rank_metapaths`: nodes, between_targets, channel, layer.
    """
    found = rank_metapaths(model, stack, task.target, top=max(top, CANDIDATES), features=features, **options)
    found = replace(found, paths=_with_uniform(found, model, stack, features, task.target, options))
    found = replace(found, paths=_with_p_values(found, screening))
    if options.get("channel") is not None or not _is_sum(model, stack):
        return replace(found, paths=found.paths[:top])
    parts = PathParts(
        model, stack, features, task.target, nodes=options.get("nodes"), is_exclusive=task.kind == "single"
    )
    judged = [replace(ranked, contribution=parts.contribution(parts.along(ranked.path))) for ranked in found]
    judged.sort(key=lambda ranked: -(ranked.contribution or 0.0))
    listed = tuple(replace(ranked, rank=rank) for rank, ranked in enumerate(judged[:top], 1))
    listed = _with_effects(listed, model, stack, features, task, metric)
    return replace(found, paths=listed, rule="contribution", own_contribution=parts.contribution(parts.own()))


def _is_sum(model: NodeClassifier, stack: RelationStack) -> bool:
    """Whether the logits are a sum over meta-paths that fits into memory."""
    backbone = backbone_of(model)
    numbers = 3 * stack.num_nodes * backbone.out_features * backbone.num_channels
    return backbone.num_layers == 1 and 8 * numbers <= MOST_BYTES


def _with_uniform(
    found: Ranking,
    model: NodeClassifier,
    stack: RelationStack,
    features: Features | Tensor,
    target: str,
    options: dict[str, Any],
) -> tuple[RankedPath, ...]:
    """The shares that uniform filters would give the same paths."""
    filters = backbone_of(model).hop_filters()[options.get("layer", 0)]
    uniform = torch.full_like(filters.logits, 1 / filters.logits.size(-1))
    weights = rank_metapaths(
        model, stack, target, features=features, filters=uniform, only=[r.path for r in found], **options
    )
    shares = {ranked.path: ranked.weight for ranked in weights}
    return tuple(replace(ranked, uniform_share=shares.get(ranked.path, 0.0)) for ranked in found)


def _with_p_values(found: Ranking, screening: Screening | None) -> tuple[RankedPath, ...]:
    p_values = {} if screening is None else {one.path.relations: one.p_value for one in screening}
    return tuple(replace(ranked, p_value=p_values.get(ranked.path.relations)) for ranked in found)


def _with_effects(
    paths: tuple[RankedPath, ...],
    model: NodeClassifier,
    stack: RelationStack,
    features: Features | Tensor,
    task: NodeTask,
    metric: str | None,
) -> tuple[RankedPath, ...]:
    split = "val" if len(task.val) else "train"
    matters = faithfulness(model, stack, features, task, paths, split=split, metric=metric)
    changes = {effect.name: effect.without - matters.whole for effect in matters.paths}
    return tuple(replace(ranked, without=changes[ranked.name]) for ranked in paths)
