"""Rank all targets with many models: the strengths of the paths are computed once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgtn.links.edges import Array
from fastgtn.links.joined.model import LinkModel
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.metrics import rank_all

MOST_STRENGTHS = 5_000_000  # of sources, targets and paths that are held at once


def rank_models(
    models: Sequence[LinkModel], paths: JoinedPaths, popularity: Array, links: Array, known: Any
) -> list[dict[str, float]]:
    """The ranking metrics of hidden links for each model, the same as one at a time.

    Args:
        models: Models of the same fit: the paths of each are the first of the given ones, with the same scales.
        links: The hidden links [2, E].
        known: Known links as a sparse matrix [sources, targets]; they are left out.
    """
    if not models:
        return []
    sources = np.unique(links[0])
    scales = max((model.scales for model in models), key=len)
    size = max(1, MOST_STRENGTHS // max(len(popularity) * len(paths), 1))
    blocks = [slice(first, first + size) for first in range(0, len(sources), size)]
    tallies: list[list[Any]] = [[] for _ in models]
    for block in blocks:
        source = sources[block]
        shapes = paths.row_shapes(source, scales)
        for model, found in zip(models, tallies, strict=True):
            rows = model.completed(model.weighed(shapes), popularity, source)
            found.append(rank_all(_given(rows, source), links, known, part=block))
    return [sum(found[1:], found[0]).scores() for found in tallies]


def _given(rows: Array, source: Array) -> Any:
    """A function that finds some of the rows that were computed for sorted sources."""
    return lambda wanted: rows[np.searchsorted(source, wanted)]
