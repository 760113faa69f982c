"""Several processes that train one model together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """The processes of a training, each with its part of the targets; this one is number `rank` of `size`."""

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
        """What the first process makes, in all of them."""
        return make()

    def reseed(self, seed: int, epoch: int) -> None:
        """Give each process its own random numbers in each epoch, so that a checkpoint need not hold them."""

    def parallel(self, model: nn.Module) -> nn.Module:
        """The model, with gradients that are the mean over all processes."""
        return model


ALONE = Team()
