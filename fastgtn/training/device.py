"""Where a model is trained."""

from typing import Literal

import torch

from fastgtn.errors import InputError
from fastgtn.training.team import Team

Device = Literal["auto", "cpu", "cuda", "mps"]


def chosen_device(name: str, team: Team) -> torch.device:
    """The device of a config; "auto" takes a CUDA device if torch sees one."""
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if has["cuda"] and team.size == 1 else "cpu")
    if not has[name]:
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
