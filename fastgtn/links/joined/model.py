"""A score for every pair that is a sum over joined meta-paths, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastgtn.errors import InputError
from fastgtn.links.edges import Array
from fastgtn.links.joined.logistic import fit_logistic
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.shapes import RowShapes, scales_of, shaped
from fastgtn.links.joined.supervision import Described
from fastgtn.links.joined.words import Word
from fastgtn.relations import Relation

RIDGES = (1e-3, 1e-2, 1e-1)


@dataclass(frozen=True, eq=False)
class LinkModel:
    r"""The log-odds of a link, :math:`b + β \log(1 + d_i) + \sum_P f_P(u, i)`.

    Each path adds its strength times a weight, or a weighted sum of the shapes of its strength.

    Args:
        relation: What is predicted.
        words: The joined paths that were chosen, as numbers of relations from the source outwards.
        names: Their short names.
        weights: One row per path: the weight of its strength, or those of its four shapes, [paths, 1 or 4].
        scales: What shapes divide strengths by, [paths, 2].
        popularity: :math:`β`, the weight of the popularity of the target.
        bias: The constant.
        ridge: The penalty that was chosen on the validation pairs.
    """

    relation: Relation
    words: tuple[Word, ...]
    names: tuple[str, ...]
    weights: Array
    scales: Array
    popularity: float
    bias: float
    ridge: float

    @property
    def is_shaped(self) -> bool:
        """Whether paths add shapes of their strength."""
        return self.weights.shape[1] > 1

    def path_parts(self, scores: Array, ends: Array) -> Array:
        """What each path adds to the log-odds of pairs, [pairs, paths]."""
        if not self.is_shaped:
            return scores * self.weights[:, 0]
        total: Array = (shaped(scores, ends, self.scales) * self.weights).sum(-1)
        return total

    def parts(self, described: Described) -> Array:
        """What the constant, popularity and each path add to the log-odds of each pair, [pairs, 2 + paths]."""
        constant = np.full((len(described.pairs), 1), self.bias)
        popular = self.popularity * described.popularity[:, None]
        return np.concatenate([constant, popular, self.path_parts(described.scores, described.ends)], axis=1)

    def logits(self, described: Described) -> Array:
        """The log-odds of each pair."""
        total: Array = self.parts(described).sum(1)
        return total

    def rows(self, paths: JoinedPaths, popularity: Array, source: Array) -> Array:
        """The log-odds of some sources with every target, [sources, targets]."""
        joined: Array | float = 0.0
        if len(paths) and self.is_shaped:
            joined = self.weighed(paths.row_shapes(source, self.scales))
        elif len(paths):
            joined = paths.rows(source, self.weights[:, 0])
        return self.completed(joined, popularity, source)

    def weighed(self, shapes: Sequence[RowShapes]) -> Array | float:
        """What all paths add to the log-odds of some sources with every target."""
        total: Array | float = 0.0
        for path, weights in zip(shapes, self.weights, strict=False):
            if weights.any():
                total = total + path.weighed(weights)
        return total

    def completed(self, joined: Array | float, popularity: Array, source: Array) -> Array:
        """The log-odds [sources, targets] from what the paths add: the constant and popularity join them."""
        total: Array = joined + np.float32(self.bias) + (self.popularity * popularity).astype(np.float32)
        if self.relation.source == self.relation.target:  # a pair without direction: both ends count
            total = total + (self.popularity * popularity[source]).astype(np.float32)[:, None]
        return np.broadcast_to(total, (len(source), len(popularity)))

    def without(self, number: int) -> LinkModel:
        """The same model with the weights of one path set to zero."""
        weights = self.weights.copy()
        weights[number] = 0
        return replace(self, weights=weights)

    def to_json(self) -> dict[str, Any]:
        """Plain values, enough to build the same model again."""
        return {
            "relation": list(self.relation),
            "paths": [
                {"name": name, "steps": list(word), "weights": weights.tolist(), "scales": scales.tolist()}
                for name, word, weights, scales in zip(self.names, self.words, self.weights, self.scales, strict=True)
            ],
            "popularity": self.popularity,
            "bias": self.bias,
            "ridge": self.ridge,
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> LinkModel:
        """The model that :meth:`to_json` wrote; anything else is refused."""
        try:
            paths = values["paths"]
            weights = [[float(w) for w in path["weights"]] for path in paths]
            scales = [[float(m) for m in path["scales"]] for path in paths]
            return LinkModel(
                Relation(*map(str, values["relation"])),
                tuple(tuple(int(step) for step in path["steps"]) for path in paths),
                tuple(str(path["name"]) for path in paths),
                np.array(weights).reshape(len(paths), len(weights[0]) if weights else 1),
                np.array(scales).reshape(len(paths), 2),
                float(values["popularity"]),
                float(values["bias"]),
                float(values["ridge"]),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"the stored link model is damaged ({error!r}): train it again.") from None


def fit_models(train: Described, chosen: list[int]) -> Iterator[LinkModel]:
    """Models with ever more of the chosen paths, with and without shapes, and with several ridges.

    They are fitted on hidden training links.

    Args:
        chosen: Columns of the path scores, in the order of the forward selection.
    """
    names = train.paths.names()
    for count in range(len(chosen) + 1):
        kept = chosen[:count]
        scores, ends = train.scores[:, kept], train.ends[:, kept]
        scales = scales_of(scores, ends)
        for values in (scores[:, :, None], shaped(scores, ends, scales))[: 1 + bool(count)]:
            x = np.concatenate([train.popularity[:, None], values.reshape(len(values), -1)], axis=1)
            for ridge in RIDGES:
                fit = fit_logistic(x, train.pairs.labels, ridge=ridge)
                yield LinkModel(
                    train.paths.relation,
                    tuple(train.paths.words[column] for column in kept),
                    tuple(names[column] for column in kept),
                    fit.weights[1:].reshape(count, values.shape[-1]),
                    scales,
                    float(fit.weights[0]),
                    fit.bias,
                    ridge,
                )
