"""Why one node of a result got its prediction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from fastgtn.errors import InputError, nearest
from fastgtn.explain import Reasons, explain_node

if TYPE_CHECKING:
    from fastgtn.runs.result import Result


def reasons_of(result: Result, node: int | str, *, of_class: str | None, top: int, instances: int) -> Reasons:
    """What meta-paths, the node itself and the biases add to a logit: that of a class, or of the predicted one."""
    schema, there = result.schema, result.own
    names = schema.class_names
    if of_class is not None and of_class not in names:
        raise InputError(f'no class "{of_class}"; {nearest(of_class, names)}')
    number = there.names.number(node) if isinstance(node, str) else node
    inputs = there.inputs.seen_by_one(there.inputs.raw.nodes_of(schema.target).start + number)
    explain = partial(
        explain_node,
        there.model,
        inputs.stack,
        inputs.features,
        schema.target,
        number,
        top=top,
        instances=instances,
    )
    reasons = explain(class_number=None if of_class is None else names.index(of_class))
    if of_class is None and schema.decision is not None:  # the predicted class need not be the likelier one
        predicted = int(schema.chosen(schema.probabilities(torch.tensor([reasons.logits]))))
        reasons = reasons if predicted == reasons.class_number else explain(class_number=predicted)
    return reasons
