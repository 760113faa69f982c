r"""Leave-one-out ridge regression in closed form.

With the thin decomposition :math:`Z = U \sqrt{E} V^\top` of the centred features, the hat matrix of ridge λ is
:math:`H = \frac{1}{n} 11^\top + U \frac{E}{E + λ} U^\top`, and the residual of row i when it is left out of the fit is
:math:`r_i / (1 - h_{ii})`. H does not depend on the labels, so permuted labels cost one product each.

Permuted labels take most of the time of a screening. They and the labels that they are compared with are therefore
fitted by generalised cross-validation, which takes the mean of all :math:`h_{ii}` for each of them. The squares of
:math:`U^\top Y` are then all that it needs, for any number of ridges.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
RIDGES = (0.1, 1.0, 10.0)  # the trace of the kernel is scaled to n
ORDER_RIDGES = (0.1, 1.0, 10.0, 100.0)  # of permuted labels, where a further ridge costs nothing
_SMALLEST_LEVERAGE_GAP = 1e-6


class LeaveOneOut:
    """The regression of any labels on one feature matrix [n, m]; features are centred and scaled to trace n."""

    def __init__(self, features: Array) -> None:
        z = np.asarray(features, dtype=np.float64)
        self.num_rows = len(z)
        z = scaled(z)
        small, large = (z.T @ z, z) if z.shape[1] <= len(z) else (z @ z.T, None)
        values, vectors = np.linalg.eigh(small) if small.size else (np.zeros(0), np.zeros((0, 0)))
        kept = values > 1e-9 * max(float(values[-1]) if len(values) else 0.0, 1e-12)
        self.values = values[kept]
        self.directions = vectors[:, kept] if large is None else large @ vectors[:, kept] / np.sqrt(self.values)

    @property
    def nbytes(self) -> int:
        return int(self.directions.nbytes)

    @property
    def features(self) -> Array:
        """The centred and scaled features, rotated to their principal directions."""
        rotated: Array = self.directions * np.sqrt(self.values)
        return rotated

    def residuals(self, labels: Array, ridge: float) -> Array:
        """What is left of centred labels [n, C] at each row when that row does not take part in the fit."""
        directions = self.directions.astype(labels.dtype, copy=False)
        shrink = (self.values / (self.values + ridge)).astype(labels.dtype)
        with np.errstate(invalid="ignore"):  # the product of finite numbers can set this flag in padding that it skips
            gap = 1 - 1 / self.num_rows - (directions**2) @ shrink
            fitted = directions @ (shrink[:, None] * (directions.T @ labels))
        left: Array = (labels - fitted) / np.maximum(gap, _SMALLEST_LEVERAGE_GAP)[:, None]
        return left

    def r_squared(self, labels: Array, columns: int) -> Array:
        """R² of each group of `columns` columns of centred labels, each with the best of some ridges."""
        groups = labels.shape[1] // columns
        whole = _squares(total_residuals(labels), groups)
        if not len(self.values):
            return np.zeros(groups)
        left = [_squares(self.residuals(labels, ridge), groups) for ridge in RIDGES]
        best: Array = 1 - np.min(left, 0) / np.where(whole > 0, whole, 1.0)
        return best

    def r_squared_of_orders(self, orders: Array, columns: int) -> Array:
        """The same by generalised cross-validation, for the same centred labels in several orders of their rows."""
        groups = orders.shape[1] // columns
        whole = float((orders[:, :columns].astype(np.float64) ** 2).sum())
        if not len(self.values) or not whole:
            return np.zeros(groups)
        with np.errstate(invalid="ignore"):
            along = self.directions.T.astype(orders.dtype) @ orders
        explained = (along**2).reshape(len(along), groups, columns).sum(2, dtype=np.float64)  # [m, groups]
        shrink = self.values / (self.values + np.array(ORDER_RIDGES)[:, None])  # [ridges, m]
        left = whole - (2 * shrink - shrink**2) @ explained
        gap = np.maximum(1 - (1 + shrink.sum(1)) / self.num_rows, _SMALLEST_LEVERAGE_GAP)
        share = left / gap[:, None] ** 2 / (whole * (self.num_rows / max(self.num_rows - 1, 1)) ** 2)
        best: Array = 1 - share.min(0)
        return best

    def best_residuals(self, labels: Array) -> Array:
        """The residuals of the ridge that leaves least."""
        return min((self.residuals(labels, ridge) for ridge in RIDGES), key=lambda r: float((r**2).sum()))


def total_residuals(labels: Array) -> Array:
    """What is left of centred labels when each row is predicted by the mean of the others."""
    n = len(labels)
    return labels * (n / max(n - 1, 1))


def scaled(z: Array) -> Array:
    """Columns centred, and the whole scaled so that the kernel ZZᵀ has trace n; constant features become zero."""
    z = z - z.mean(0)
    trace = float((z**2).sum())
    size = float(np.abs(z).max(initial=0.0))
    return z * np.sqrt(len(z) / trace) if trace > 0 and size > 1e-12 else np.zeros_like(z)


def _squares(residuals: Array, groups: int) -> Array:
    summed: Array = (residuals**2).sum(0).reshape(groups, -1).sum(1)
    return summed
