"""What a link model adds to popularity, in one sentence and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fastgtn.data.metrics import title_of
from fastgtn.links.task import LinkTask


class Judged(Protocol):
    """What a trained link model says of itself."""

    @property
    def task(self) -> LinkTask: ...

    @property
    def val(self) -> dict[str, float]: ...

    @property
    def test(self) -> dict[str, float]: ...

    @property
    def popularity_val(self) -> dict[str, float]: ...

    @property
    def verdict(self) -> str: ...

    def metapaths(self, top: int | None = None) -> Sequence[Any]: ...


def chosen_by(task: LinkTask, scores: dict[str, float]) -> float:
    """The score that chose a model among the validation scores."""
    return scores.get(task.select_by, scores["roc_auc"])


def facts_of(result: Judged) -> dict[str, Any]:
    """Scores, paths and verdict as plain values."""
    score, control = (chosen_by(result.task, scores) for scores in (result.val, result.popularity_val))
    return {
        "relation": str(result.task.relation),
        "negatives": result.task.negatives,
        "val": result.val,
        "test": result.test,
        "learned": {
            "metric": result.task.select_by,
            "control": control,
            "difference": score - control,
            "verdict": result.verdict,
        },
        "paths": [vars(path) for path in result.metapaths()],
    }


def verdict_of(gain: float, metric: str, *, significant: bool, what: str) -> str:
    """Compare the validation score that chose a model with that of popularity alone.

    Args:
        gain: The difference, as a fraction.
        significant: Whether screening found a joined path beyond chance.
        what: The subject of the sentence.
    """
    points, metric = 100 * gain, title_of(metric)
    if not significant:
        return "No meta-path connects links more than other pairs: the ranking shows only popularity."
    if points < 0.5:
        return f"Popularity alone scores the same: the paths are worth {points:.1f} points of {metric} on validation."
    return f"{what} are worth {points:.1f} points of {metric} beyond popularity alone, on validation."
