"""Train a link model, score it, and ask it questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, hidden_from
from fastgtn.links.joined.explain import LinkReasons, explain_link
from fastgtn.links.joined.features import FEATURE_MARK
from fastgtn.links.joined.model import LinkModel, fit_models
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.ranked import rank_models
from fastgtn.links.joined.screen import LinkScreening, screening_of
from fastgtn.links.joined.supervision import Described, describe, held_out, popularity_of
from fastgtn.links.metrics import AT, pair_scores, rank_all
from fastgtn.links.recommend import Recommendations, recommend
from fastgtn.links.task import LinkTask, Pairs, Stage
from fastgtn.links.verdict import Judged, chosen_by

MOST_RANKED = 500_000_000  # pairs that are scored for the ranking metrics, at most


@dataclass(frozen=True)
class LinkPath:
    """One joined meta-path of a trained model.

    Args:
        weight: What it adds on average to the log-odds of a pair that it joins; negative if it argues against links.
            Of learned encoders, how much more it adds to links than to other pairs.
        contribution: Mean absolute part of the log-odds of the validation pairs, after subtracting its mean.
        without: What the validation score that chose the model loses if this path is left out. Of learned encoders,
            what ROC-AUC of a sample of the validation pairs loses.
        auc: ROC-AUC of the path alone on hidden training links.
        p_value: Family-wise p-value of that; None if the path was not screened.
    """

    name: str
    types: tuple[str, ...]
    weight: float
    contribution: float
    without: float
    auc: float
    p_value: float | None


@dataclass(frozen=True, eq=False)
class LinkResult(Judged):
    """A trained link model and the facts about its training."""

    task: LinkTask
    model: LinkModel
    screening: LinkScreening
    val: dict[str, float]
    test: dict[str, float]
    popularity_val: dict[str, float]

    subject = "The meta-paths"

    @property
    def reads_features(self) -> bool:
        """Whether a path leads through features."""
        return any(FEATURE_MARK in name for name in self.model.names)

    @cached_property
    def _graphs(self) -> dict[Stage, tuple[JoinedPaths, Array]]:
        return {}

    def paths_at(self, stage: Stage) -> tuple[JoinedPaths, Array]:
        """The joined paths of a stage's graph, and the popularity of each target there."""
        if stage not in self._graphs:
            task = self.task
            paths = JoinedPaths.of(task.graph_at(stage), task.relation, words=self.model.words, reverses=task.reverses)
            self._graphs[stage] = paths, popularity_of(task, task.links_at(stage))
        return self._graphs[stage]

    def rows(self, stage: Stage = "use") -> Callable[[Array], Array]:
        """A function that scores some sources with every target."""
        return partial(self.model.rows, *self.paths_at(stage))

    def predict(self, source: Array, target: Array, *, stage: Stage = "use") -> Array:
        """The log-odds that each pair is a link, on the graph with all known links, or on that of a stage."""
        pairs = Pairs(np.asarray(source), np.asarray(target), np.zeros(len(source)))
        return self.model.logits(describe(pairs, *self.paths_at(stage)))

    def recommend(self, sources: Array | None = None, *, top: int = 10, stage: Stage = "use") -> Recommendations:
        """The best new partners of some sources, or of all; known links are left out."""
        chosen = np.arange(self.task.num_sources) if sources is None else np.asarray(sources)
        return recommend(self.rows(stage), self.task.known_rows(stage), chosen, top=top)

    def explain(self, source: int, target: int, *, instances: int = 3) -> LinkReasons:
        """What each joined path adds to the log-odds of one pair, on the graph with all other known links.

        A link that is known is hidden first: no pair is explained by itself.
        """
        check_pair(self.task, source, target)
        paths, popularity = self.paths_at("use")
        if self.task.known_rows("use")[source, target]:
            pair = np.array([[source], [target]])
            graph = hidden_from(self.task.graph_at("use"), self.task.relation, pair)
            reverses = self.task.reverses
            rest = LinkTask.for_use(graph, self.task.relation, reverses=reverses)
            paths = JoinedPaths.of(graph, self.task.relation, words=self.model.words, reverses=reverses)
            popularity = popularity_of(self.task, rest.train)
        return explain_link(self.model, paths, popularity, source, target, instances=instances)

    def metapaths(self, top: int | None = None) -> list[LinkPath]:
        """The joined paths of the model by what they contribute to the predictions."""
        val = _describe_val(self.task, self.model)
        without = _validated(self.task, [self.model.without(n) for n in range(len(val.paths))], val)
        parts = self.model.parts(val)
        tested = {path.steps: path for path in self.screening.paths}
        rows = []
        for number, word in enumerate(self.model.words):
            part, joined = parts[:, 2 + number], val.scores[:, number] > 0
            found = tested[word]
            rows.append(
                LinkPath(
                    self.model.names[number],
                    val.paths.path(word).types,
                    float(part[joined].mean()) if joined.any() else 0.0,
                    float(np.abs(part - part.mean()).mean()),
                    self.score - without[number],
                    found.auc,
                    found.p_value,
                )
            )
        return sorted(rows, key=lambda row: -row.contribution)[:top]


def fit_links(task: LinkTask, *, longest: int = 4, seed: int = 0) -> LinkResult:
    """Choose joined meta-paths and their weights on hidden training links, and score the test pairs once.

    Args:
        longest: The most steps between a source and a target.
        seed: Which training links are hidden, and which negatives are drawn.
    """
    result = choose_links(task, longest=longest, seed=seed)
    result.test.update(score_stage(result, "test"))
    return result


def choose_links(task: LinkTask, *, longest: int = 4, seed: int = 0) -> LinkResult:
    """The same without the test pairs, whose scores stay empty."""
    train = held_out(task, longest=longest, seed=seed)
    screening = screening_of(train, seed=seed)
    chosen = [train.paths.words.index(path.steps) for path in screening.paths if path.chosen is not None]
    model, scored = choose_model(task, train, chosen)
    _, control = choose_model(task, train, [])  # popularity alone
    return LinkResult(task, model, screening, scored, {}, control)


def choose_model(task: LinkTask, train: Described, chosen: list[int]) -> tuple[LinkModel, dict[str, float]]:
    """The model that scores best on the validation pairs, or ranks best on them, and its validation scores."""
    words = tuple(train.paths.words[column] for column in chosen)
    popularity = popularity_of(task, task.train)
    paths = JoinedPaths.of(task.graph, task.relation, words=words, reverses=task.reverses)
    val = describe(task.val, paths, popularity, words)
    models = list(fit_models(train, chosen))
    model = models[int(np.argmax(_validated(task, models, val)))]  # of equal ones, that with the fewest paths
    return model, score_val(task, model, val.first(replace(paths, words=model.words)))


def _validated(task: LinkTask, models: Sequence[LinkModel], val: Described) -> list[float]:
    """The validation score of each model, by the metric that chooses; models have the first of the described paths."""
    if task.chooses_by_ranking and can_rank(task, "val"):
        known = task.known_rows("val")
        found = rank_models(models, val.paths, popularity_of(task, task.train), task.val.links, known)
    else:
        each = [model.logits(val.first(replace(val.paths, words=model.words))) for model in models]
        found = [pair_scores(logits, task.val.labels, task.val.source) for logits in each]
    return [chosen_by(task, scores) for scores in found]


def score_val(task: LinkTask, model: LinkModel, val: Described) -> dict[str, float]:
    """The scores of the validation pairs; of the ranking as well where that chooses the model."""
    scores = pair_scores(model.logits(val), task.val.labels, task.val.source)
    if not task.chooses_by_ranking:
        return scores
    popularity = popularity_of(task, task.train)
    return scores | full_ranking(task, partial(model.rows, val.paths, popularity), "val")


def full_ranking(task: LinkTask, rows: Callable[[Array], Array], stage: Stage, *, at: int = AT) -> dict[str, float]:
    """The metrics of hidden links when all targets are ranked; nothing where these are too many.

    Args:
        rows: Scores of some sources with every target.
        at: The length of the lists of recommendations.
    """
    if not can_rank(task, stage):
        return {}
    return rank_all(rows, task.pairs_at(stage).links, task.known_rows(stage), at=at).scores()


def can_rank(task: LinkTask, stage: Stage) -> bool:
    """Whether all targets can be ranked for every source that has hidden links."""
    return len(np.unique(task.pairs_at(stage).links[0])) * task.num_targets <= MOST_RANKED


class Answers(Protocol):
    """What scores need of a trained model: scores of pairs, and of some sources with every target."""

    @property
    def task(self) -> LinkTask: ...

    def predict(self, source: Array, target: Array, *, stage: Stage) -> Array: ...

    def rows(self, stage: Stage) -> Callable[[Array], Array]: ...


def score_stage(result: Answers, stage: Stage, *, at: int = AT) -> dict[str, float]:
    """The metrics of the pairs of a stage, and of the ranking of all targets; those of the test are read once."""
    pairs = result.task.pairs_at(stage)
    logits = result.predict(pairs.source, pairs.target, stage=stage)
    ranked = full_ranking(result.task, result.rows(stage), stage, at=at)
    return pair_scores(logits, pairs.labels, pairs.source) | ranked


def check_pair(task: LinkTask, source: int, target: int) -> None:
    """Refuse nodes that do not exist."""
    for node, count, kind in (
        (source, task.num_sources, task.relation.source),
        (target, task.num_targets, task.relation.target),
    ):
        if not 0 <= node < count:
            raise InputError(f"there is no {kind} node {node}: they are numbered 0 … {count - 1}.")
    if task.is_within_one_type and source == target:
        raise InputError(f"a {task.relation.source} is not its own partner: give two different nodes.")


def _describe_val(task: LinkTask, model: LinkModel) -> Described:
    paths = JoinedPaths.of(task.graph, task.relation, words=model.words, reverses=task.reverses)
    return describe(task.val, paths, popularity_of(task, task.train), model.words)
