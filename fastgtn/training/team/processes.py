"""Several processes that train one model together, started by torchrun."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn

from fastgtn.errors import InputError
from fastgtn.nn.classifier import Predictor
from fastgtn.relations import derived_seed
from fastgtn.training.team import exchange

T = TypeVar("T")
PATIENCE = timedelta(hours=12)  # rank 0 predicts alone while the other processes wait for the next seed


@dataclass(frozen=True)
class Team:
    """The processes of a training, each with its part of the targets; this one is number `rank` of `size`.

    This class is a team of one; :class:`Processes` is one of several.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is rank 0, which writes files and prints."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """The items of this process; the parts differ by at most one item."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def sum(self, value: float) -> float:
        """The sum of every process's value."""
        return value

    def gather(self, value: T) -> list[T]:
        """Every process's value, in the order of the processes."""
        return [value]

    def tell(self, make: Callable[[], T]) -> T:
        """The value that rank 0 computes, in all processes; an InputError of rank 0 is raised in all of them."""
        return make()

    def reseed(self, seed: int, epoch: int) -> None:
        """Give each process different random numbers in each epoch, so that a checkpoint need not store them."""

    def parallel(self, model: Predictor) -> nn.Module:
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
        return [exchange.decode(data) for data in exchange.gathered(exchange.encode(value), self.size)]

    def tell(self, make: Callable[[], T]) -> T:
        if not self.leads:
            answer = exchange.decode(exchange.broadcast(b""))
            if "mistake" in answer:
                raise InputError(answer["mistake"])
            return answer["value"]
        try:
            value = make()
        except InputError as error:
            exchange.broadcast(exchange.encode({"mistake": str(error)}))
            raise
        exchange.broadcast(exchange.encode({"value": value}))
        return value

    def reseed(self, seed: int, epoch: int) -> None:
        torch.manual_seed(derived_seed(seed, epoch, self.rank) & 0x7FFFFFFFFFFFFFFF)

    def parallel(self, model: Predictor) -> nn.Module:
        # a batch may lack a node type that has weights: weights that no process has used must not change,
        # as in one process; looking for them costs time, and gives a warning if there are none
        may_skip = model.backbone.may_skip_weights
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=may_skip)


@contextmanager
def joined() -> Iterator[Team]:
    """The team that torchrun has started, according to its environment variables; otherwise a team of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    if may_restart() and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and os.environ.get("RANK") == "0":
        warnings.warn(
            "after a worker is killed, torchrun may wait forever unless TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 is "
            "set in the environment of torchrun.",
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
    """Whether torchrun restarts the processes if one of them ends early."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def is_restarted() -> bool:
    """Whether an earlier attempt of the same torchrun has failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
