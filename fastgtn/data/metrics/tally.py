"""The counts of all metrics of a task, over any number of blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastgtn.data.metrics.metric import Answers, Kind, Metric, metrics_of


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts that the metrics need. The tallies of blocks add up to the tally of all rows.

    ``Tally(kind)`` is the tally of no rows.
    """

    kind: Kind
    rows: int = 0
    counts: dict[Callable[[Answers], Any], Any] = field(default_factory=dict)

    @staticmethod
    def of(answers: Answers, *, each_epoch: str | None = None) -> Tally:
        """Count one block; each function runs once, however many metrics share it.

        Args:
            each_epoch: Leave out what only costly metrics need, but for the metric with this name.
        """
        functions = {metric.count for metric in _wanted(answers.kind, each_epoch)}
        return Tally(answers.kind, len(answers.labels), {count: count(answers) for count in functions})

    def __add__(self, other: Tally) -> Tally:
        if not (self.counts and other.counts):
            return self if self.counts else other
        counts = {count: part + other.counts[count] for count, part in self.counts.items()}
        return Tally(self.kind, self.rows + other.rows, counts)

    def scores(self, *, each_epoch: str | None = None) -> dict[str, float]:
        """The value of every metric that the kind of task has.

        Args:
            each_epoch: Leave the costly ones out, but for the one with this name.
        """
        return {m.name: m.score(self.counts[m.count]) for m in _wanted(self.kind, each_epoch)}


def _wanted(kind: Kind, each_epoch: str | None) -> list[Metric]:
    metrics = metrics_of(kind)
    return metrics if each_epoch is None else [m for m in metrics if not m.is_costly or m.name == each_epoch]
