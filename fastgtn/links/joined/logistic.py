"""Logistic regression with a ridge, by Newton's method: few features, many pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastgtn.links.edges import Array

STEPS = 30


@dataclass(frozen=True, eq=False)
class Logistic:
    """Weights of the features as they come, and a constant."""

    weights: Array
    bias: float

    def logits(self, x: Array) -> Array:
        """The log-odds of a link for each row of features."""
        value: Array = x @ self.weights + self.bias
        return value

    def log_likelihood(self, x: Array, labels: Array) -> float:
        """Of all pairs together; 0 is a perfect prediction."""
        z = self.logits(x)
        return float(-np.logaddexp(0, np.where(labels > 0, -z, z)).sum())


def fit_logistic(x: Array, labels: Array, *, ridge: float = 1e-3) -> Logistic:
    """Fit log-odds that are linear in the features.

    Args:
        ridge: Penalty on the squared weights of standardised features, relative to the number of pairs.
    """
    n, count = x.shape
    scale = x.std(0)
    scale = np.where(scale > 1e-300, scale, 1.0)
    z = np.concatenate([x / scale, np.ones((n, 1))], axis=1)
    penalty = np.append(np.full(count, ridge * n), 0.0)
    share = np.clip(labels.mean(), 1e-6, 1 - 1e-6)
    w = np.append(np.zeros(count), np.log(share / (1 - share)))
    best = _objective(z, labels, w, penalty)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -500, 500)))
        gradient = z.T @ (labels - p) - penalty * w
        curvature = (z * (p * (1 - p))[:, None]).T @ z + np.diag(penalty + 1e-9 * n)
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while size > 1e-4 and (now := _objective(z, labels, w + size * step, penalty)) < best:
            size /= 2  # a full step may overshoot where classes are almost separated
        w = w + size * step
        if now - best < 1e-9 * n:
            break
        best = now
    return Logistic(w[:-1] / scale, float(w[-1]))


def _objective(z: Array, labels: Array, w: Array, penalty: Array) -> float:
    margin = z @ w
    return float(-np.logaddexp(0, np.where(labels > 0, -margin, margin)).sum() - (penalty * w**2).sum() / 2)
