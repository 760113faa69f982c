"""The closed form of leave-one-out ridge regression equals refitting without each row."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fastgtn.screening.regression import ORDER_RIDGES, RIDGES, LeaveOneOut, scaled

Array = NDArray[np.float64]


def refitted(z: Array, y: Array, ridge: float) -> Array:
    """Residuals of every row from a ridge regression with intercept on all other rows."""
    left = np.empty_like(y)
    for i in range(len(z)):
        others = np.arange(len(z)) != i
        x, mean = np.column_stack([z[others], np.ones(len(z) - 1)]), np.diag([ridge] * z.shape[1] + [0.0])
        weights = np.linalg.solve(x.T @ x + mean, x.T @ y[others])
        left[i] = y[i] - np.append(z[i], 1.0) @ weights
    return left


@pytest.mark.parametrize("shape", [(12, 3), (9, 20), (15, 15)])
@pytest.mark.parametrize("ridge", RIDGES)
def test_residuals_equal_those_of_refitting_without_each_row(shape: tuple[int, int], ridge: float) -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=shape) + 3, rng.normal(size=(shape[0], 2))
    y -= y.mean(0)
    np.testing.assert_allclose(LeaveOneOut(z).residuals(y, ridge), refitted(scaled(z), y, ridge), atol=1e-9)


def test_r_squared_is_that_of_the_best_ridge() -> None:
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(20, 4)), rng.normal(size=(20, 3))
    y -= y.mean(0)
    baseline = ((y * 20 / 19) ** 2).sum()
    expected = max(1 - (refitted(scaled(z), y, ridge) ** 2).sum() / baseline for ridge in RIDGES)
    assert LeaveOneOut(z).r_squared(y, 3) == pytest.approx([expected])


def test_groups_of_columns_are_fitted_apart() -> None:
    rng = np.random.default_rng(2)
    fit, y = LeaveOneOut(rng.normal(size=(20, 4))), rng.normal(size=(20, 6))
    y -= y.mean(0)
    apart = [fit.r_squared(y[:, 2 * n : 2 * n + 2], 2)[0] for n in range(3)]
    np.testing.assert_allclose(fit.r_squared(y, 2), apart)


def test_the_scale_of_features_and_constant_columns_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(20, 4)), rng.normal(size=(20, 2))
    y -= y.mean(0)
    wide = np.column_stack([1e6 * z, np.full(20, 7.0)])
    np.testing.assert_allclose(LeaveOneOut(wide).r_squared(y, 2), LeaveOneOut(z).r_squared(y, 2), atol=1e-9)
    assert LeaveOneOut(np.ones((20, 3))).r_squared(y, 2) == pytest.approx([0.0])
    assert LeaveOneOut(np.ones((20, 0))).r_squared(y, 2) == pytest.approx([0.0])


def generalised(z: Array, y: Array, ridge: float) -> float:
    """R² by generalised cross-validation, from the dense hat matrix."""
    n = len(z)
    hat = np.full((n, n), 1 / n) + z @ np.linalg.solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T)
    left = ((y - hat @ y) ** 2).sum() / (1 - np.trace(hat) / n) ** 2
    return float(1 - left / ((y * n / (n - 1)) ** 2).sum())


@pytest.mark.parametrize("shape", [(12, 3), (30, 50)])
def test_orders_of_the_labels_are_fitted_by_generalised_cross_validation(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(4)
    z, y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
    y -= y.mean(0)
    orders = [y, y[rng.permutation(len(y))], y[::-1]]
    expected = [max(generalised(scaled(z), order, ridge) for ridge in ORDER_RIDGES) for order in orders]
    found = LeaveOneOut(z).r_squared_of_orders(np.concatenate(orders, axis=1), 2)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_constant_features_and_constant_labels_explain_nothing() -> None:
    y = np.arange(20.0)[:, None] - 9.5
    assert LeaveOneOut(np.ones((20, 3))).r_squared_of_orders(np.tile(y, 3), 1) == pytest.approx([0.0] * 3)
    assert LeaveOneOut(y).r_squared_of_orders(np.zeros((20, 2)), 1) == pytest.approx([0.0] * 2)
