"""Move planned graphs to another device: every tensor in a plan, at any depth."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from fastgtn.nn.inputs.features import Features
from fastgtn.relations.operator import Operator

Held = TypeVar("Held")


def moved(value: Held, device: torch.device, *, pin: bool = False) -> Held:
    """The same value with all its tensors on a device; what appears twice in it is copied once.

    Args:
        pin: Copy through page-locked memory, so that a GPU fetches a batch while the processor continues.
    """
    found: Held = _moved(value, device, pin, {})
    return found


def _moved(value: Any, device: torch.device, pin: bool, seen: dict[int, Any]) -> Any:
    if id(value) not in seen:
        seen[id(value)] = _copied(value, device, pin, seen)
    return seen[id(value)]


def _copied(value: Any, device: torch.device, pin: bool, seen: dict[int, Any]) -> Any:
    if isinstance(value, Tensor):
        return value.pin_memory().to(device, non_blocking=True) if pin else value.to(device)
    if isinstance(value, Operator | Features):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(item, device, pin, seen) for key, item in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(_moved(item, device, pin, seen) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return replace(value, **{name: _moved(item, device, pin, seen) for name, item in held.items()})
    return value
