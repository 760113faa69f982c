"""Errors of predicted numbers, in the unit of the user, and the share of the variance that is explained."""

import torch

from fastgtn.data.metrics.metric import Answers, Metric, Rows, register


def number_pairs(answers: Answers) -> Rows:
    """Predicted and true numbers side by side, [B, 2, outputs]: a variance from sums would lose its digits."""
    return Rows(torch.stack([answers.logits, answers.labels], 1).double())


def r2(pairs: Rows) -> float:
    r"""The mean over outputs of :math:`1 - \sum (y - \hat y)^2 / \sum (y - \bar y)^2`; 0 for a constant truth."""
    predicted, true = pairs.values.unbind(1)
    spread = (true - true.mean(0)).square().sum(0)
    error = (true - predicted).square().sum(0)
    return float(torch.where(spread > 0, 1 - error / spread.clamp(min=1e-300), 0.0).mean())


def mae(pairs: Rows) -> float:
    """The mean absolute error."""
    predicted, true = pairs.values.unbind(1)
    return float((predicted - true).abs().mean())


def rmse(pairs: Rows) -> float:
    """The root of the mean squared error."""
    predicted, true = pairs.values.unbind(1)
    return float((predicted - true).square().mean().sqrt())


R2 = register(Metric("r2", "R²", number_pairs, r2, kinds=("number",), main_of=("number",)))
MAE = register(Metric("mae", "MAE", number_pairs, mae, kinds=("number",), higher_is_better=False, is_fraction=False))
RMSE = register(
    Metric("rmse", "RMSE", number_pairs, rmse, kinds=("number",), higher_is_better=False, is_fraction=False)
)
