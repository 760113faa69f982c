"""On which scale a number is learned."""

from __future__ import annotations

import torch

from fastgtn.config import FitOptions
from fastgtn.data import NodeTask
from fastgtn.data.number_unit import NumberScale
from fastgtn.errors import InputError


def number_scales(task: NodeTask, options: FitOptions) -> tuple[NumberScale, ...]:
    """The stated scale, or else those that the labels allow, of which trials may choose one; the usual one first."""
    if options.number_scale == "log" and options.number_loss == "huber":
        raise InputError(
            'fit.number_loss = "huber" belongs to a linear scale, but fit.number_scale is "log": leave one out.'
        )
    if options.number_scale == "log" and task.kind == "number":
        known = torch.cat([task.train.labels, task.val.labels])
        if bool((known < 0).any()) or not bool((task.train.labels.sum(0) > 0).all()):
            raise InputError(
                'fit.number_scale = "log" needs numbers that are not negative and not all zero; the smallest one is '
                f'{float(known.min()):g}: set fit.number_scale = "linear".'
            )
    if options.number_scale != "auto":
        return (options.number_scale,)
    return task.number_scales if options.number_loss == "mse" else ("linear",)
