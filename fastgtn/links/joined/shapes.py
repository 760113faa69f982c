r"""How the strength of a joined path becomes a part of the log-odds.

A path adds :math:`f_P(u, i)`, a weighted sum of four shapes of its strength :math:`s = s_P(u, i)`: the strength itself,
its logarithm :math:`\log(1 + s / m)`, whether there is any way at all, and the logarithm of the strength without the
normalisation of its ends, :math:`\log(1 + s \sqrt{n_u n_i} / m')`, which grows with the number of ways. All of them
are 0 where :math:`s = 0`, so a path adds something only to the pairs that it joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fastgtn.links.edges import Array

SHAPES = ("strength", "logarithm", "presence", "count")


def scales_of(scores: Array, ends: Array) -> Array:
    """The mean strength of joined pairs, m, and the same without normalised ends, m', for each path: [paths, 2]."""
    joined = np.maximum((scores > 0).sum(0), 1)
    means = np.stack([scores.sum(0), (scores * ends).sum(0)], axis=1) / joined[:, None]
    return np.where(means > 0, means, 1.0)


def shaped(scores: Array, ends: Array, scales: Array) -> Array:
    """The four shapes of the strengths [pairs, paths], as [pairs, paths, 4]."""
    logarithm, count = np.log1p(scores / scales[:, 0]), np.log1p(scores * ends / scales[:, 1])
    return np.stack([scores, logarithm, (scores > 0).astype(scores.dtype), count], axis=-1)


@dataclass(frozen=True, eq=False)
class RowShapes:
    """The shapes of one path for some sources and the targets that it leads to: what models of all weights share.

    Args:
        strength: A sparse matrix [sources, targets].
        values: The shapes of its entries, [entries, 4].
    """

    strength: Any
    values: Array

    def weighed(self, weights: Array) -> Array:
        """What the path adds to the log-odds with one weight for the strength, or one per shape: [sources, targets]."""
        values = (self.values[:, : len(weights)] @ weights).astype(np.float32)
        strength = self.strength
        dense: Array = sp.csr_matrix((values, strength.indices, strength.indptr), strength.shape).toarray()
        return dense
