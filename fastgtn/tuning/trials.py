"""The trials of a search, whatever is trained: its limits, its clock, and what one trial records."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from fastgtn.errors import InputError
from fastgtn.options import Values
from fastgtn.tuning.output import summary, write_files
from fastgtn.tuning.space import drawn
from fastgtn.tuning.study import REPORT_EVERY, SharedStudy, locked, open_study

AfterEpoch = Callable[[int, float], None]  # is called with the epoch and the best score so far


@dataclass(frozen=True)
class Budget:
    """The limits of a search: it ends after this many trials or minutes of training."""

    trials: int = 50
    minutes: float | None = None
    seeds_per_trial: int = 1

    def __post_init__(self) -> None:
        for name, value in (("trials", self.trials), ("seeds-per-trial", self.seeds_per_trial)):
            if value < 1:
                raise InputError(f"--{name} is {value}; it must be at least 1.")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"--minutes is {self.minutes}; it must be more than 0.")


class TuneListener:
    """Receives the events of a search. This base class ignores them."""

    def started(self, ended: int, best: FrozenTrial | None) -> None: ...

    def trial_done(self, trial: FrozenTrial, ended: int, best: FrozenTrial | None) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """One training of a trial: the chosen epoch, its validation score and its validation loss."""

    epoch: int
    score: float
    val_loss: float


@dataclass(frozen=True, eq=False)
class Trials:
    """What is searched, and how one config is trained.

    Args:
        facts: The facts that all trials share, including the name of the "metric".
        space: The keys that are searched, and their ranges.
        first: The values of the first trial.
        seed: The first seed of every trial, and the seed of the search.
        train: Trains the nested values of a trial with a seed.
        best_file: The text of `best.toml`.
    """

    facts: Mapping[str, Any]
    space: dict[str, BaseDistribution]
    first: Mapping[str, Any]
    seed: int
    train: Callable[[Values, int, AfterEpoch], Outcome]
    best_file: Callable[[SharedStudy], str]

    def search(self, out: Path, budget: Budget, listener: TuneListener) -> dict[str, Any]:
        """Run trials until the budget is spent, or resume the search in a folder. Several processes may share it."""
        if not self.space:
            raise InputError("all searchable keys are set with --set: leave some of them free.")
        with open_study(out, self.facts, self.space, self.first, seed=self.seed) as study:
            listener.started(len(study.ended()), study.best())
            while time_left(study, budget) > 0 and (trial := study.ask(budget.trials)) is not None:
                self._run(trial, study, budget)
                with locked(study.folder):
                    write_files(study, self.best_file, self.facts)
                done = study.trials()[trial.number]
                listener.trial_done(done, len(study.ended()), study.best())
            with locked(study.folder):
                write_files(study, self.best_file, self.facts, plot=True)
            if study.best() is None:
                reasons = [trial.user_attrs["reason"] for trial in study.ended()]
                last = reasons[-1]
                raise InputError(f"none of the {len(reasons)} trials finished; the reason of the last one: {last}")
            return summary(study, self.facts)

    def _run(self, trial: Trial, study: SharedStudy, budget: Budget) -> None:
        """Train one config with every seed, and record the outcome."""
        watch = StopWatch()
        left = time_left(study, budget)
        found: list[Outcome] = []
        try:
            for seed in range(self.seed, self.seed + budget.seeds_per_trial):
                judge = _judge(trial if not found else None, watch, left)
                found.append(self.train(drawn(trial.params), seed, judge))
        except TimeoutError:
            study.tell(trial, TrialState.FAIL, reason="out of time", seconds=watch.seconds())
            return
        except (_Stopped, InputError) as error:  # a diverged training is also an InputError
            study.tell(trial, TrialState.PRUNED, reason=str(error), seconds=watch.seconds())
            return
        study.tell(
            trial,
            TrialState.COMPLETE,
            statistics.fmean(one.score for one in found),
            epochs=[one.epoch for one in found],
            val_loss=statistics.fmean(one.val_loss for one in found),
            seconds=watch.seconds(),
        )


class StopWatch:
    """Elapsed time without the time that a busy machine gave to other processes, for equal budgets."""

    def __init__(self) -> None:
        self.clock, self.processor = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """The processor time per thread, which cannot exceed the elapsed time."""
        return min(time.perf_counter() - self.clock, time.process_time() - self.processor)


def time_left(study: SharedStudy, budget: Budget) -> float:
    """The remaining seconds; unlimited without a time limit and before the first result."""
    if budget.minutes is None or study.best() is None:
        return float("inf")
    return 60 * budget.minutes - study.seconds()


class _Stopped(Exception):
    """A trial was stopped for the reason in its message."""


def _judge(trial: Trial | None, watch: StopWatch, left: float) -> AfterEpoch:
    """A function that stops a training that is out of time, or below the median of earlier trials."""

    def after_epoch(epoch: int, score: float) -> None:
        if watch.seconds() > left:
            raise TimeoutError
        if trial is None or epoch % REPORT_EVERY:
            return
        trial.report(score, epoch)
        if trial.should_prune():
            raise _Stopped(f"below the median of the trials before it after {epoch} epochs")

    return after_epoch
