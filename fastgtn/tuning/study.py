"""An Optuna study in an SQLite file, which several processes can share and which survives killed processes.

Each process locks its own file while it lives. A trial stores its process; the trial of a dead process returns to
the queue. Draws depend on the number of earlier draws that were not lost, so an interrupted search resumes as if it
had not been interrupted.
"""

import json
import math
import os
import re
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from fastgtn.config import toml
from fastgtn.data import metrics
from fastgtn.errors import InputError
from fastgtn.leftovers import sweep
from fastgtn.system import lock, open_own

DATABASE = "study.db"
RANDOM_TRIALS = 8  # number of random trials before the search uses their scores
# scores are reported in steps of ten epochs; a trial may be stopped from the third step on
REPORT_EVERY = 10
PRUNER = {"n_startup_trials": 5, "n_warmup_steps": 3 * REPORT_EVERY, "interval_steps": REPORT_EVERY}
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
REPEATS = "repeats"  # the number of the lost trial that a trial repeats
WORKER = re.compile(r"\.worker-[0-9a-f]{32}")  # the names come from a file that is not trusted


@dataclass(frozen=True, eq=False)
class SharedStudy:
    """The trials of one search. Open one with :func:`open_study`."""

    folder: Path
    study: optuna.Study
    space: dict[str, BaseDistribution]
    seed: int
    worker: str

    def ask(self, most: int) -> Trial | None:
        """The next trial, or None if `most` trials have ended or are running."""
        with locked(self.folder), warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._queue_lost_trials()
            drawn = sum(t.state in (*ENDED, TrialState.RUNNING) for t in self.trials())
            if drawn >= most:
                return None
            self.study.sampler = optuna.samplers.TPESampler(
                seed=int(np.random.SeedSequence([self.seed, drawn]).generate_state(1)[0]),
                n_startup_trials=RANDOM_TRIALS,
                multivariate=True,
                constant_liar=True,
            )
            trial = self.study.ask(self.space)
            trial.set_user_attr("worker", self.worker)
            return trial

    def tell(self, trial: Trial, state: TrialState, score: float | None = None, **facts: Any) -> None:
        """End a trial. Its facts are stored first, so that an ended trial is complete."""
        for key, value in facts.items():
            trial.set_user_attr(key, value)
        self.study.tell(trial, score, state)

    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def ended(self) -> list[FrozenTrial]:
        """The trials that ended: scored, stopped or diverged."""
        return [trial for trial in self.trials() if trial.state in ENDED]

    def best(self) -> FrozenTrial | None:
        """The best score; among equal ones the lowest validation loss, then the earliest."""
        scored = [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]
        sign = 1 if self.study.direction == StudyDirection.MAXIMIZE else -1
        return max(scored, key=lambda t: (sign * (t.value or 0), -t.user_attrs["val_loss"], -t.number), default=None)

    def seconds(self) -> float:
        """Time spent on all trials that are not running, in all processes."""
        return sum(trial.user_attrs.get("seconds", 0.0) for trial in self.trials())

    def _queue_lost_trials(self) -> None:
        """Put the trials of dead processes back into the queue, each once even if this is interrupted as well.

        A process may end while the values of a trial are being stored. What is left of them is not used: a queued
        trial keeps all its values, and other values are drawn again from the same seed.
        """
        queued = {trial.user_attrs.get(REPEATS) for trial in self.trials()}
        for trial in self.trials():
            if trial.state != TrialState.RUNNING or is_alive(self.folder, trial.user_attrs.get("worker")):
                continue
            values = trial.system_attrs.get("fixed_params") or trial.params
            if trial.number not in queued and set(values) == set(self.space):
                self.study.enqueue_trial(values, user_attrs={REPEATS: trial.number})
            self.study.tell(trial.number, state=TrialState.FAIL)


@contextmanager
def open_study(
    folder: Path, facts: Mapping[str, Any], space: dict[str, BaseDistribution], first: Mapping[str, Any], *, seed: int
) -> Iterator[SharedStudy]:
    """Start a search in a folder, or join the existing one if it has the same facts.

    Args:
        facts: The facts that all trials share, including the name of the "metric".
        first: The values of the first trial.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose another folder with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    worker = f".worker-{uuid.uuid4().hex}"
    with locked(folder):
        sweep(folder)
        for left in folder.glob(".worker-*"):
            is_alive(folder, left.name)  # delete the files of dead processes
        life = open_own(folder / worker, create=True)
        lock(life, wait=True)
    with os.fdopen(life):
        try:
            with locked(folder):
                study = _study(folder, metrics.is_higher_better(facts["metric"]))
                _require_same(study, facts, folder)
                if not study.get_trials(deepcopy=False):
                    study.enqueue_trial(dict(first))
            yield SharedStudy(folder, study, space, seed, worker)
        except (SQLAlchemyError, StorageInternalError) as error:
            raise InputError(
                f"{folder / DATABASE} cannot be read or written ({_line(error)}): free some space or repair the "
                "folder, then run the same command again. Finished trials are kept."
            ) from None
        finally:
            (folder / worker).unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A lock that one process holds while it assigns trials and writes files."""
    descriptor = open_own(folder / ".lock", create=True)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def is_alive(folder: Path, worker: object) -> bool:
    """Whether the process of a trial still holds its lock. The file of a dead process is deleted."""
    if not isinstance(worker, str) or not WORKER.fullmatch(worker):  # the process ended before it could record its name
        return False
    try:
        descriptor = open_own(folder / worker, create=False)
    except (OSError, InputError):
        return False
    try:
        if not lock(descriptor, wait=False):
            return True
    finally:
        os.close(descriptor)
    (folder / worker).unlink(missing_ok=True)
    return False


def _study(folder: Path, higher_is_better: bool) -> optuna.Study:
    path = folder / DATABASE
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{path} is a link or not a regular file, so it is not opened: choose another --out.")
    try:
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{path.resolve()}", engine_kwargs={"connect_args": {"timeout": 120}}
        )
        study = optuna.create_study(
            study_name="fastgtn",
            storage=storage,
            direction="maximize" if higher_is_better else "minimize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(**PRUNER),
        )
        _check_trials(study)
    except Exception as error:  # what SQLAlchemy and Optuna raise for a damaged file has no common base
        raise InputError(f"{path} cannot be opened as a search ({_line(error)}): choose another --out.") from None
    return study


def _check_trials(study: optuna.Study) -> None:
    """Read everything once, and require of ended trials what the search will ask of them."""
    dict(study.user_attrs)
    if len(study.directions) != 1:
        raise ValueError(f"it has {len(study.directions)} directions instead of one")
    trials = study.get_trials(deepcopy=False)
    if [trial.number for trial in trials] != list(range(len(trials))):
        raise ValueError("its trials are not numbered from zero")
    for trial in trials:
        facts = trial.user_attrs
        if not isinstance(facts.get("seconds", 0.0), int | float):
            raise TypeError(f"the time of trial {trial.number} is not a number")
        if not isinstance(trial.system_attrs.get("fixed_params", {}), dict):
            raise TypeError(f"the queued values of trial {trial.number} are not a table")
        if trial.state == TrialState.PRUNED and not isinstance(facts.get("reason"), str):
            raise TypeError(f"trial {trial.number} was stopped without a reason")
        if trial.state != TrialState.COMPLETE:
            continue
        numbers = [trial.value, facts.get("val_loss"), *(facts.get("epochs") or [None])]
        if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
            raise TypeError(f"trial {trial.number} has no finite score, loss or epoch")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _require_same(study: optuna.Study, facts: Mapping[str, Any], folder: Path) -> None:
    given = json.loads(json.dumps(facts))
    stored = {key: value for key, value in study.user_attrs.items() if key in given}
    before, now = toml.flat(stored), toml.flat({key: value for key, value in given.items() if key in stored})
    changed = [key for key in now if before.get(key) != now[key]]
    if changed:
        listed = ", ".join(f"{key} was {_short(before.get(key))}, now {_short(now[key])}" for key in changed)
        raise InputError(f"{folder} contains a different search ({listed}): choose another --out.")
    for key, value in given.items():
        if key not in stored:
            study.set_user_attr(key, value)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
