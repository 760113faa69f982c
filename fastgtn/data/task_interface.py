"""The interface between training and a task, which node tasks and link tasks implement."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Protocol

from torch import Tensor


class Task(Protocol):
    """A loss, scores whose counts add up over batches and processes, and the split that chooses.

    The labels of the test split are not part of it: one method of each task scores them, once. A task whose labels are
    edges of the graph also says which edges must be hidden, see :class:`fastgtn.links.LinkTask`.
    """

    @property
    def val(self) -> Sized:
        """The split that chooses an epoch or a config."""

    @property
    def selection_metric(self) -> str:
        """The validation metric that chooses."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of some rows."""

    def loss_weight(self, labels: Tensor) -> float:
        """The weight of these rows in a mean over several groups of rows."""

    def tally(self, logits: Tensor, labels: Tensor, *, each_epoch: str | None = None) -> Any:
        """The counts that the metrics need of some rows. Tallies have `rows`, can be added, and have `scores()`.

        Args:
            each_epoch: Leave out what only costly metrics need, but for the metric with this name.
        """
