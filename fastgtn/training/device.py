"""Where a model is trained."""

from typing import Literal

import torch

from fastgtn.errors import InputError
from fastgtn.training.team import Team

Device = Literal["auto", "cpu", "cuda", "mps"]


def chosen_device(name: str, team: Team) -> torch.device:
    """The device of a config; "auto" takes a CUDA device if torch sees one."""
    if name == "auto":
        return torch.device("cuda" if _has("cuda") and team.size == 1 else "cpu")
    if not _has(name):
        raise InputError(
            f'fit.device = "{name}", but this torch ({torch.__version__}) finds no such device: use "cpu" or "auto", '
            f"or install a torch that was built for it (https://pytorch.org)."
        )
    if name != "cpu" and team.size > 1:
        raise InputError(
            f'fit.device = "{name}", but {team.size} processes train together, which works only on the CPU: '
            'set fit.device = "cpu".'
        )
    return torch.device(name)


def device_here(name: Device) -> Device:
    """The device of a run's config, or "auto" on a machine without it."""
    return name if name == "auto" or _has(name) else "auto"


def _has(name: str) -> bool:
    if name == "cuda":
        return torch.cuda.is_available()
    return name == "cpu" or torch.backends.mps.is_available()
