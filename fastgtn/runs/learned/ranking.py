"""The meta-paths of a result with their evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from fastgtn.explain.evidence import judge_metapaths
from fastgtn.explain.ranking import Ranking, rank_metapaths

if TYPE_CHECKING:
    from fastgtn.runs.result import Result


def ranking_of(result: Result, top: int, by: str, options: dict[str, Any]) -> Ranking:
    """The ranking by contribution, with a verdict on whether it was learned, or the ranking by share alone."""
    own = result.own
    inputs, places = own.seen  # the graph as the nodes see it, if they have moments
    if inputs is not own.inputs:
        nodes = options.get("nodes")
        options = options | {"nodes": places if nodes is None else places[torch.as_tensor(nodes)]}
    if by == "share" or own.task is None:
        features, target = inputs.features, result.schema.target
        return rank_metapaths(own.model, inputs.stack, target, top=top, features=features, **options)
    judged = judge_metapaths(
        own.model,
        inputs.stack,
        inputs.features,
        own.seen_task(own.task) if inputs is not own.inputs else own.task,
        top=top,
        screening=result.screening,
        metric=result.chosen_by,
        **options,
    )
    return replace(judged, learned=result.learned)
