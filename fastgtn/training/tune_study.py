"""A search that several processes share and that survives their deaths: an Optuna study in a SQLite file.

A process holds the lock of a file of its own as long as it lives, however it ends. A trial knows its process; one
that is running in a process that is gone goes back into the queue. Trials are drawn by the number of those that were
drawn before and not lost, so a search that was broken off goes on as if it had not been.
"""

import fcntl
import json
import os
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
from optuna.trial import FrozenTrial, Trial, TrialState

from fastgtn.errors import InputError
from fastgtn.training import toml

DATABASE = "study.db"
RANDOM_TRIALS = 8  # so many before the search begins to learn from them
# scores are reported in steps of ten epochs; a trial may be given up from the third of them on
REPORT_EVERY = 10
PRUNER = {"n_startup_trials": 5, "n_warmup_steps": 3 * REPORT_EVERY, "interval_steps": REPORT_EVERY}
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass(frozen=True, eq=False)
class SharedStudy:
    """The trials of one search. Open one with :func:`open_study`."""

    folder: Path
    study: optuna.Study
    space: dict[str, BaseDistribution]
    seed: int
    worker: str

    def ask(self, most: int) -> Trial | None:
        """The next trial; None when `most` have ended or are being run."""
        with locked(self.folder), warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._queue_lost_trials()
            drawn = sum(t.state in (*ENDED, TrialState.RUNNING) for t in self.trials())
            if drawn >= most:
                return None
            self.study.sampler = optuna.samplers.TPESampler(
                seed=int(np.random.SeedSequence([self.seed, drawn]).generate_state(1)[0]),
                n_startup_trials=RANDOM_TRIALS, multivariate=True, constant_liar=True,
            )  # fmt: skip
            trial = self.study.ask(self.space)
            trial.set_user_attr("worker", self.worker)
            return trial

    def tell(self, trial: Trial, state: TrialState, score: float | None = None, **facts: Any) -> None:
        """The end of a trial: its facts first, so that an ended trial has them all."""
        for key, value in facts.items():
            trial.set_user_attr(key, value)
        self.study.tell(trial, score, state)

    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def ended(self) -> list[FrozenTrial]:
        """The trials that came to an end by themselves: scored, given up, or diverged."""
        return [trial for trial in self.trials() if trial.state in ENDED]

    def best(self) -> FrozenTrial | None:
        """The best score; among equal ones the lowest validation loss, then the earliest."""
        scored = [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]
        return max(scored, key=lambda t: (t.value, -t.user_attrs["val_loss"], -t.number), default=None)

    def seconds(self) -> float:
        """Time spent on all trials that are not running, in all processes."""
        return sum(trial.user_attrs.get("seconds", 0.0) for trial in self.trials())

    def _queue_lost_trials(self) -> None:
        for trial in self.trials():
            if trial.state != TrialState.RUNNING or is_alive(self.folder, trial.user_attrs.get("worker")):
                continue
            self.study.enqueue_trial(trial.params)
            self.study.tell(trial.number, state=TrialState.FAIL)


@contextmanager
def open_study(
    folder: Path, facts: Mapping[str, Any], space: dict[str, BaseDistribution], first: Mapping[str, Any], *, seed: int
) -> Iterator[SharedStudy]:
    """Begin the search in a folder, or join the one that is there, if it has the same facts.

    Args:
        facts: What all trials have in common.
        first: The values of the first trial.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose another folder with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    worker = f".worker-{uuid.uuid4().hex}"
    with locked(folder):
        for left in folder.glob(".worker-*"):
            is_alive(folder, left.name)  # files of processes that are gone are removed
        life = (folder / worker).open("w")
        fcntl.flock(life, fcntl.LOCK_EX)
    with life:
        try:
            with locked(folder):
                study = _study(folder)
                _require_same(study, facts, folder)
                if not study.get_trials(deepcopy=False):
                    study.enqueue_trial(dict(first))
            yield SharedStudy(folder, study, space, seed, worker)
        finally:
            (folder / worker).unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time, for the moments in which trials are given out and files are written."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_alive(folder: Path, worker: str | None) -> bool:
    """Whether the process that runs a trial still holds its lock."""
    if worker is None:  # it ended before it could sign the trial
        return False
    try:
        descriptor = os.open(folder / worker, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    (folder / worker).unlink(missing_ok=True)
    return False


def _study(folder: Path) -> optuna.Study:
    path = folder / DATABASE
    try:
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{path.resolve()}", engine_kwargs={"connect_args": {"timeout": 120}}
        )
        return optuna.create_study(
            study_name="fastgtn", storage=storage, direction="maximize", load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(**PRUNER),
        )  # fmt: skip
    except Exception as error:  # SQLAlchemy's and Optuna's errors have no common base
        line = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be opened as a search ({line}): choose another --out.") from None


def _require_same(study: optuna.Study, facts: Mapping[str, Any], folder: Path) -> None:
    told = json.loads(json.dumps(facts))
    stored = {key: value for key, value in study.user_attrs.items() if key in told}
    before, now = toml.flat(stored), toml.flat({key: value for key, value in told.items() if key in stored})
    changed = [key for key in now if before.get(key) != now[key]]
    if changed:
        listed = ", ".join(f"{key} was {_short(before.get(key))}, now {_short(now[key])}" for key in changed)
        raise InputError(f"{folder} is another search ({listed}): choose another --out.")
    for key, value in told.items():
        if key not in stored:
            study.set_user_attr(key, value)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
