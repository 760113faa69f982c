"""On which scale a number is learned."""

from __future__ import annotations

from dataclasses import replace

import torch

from fastgtn.config import FitOptions
from fastgtn.data import NodeTask, Split
from fastgtn.data.number_unit import NumberScale, stable_numbers, usual_scales
from fastgtn.errors import InputError


def number_scales(task: NodeTask, options: FitOptions) -> tuple[NumberScale, ...]:
    """The stated scale, or else those that the labels allow, of which trials may choose one; the usual one first."""
    if options.number_scale == "log" and options.number_loss == "huber":
        raise InputError(
            'fit.number_loss = "huber" belongs to a linear scale, but fit.number_scale is "log": leave one out.'
        )
    if task.kind != "number":
        return ("linear",)
    known = torch.cat([task.train.labels, task.val.labels])
    allows_log = bool((known >= 0).all()) and bool((task.train.labels.sum(0) > 0).all())
    if options.number_scale == "log" and not allows_log:
        raise InputError(
            'fit.number_scale = "log" needs numbers that are not negative and not all zero; the smallest one is '
            f'{float(known.min()):g}: set fit.number_scale = "linear".'
        )
    if options.number_scale != "auto":
        return (options.number_scale,)
    return usual_scales(known) if allows_log and options.number_loss == "mse" else ("linear",)


def with_stable_numbers(task: NodeTask, options: FitOptions) -> NodeTask:
    """The same task with training labels that a least-squares regression can read, where the scale is logarithmic."""
    if number_scales(task, options)[0] == "linear":
        return task
    return replace(task, train=Split(task.train.nodes, stable_numbers(task.train.labels)))
