"""What was decided before training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fastgtn.screening import Screening


@dataclass(frozen=True)
class Trial:
    """Short trainings of one setting: the values that were tried, by full key, and the mean validation score.

    Args:
        score: The score that chooses epochs, larger is better; None where the training was stopped.
        kept: Whether these values are better than those before.
    """

    values: dict[str, Any]
    score: float | None
    seconds: float
    kept: bool


@dataclass(frozen=True)
class Decisions:
    """What training and validation labels decided before training; all seeds of a run share it.

    Args:
        screening: The paths that the filters start from; None where they start uniform.
        trials: The trainings that decided keys with the value "auto", in their order.
    """

    screening: Screening | None = None
    trials: tuple[Trial, ...] = ()

    @property
    def outcome(self) -> dict[str, Any]:
        """The values that won, by full key."""
        return outcome(self.trials)

    def to_dict(self) -> dict[str, Any]:
        return {
            "screening": None if self.screening is None else self.screening.to_dict(),
            "trials": [asdict(trial) for trial in self.trials],
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Decisions:
        screening = values["screening"]
        return Decisions(
            None if screening is None else Screening.from_dict(screening),
            tuple(Trial(**trial) for trial in values["trials"]),
        )


NOTHING_DECIDED = Decisions()


def outcome(trials: tuple[Trial, ...]) -> dict[str, Any]:
    """The values of the last trial that was better than all before it."""
    return next((trial.values for trial in reversed(trials) if trial.kept), {})
