"""One metric: its name, its title, its direction, and how the counts of several blocks of rows add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fastgtn.data.number_unit import plain_number
from fastgtn.errors import InputError, nearest

Kind = Literal["single", "multi", "ranking", "number"]
KINDS: tuple[Kind, ...] = ("single", "multi", "ranking")  # those that predict classes


@dataclass(frozen=True, eq=False)
class Answers:
    """The predictions for some nodes beside their labels.

    Args:
        logits: What the model computed, [B, num_classes]; for tasks of kind "number" the numbers themselves.
        chosen: The predicted class, int64 [B]; for tasks of kind "multi" the predicted set, bool [B, num_classes].
        labels: The truth, in the form of `chosen`.
        positive: Of two classes, the one that is asked for: the rarer one among the training nodes.
    """

    kind: Kind
    logits: Tensor
    chosen: Tensor
    labels: Tensor
    positive: int = 1

    @property
    def num_classes(self) -> int:
        return self.logits.size(1)


@dataclass(frozen=True, eq=False)
class Rows:
    """A number, or several, for each row. Blocks of rows are joined; use it where sums are not enough."""

    values: Tensor

    def __add__(self, other: Rows) -> Rows:
        return Rows(torch.cat([self.values, other.values]))


@dataclass(frozen=True)
class Metric:
    """One entry: everything that the rest of the library knows about a metric.

    Args:
        name: The key in results, histories and `fit.select_by`.
        title: The displayed name.
        count: Computes what the metric needs from a block of rows. The counts of two blocks, from batches or from
            processes, are added with ``+``: a tensor of sums, :class:`Rows`, or any class with ``__add__``. Metrics
            that share this function share its result. A function at the top of a module can travel between processes.
        score: From the counts of all rows to a fraction between 0 and 1, or to a number in the user's unit.
        kinds: The kinds of tasks that have this metric; by default all that predict classes.
        main_of: The kinds of tasks whose epochs and configs are chosen by it by default.
        higher_is_better: The direction.
        headline_of: The kinds of tasks whose short summaries show it; by default all that have it.
        is_costly: Whether it is left out of the scores of every epoch, unless epochs are chosen by it.
        is_fraction: Whether people see it in points (a hundredth each), or as it is.
    """

    name: str
    title: str
    count: Callable[[Answers], Any]
    score: Callable[[Any], float]
    kinds: tuple[Kind, ...] = KINDS
    main_of: tuple[Kind, ...] = ()
    higher_is_better: bool = True
    headline_of: tuple[Kind, ...] | None = None
    is_fraction: bool = True
    is_costly: bool = False

    def goodness(self, value: float) -> float:
        """The value with the sign that makes larger numbers better."""
        return value if self.higher_is_better else -value

    def shown(self, value: float) -> str:
        """The value for people: points with two decimals, or four digits of a number with a unit."""
        return f"{100 * value:.2f}" if self.is_fraction else plain_number(value)

    def is_shown_with(self, main: Metric) -> bool:
        """Whether short summaries of tasks with this main metric show it."""
        return any(kind in main.main_of for kind in (self.kinds if self.headline_of is None else self.headline_of))


_METRICS: dict[str, Metric] = {}
_TITLES: dict[str, str] = {}  # of scores that are no metrics of nodes


def register(metric: Metric) -> Metric:
    """Register a metric for training, tuning, evaluation, reports and benchmarks."""
    if metric.name in (*_METRICS, "auto", "loss", "last"):
        raise InputError(f'a metric "{metric.name}" already exists: choose another name.')
    _METRICS[metric.name] = metric
    return metric


def registered() -> dict[str, Metric]:
    """All metrics by name, in the order in which they are shown."""
    return dict(_METRICS)


def metrics_of(kind: Kind) -> list[Metric]:
    """The metrics that tasks of this kind have."""
    return [metric for metric in _METRICS.values() if kind in metric.kinds]


def main_metric(names: Iterable[str]) -> Metric | None:
    """The metric by which epochs are chosen by default, among those that a result has; None if it has none.

    A metric that few kinds of tasks have identifies the kind: a result with NDCG belongs to a ranking task.
    """
    known = set(names)
    found = [metric for metric in _METRICS.values() if metric.main_of and metric.name in known]
    return min(found, key=lambda metric: len(metric.kinds), default=None)


def headline(names: Iterable[str], *, first: str | None = None) -> list[str]:
    """The metrics of a result that a short summary shows, the main one first; all of them if it has no main one.

    Args:
        first: The metric by which the epoch was chosen, if that is another one.
    """
    known = list(names)
    main = main_metric(known)
    if main is None:
        return known
    rest = [m.name for m in _METRICS.values() if m.name in known and m.is_shown_with(main)]
    shown_first = [first] if first in known else []
    return list(dict.fromkeys([*shown_first, main.name, *rest]))


def named(name: str) -> Metric:
    """The metric with this name."""
    if name not in _METRICS:
        raise InputError(f'no metric "{name}"; {nearest(name, _METRICS)}')
    return _METRICS[name]


def shown(name: str, value: float) -> str:
    """A value of a metric for people; in points where the name is not a metric."""
    return _METRICS[name].shown(value) if name in _METRICS else f"{100 * value:.2f}"


def title_of(name: str) -> str:
    """The title of a metric; the name itself where it is not a metric, such as "loss"."""
    return _METRICS[name].title if name in _METRICS else _TITLES.get(name, name)


def entitle(titles: Mapping[str, str]) -> None:
    """Give titles to scores that are computed elsewhere, such as those of ranked links."""
    _TITLES.update(titles)


def is_fraction(name: str) -> bool:
    """Whether values lie between 0 and 1; so do those of metrics that are not of nodes."""
    return name not in _METRICS or _METRICS[name].is_fraction


def is_higher_better(name: str) -> bool:
    """Whether more is better, as it is of every metric that is not of nodes."""
    return name not in _METRICS or _METRICS[name].higher_is_better
