"""What the report shows, as plain tables: everything here is a number or a word, and every list is bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastgtn.data.metrics import shown
from fastgtn.explain.faithfulness import Faithfulness
from fastgtn.explain.ranking import Ranking
from fastgtn.explain.stability import Stability
from fastgtn.screening import Screening

Point = tuple[int, float]


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation of one metric over the seeds of a run."""

    mean: float
    std: float

    def points(self, num_seeds: int, metric: str) -> str:
        """The displayed value, such as 93.21 ± 0.40, in percent or in the user's unit."""
        spread = f" ± {shown(metric, self.std)}" if num_seeds > 1 else ""
        return f"{shown(metric, self.mean)}{spread}"


@dataclass(frozen=True)
class Curve:
    """The history of one seed: points (epoch, value) of each recorded number."""

    seed: int
    best_epoch: int
    series: dict[str, tuple[Point, ...]]


@dataclass(frozen=True)
class Confusion:
    """How often each class (row) was predicted as each class (column), for tasks of one label."""

    class_names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ClassScore:
    """One class: how many nodes have it, how many were given it, and how many rightly."""

    name: str
    true: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / max(self.predicted, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.true, 1)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(self.true + self.predicted, 1)


@dataclass(frozen=True)
class Mistake:
    """A node that got a wrong label, and how sure the model was of it; or the error of a number."""

    node: int
    id: str
    name: str
    truth: str
    predicted: str
    confidence: float


@dataclass(frozen=True)
class Judged:
    """The predictions for a split whose labels may be shown."""

    split: str
    num_nodes: int
    num_mistakes: int
    classes: tuple[ClassScore, ...]
    confusion: Confusion | None
    mistakes: tuple[Mistake, ...]
    pairs: tuple[tuple[float, float], ...] = ()  # of tasks of numbers: true and predicted, of some nodes
    curves: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # of two classes


@dataclass(frozen=True)
class SchemaTable:
    """Node types with their numbers, and relations (source, name, target) with theirs."""

    nodes: dict[str, int]
    edges: dict[tuple[str, str, str], int]


@dataclass(frozen=True)
class FilterMap:
    """The filters of one channel of one layer: a row per relation, a column per hop from the target."""

    layer: int
    channel: int
    relations: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class HopShare:
    """The total weight of walks of one length; the length is None for all paths that are not listed."""

    hops: int | None
    weight: float


@dataclass(frozen=True)
class PathPart:
    """What one meta-path adds to a logit, and concrete instances of it: node names, share of all walks."""

    path: str
    contribution: float
    instances: tuple[tuple[tuple[str, ...], float], ...]


@dataclass(frozen=True)
class StoredNode:
    """One node that the page can look up.

    Args:
        truth: Its label, if it may be shown.
        probabilities: The most probable classes.
        explained: The class whose logit `parts` and `rest` add up to; None if the model is not a sum over meta-paths.
        total: What the parts add up to, in words.
    """

    id: str
    name: str
    split: str
    truth: str | None
    predicted: str
    probabilities: tuple[tuple[str, float], ...]
    explained: str | None
    logit: float
    parts: tuple[PathPart, ...]
    rest: tuple[tuple[str, float], ...]
    total: str = "its logit"


@dataclass(frozen=True)
class RunTables:
    """All tables of one run.

    Args:
        folder: Empty for a result that was not saved.
        seed: The seed whose model is read: the best on validation.
        ranking: Its heaviest meta-paths; `back` those that end at the target type.
        stability: None with one seed.
        faithfulness: The result, or None with the reason in `notes`.
        notes: Notes about these tables for the reader.
    """

    title: str
    folder: str
    dataset: str
    model: str
    target: str
    kind: str
    metric: str
    seed: int
    seeds: tuple[int, ...]
    val: dict[str, Spread]
    test: dict[str, Spread]
    facts: tuple[tuple[str, str], ...]
    schema: SchemaTable
    curves: tuple[Curve, ...]
    mean_curve: tuple[Point, ...]
    judged: Judged
    ranking: Ranking
    back: Ranking
    screening: Screening | None
    hop_shares: tuple[HopShare, ...]
    filters: tuple[FilterMap, ...]
    stability: Stability | None
    seed_weights: dict[str, tuple[float, ...]]
    faithfulness: Faithfulness | None
    nodes: tuple[StoredNode, ...]
    config: str
    checksum: str
    versions: dict[str, str]
    notes: tuple[str, ...]

    @property
    def has_paths(self) -> bool:
        """Whether the model learned meta-paths; baselines did not."""
        return bool(self.filters)

    @property
    def ask(self) -> tuple[str, str]:
        """How to ask for a node that is not stored in the page: the words before and after its id."""
        return (f"fastgtn explain {self.folder} --node ", ".") if self.folder else ('result.explain("', '") in Python.')
