"""Whether a ranking was learned: the entropy of the filters, and a control whose filters are frozen at uniform."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from fastgtn.data.metrics import named
from fastgtn.explain.walks import Model, backbone_of


@dataclass(frozen=True)
class Control:
    """The scores of a model and of the same model with uniform filters, trained alike.

    Args:
        split: Where they are scored: the test nodes, or the validation nodes where no test labels exist.
        control: With uniform filters, the mean over `seeds` trainings.
        noise: Two standard errors of the difference: from the nodes on which both predict differently, and from how
            much the trainings with uniform filters differ. None if neither was measured.
    """

    metric: str
    split: str
    learned: float
    control: float
    noise: float | None
    seeds: int = 1

    @property
    def difference(self) -> float:
        """What the choice of paths is worth; positive where it helps."""
        return (self.learned - self.control) * (1 if named(self.metric).higher_is_better else -1)

    @property
    def matters(self) -> bool:
        return self.noise is None or abs(self.difference) > self.noise

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Learned:
    """Evidence on whether a ranking was learned from the labels.

    Args:
        entropy: Of the filters, relative to uniform ones, mean over hops and channels: 1 means that nothing was chosen.
        num_significant: Paths that screening found significant; None where nothing was screened.
        num_paths: Paths that leave a node and were tested; None where nothing was screened.
        paths_tell: Whether one of these is significant.
        beats_majority: Whether the model predicts better than always guessing the commonest class.
    """

    entropy: float
    num_significant: int | None = None
    num_paths: int | None = None
    paths_tell: bool = False
    beats_majority: bool = True
    control: Control | None = None

    @property
    def found_nothing(self) -> bool:
        """Whether neither screening nor the model has found anything that predicts the labels."""
        return self.num_significant == 0 and not self.beats_majority

    @property
    def verdict(self) -> str:
        """The answer in a few sentences."""
        if self.num_paths == 0:
            return (
                "No meta-path exists: no relation brings messages to the nodes that are predicted, so the model reads "
                "their own features only. Set graph.reverse = true to follow edges in both directions."
            )
        if self.found_nothing:
            return (
                "Nothing was found: no meta-path predicts the training labels better than chance, and the model is no "
                "better than always guessing the commonest class. A ranking would only show noise."
            )
        chosen = (
            f"The filters have {100 * self.entropy:.0f} % of the entropy of uniform filters (100 % is no preference)"
        )
        if self.control is None:
            return (
                f"{chosen}. Whether the choice of paths matters has not been tested: `fastgtn explain --control` "
                "trains the same model with uniform filters and compares."
            )
        return f"{_worth(self.control, paths_tell=self.paths_tell)} {chosen}."

    def to_dict(self) -> dict[str, Any]:
        control = self.control
        return {
            "entropy": self.entropy,
            "control": None if control is None else control.control,
            "difference": None if control is None else control.difference,
            "details": None if control is None else control.to_dict(),
            "significant_paths": self.num_significant,
            "verdict": self.verdict,
        }


def filter_entropy(model: Model) -> float:
    """The entropy of the learned filters over that of uniform ones, mean over layers, hops and channels."""
    shares = []
    for filters in backbone_of(model).hop_filters():
        alpha = filters().detach().double().clamp(min=1e-300)
        if alpha.size(-1) > 1:
            shares.append(float(-(alpha * alpha.log()).sum(-1).mean()) / math.log(alpha.size(-1)))
    return sum(shares) / len(shares) if shares else 1.0


def _worth(control: Control, *, paths_tell: bool) -> str:
    metric = named(control.metric)
    learned, uniform = metric.shown(control.learned), metric.shown(control.control)
    where = {"test": "the test nodes", "val": "the validation nodes"}[control.split]
    size = metric.shown(abs(control.difference))
    with_them = "uniform filters" + (f", the mean of {control.seeds} trainings" if control.seeds > 1 else "")
    if not control.matters:
        signal = "Screening found paths that predict the labels, and a uniform mixture may already use them. "
        noise = "" if control.noise is None else f", within the noise of ±{metric.shown(control.noise)}"
        return (
            f"Uniform filters score nearly the same: {metric.title} on {where} is {uniform} with them and {learned} "
            f"with the learned ones{noise}. There is no evidence that the choice of paths matters: the ranking may "
            f"reflect the graph rather than the labels. {signal if paths_tell else ''}Train with more seeds to decide."
        )
    if control.difference > 0:
        return (
            f"The choice of paths is worth {size} points: {metric.title} on {where} is {learned}, and {uniform} with "
            f"{with_them}."
        )
    return (
        f"The choice of paths costs {size} points: {metric.title} on {where} is {learned}, and {uniform} with "
        f"{with_them}. Mixing all paths is better here."
    )
