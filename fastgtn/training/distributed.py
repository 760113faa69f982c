"""Several processes that train one model together, started by torchrun."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from fastgtn.errors import InputError
from fastgtn.models import MetaPathModel, NodeClassifier
from fastgtn.models.baselines import MLP
from fastgtn.relations import derived_seed

T = TypeVar("T")
PATIENCE = timedelta(hours=12)  # the first process predicts alone while the others wait for the next seed


@dataclass(frozen=True)
class Team:
    """The processes of a training, each with its part of the targets; this one is number `rank` of `size`.

    This class is a team of one; :class:`Processes` is one of several.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """This process's part of so many items: parts differ by at most one."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def sum(self, value: float) -> float:
        """The sum of every process's value."""
        return value

    def gather(self, value: T) -> list[T]:
        """Every process's value, in the order of the processes."""
        return [value]

    def tell(self, make: Callable[[], T]) -> T:
        """What the first process makes, in all of them; a user's mistake that it finds is raised in all of them."""
        return make()

    def reseed(self, seed: int, epoch: int) -> None:
        """Give each process its own random numbers in each epoch, so that a checkpoint need not hold them."""

    def parallel(self, model: NodeClassifier) -> nn.Module:
        """The model, with gradients that are the mean over all processes."""
        return model


ALONE = Team()


class Processes(Team):
    """A team of several processes over `torch.distributed`."""

    def sum(self, value: float) -> float:
        total = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(total)
        return float(total)

    def gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def tell(self, make: Callable[[], T]) -> T:
        told: list[Any] = [None, None]
        if self.leads:
            try:
                told[0] = make()
            except InputError as error:
                told[1] = error
        dist.broadcast_object_list(told)
        if told[1] is not None:
            raise told[1]
        return told[0]

    def reseed(self, seed: int, epoch: int) -> None:
        torch.manual_seed(derived_seed(seed, epoch, self.rank) & 0x7FFFFFFFFFFFFFFF)

    def parallel(self, model: NodeClassifier) -> nn.Module:
        # models with weights of each type may meet a batch without it: what no process has used must be left alone,
        # as one process would; looking for it costs time, and a warning where nothing is found
        may_skip = not isinstance(model.backbone, MetaPathModel | MLP)
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=may_skip)


@contextmanager
def joined() -> Iterator[Team]:
    """The team that torchrun has started, as its environment variables say; otherwise a team of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    if may_restart() and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and os.environ.get("RANK") == "0":
        warnings.warn(
            "after a worker was killed, torchrun may wait for ever unless TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 is "
            "set where torchrun is started.",
            stacklevel=2,
        )
    dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()


def is_launched() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def may_restart() -> bool:
    """Whether torchrun starts the processes anew when one of them ends early."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def is_restarted() -> bool:
    """Whether an earlier try of the same torchrun has ended early."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
