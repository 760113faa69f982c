"""What a link model adds to popularity, in one sentence and as plain values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from fastgtn.data.metrics import title_of
from fastgtn.links.edges import still_holding
from fastgtn.links.joined.screen import LinkScreening
from fastgtn.links.task import LinkTask

MANY_COLD = 0.05  # from this share of links to nodes without known links, models should read features


class Judged(ABC):
    """What every trained link model reports: its scores, its paths, and what it adds to popularity."""

    task: LinkTask
    screening: LinkScreening
    val: dict[str, float]
    test: dict[str, float]
    popularity_val: dict[str, float]  # what popularity alone scores: the control
    subject: ClassVar[str]  # of the sentence about what the model adds

    @property
    def sums_paths(self) -> bool:
        """Whether a score is a sum over joined paths, so that it can be explained."""
        return True

    @property
    @abstractmethod
    def reads_features(self) -> bool:
        """Whether predictions depend on features of nodes."""

    @abstractmethod
    def metapaths(self, top: int | None = None) -> Sequence[Any]:
        """The joined paths of the model by what they contribute to the predictions."""

    @property
    def metric(self) -> str:
        """The validation metric that chose the model."""
        return metric_of(self.task, self.val)

    @property
    def score(self) -> float:
        """The validation score that chose the model."""
        return chosen_by(self.task, self.val)

    @property
    def gain(self) -> float:
        """How far that score is above the one of popularity alone."""
        return self.score - chosen_by(self.task, self.popularity_val)

    @property
    def verdict(self) -> str:
        """A sentence about what the model adds to popularity."""
        return verdict_of(
            self.gain,
            self.metric,
            significant=self.screening.significant,
            what=self.subject,
            beyond_paths=self.reads_features and self.task.has_features,
        )

    def facts(self) -> dict[str, Any]:
        """Scores, paths and verdict as plain values."""
        return {
            "relation": str(self.task.relation),
            "negatives": self.task.negatives,
            "val": self.val,
            "test": self.test,
            "learned": {
                "metric": self.metric,
                "control": chosen_by(self.task, self.popularity_val),
                "difference": self.gain,
                "verdict": self.verdict,
            },
            "notes": self.notes(),
            "paths": [vars(path) for path in self.metapaths()],
        }

    def notes(self) -> list[str]:
        """Notes that a reader should see before trusting the scores."""
        task, found = self.task, []
        if task.has_given_test:
            found.append(
                f"The graph stores the test pairs, and the validation pairs have {task.negatives} negatives: their "
                "scores are comparable only if the stored negatives were drawn in the same way (--negatives)."
            )
        for other in still_holding(task.graph, task.val.links, task.relation):
            found.append(
                f'The relation "{other}" holds the hidden links too, and it stays in the graph: if its edges are made '
                "together with the links, as a rating is with a like, train on a graph without it."
            )
        if self.metric != task.select_by:
            found.append(
                f"There are too many targets to rank all of them for every source, so {title_of(self.metric)} chose "
                f"the model instead of {title_of(task.select_by)}."
            )
        skipped = self.screening.left_out
        if skipped:
            count = f"{len(skipped)} joined meta-paths were" if len(skipped) > 1 else "One joined meta-path was"
            found.append(f"{count} not looked at because of size or number, such as {skipped[0]}.")
        if task.cold_share >= MANY_COLD and task.has_features and not self.reads_features:
            found.append(
                f"{100 * task.cold_share:.0f} % of the validation links have an end without training links, and no "
                "chosen meta-path leads through features: compare the validation scores with --model fast_gtn."
            )
        return found


def chosen_by(task: LinkTask, scores: dict[str, float]) -> float:
    """The score that chose a model among the validation scores."""
    return scores[metric_of(task, scores)]


def metric_of(task: LinkTask, scores: dict[str, float]) -> str:
    """The metric of that score: ROC-AUC where ranking all targets takes too much work."""
    return task.select_by if task.select_by in scores else "roc_auc"


def verdict_of(gain: float, metric: str, *, significant: bool, what: str, beyond_paths: bool = False) -> str:
    """Compare the validation score that chose a model with that of popularity alone.

    Args:
        gain: The difference, as a fraction.
        significant: Whether screening found a joined path beyond chance.
        what: The subject of the sentence.
        beyond_paths: Whether the model may learn from features what no path tells.
    """
    points, metric = 100 * gain, title_of(metric)
    worth = f"are worth {points:.1f} points of {metric} beyond popularity alone, on validation."
    if not significant and beyond_paths and points >= 0.5:
        nothing = "No meta-path connects links more than other pairs"
        return f"{nothing}, but {what.lower()} also read features, and they {worth}"
    if not significant:
        return "No meta-path connects links more than other pairs: the ranking shows only popularity."
    if points <= -0.5:
        return f"Popularity alone scores {-points:.1f} points of {metric} more than {what.lower()}, on validation."
    if points < 0.5:
        return (
            f"Popularity alone scores the same: {what.lower()} are worth {points:.1f} points of {metric} on validation."
        )
    return f"{what} {worth}"
