"""A trained pair of encoders, and the questions it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.links.edges import Array, hidden_from
from fastgtn.links.fit import LinkPath, check_pair, full_ranking, score_stage
from fastgtn.links.joined.explain import LinkReasons
from fastgtn.links.joined.screen import LinkScreening
from fastgtn.links.joined.supervision import popularity_of
from fastgtn.links.learned.explain import explain_pair, joined_paths
from fastgtn.links.learned.graphs import Encoding, LinkGraphs
from fastgtn.links.learned.model import LinkPredictor
from fastgtn.links.learned.options import LinkModelOptions, encoder_config
from fastgtn.links.learned.top import recommend_vectors
from fastgtn.links.learned.train import rows_of, settle, train_encoders
from fastgtn.links.metrics import pair_scores
from fastgtn.links.recommend import Recommendations, recommend
from fastgtn.links.task import LinkTask, Stage
from fastgtn.links.verdict import Judged
from fastgtn.nn import MetaPathModel
from fastgtn.options import Values
from fastgtn.training.device import chosen_device
from fastgtn.training.loop import Record, State
from fastgtn.training.prepare.scaling import settled_scaling
from fastgtn.training.prepare.trials import with_values
from fastgtn.training.team import ALONE, Team

MOST_EXPLAINED = 400  # validation pairs from which the contributions of joined paths are measured


@dataclass(frozen=True, eq=False)
class LearnedLinks(Judged):
    """Trained encoders of both ends with their decoder, on the graphs of a task."""

    task: LinkTask
    config: Config
    options: LinkModelOptions
    model: LinkPredictor
    graphs: LinkGraphs
    screening: LinkScreening
    val: dict[str, float]
    test: dict[str, float]
    popularity_val: dict[str, float]
    epoch: int = 0
    history: list[Record] = field(default_factory=list)

    subject = "The encoders"

    @property
    def sums_paths(self) -> bool:
        """Whether a score is a sum over pairs of meta-paths: the model learns them, and the decoder has no layer."""
        return isinstance(self.model.backbone.source, MetaPathModel) and self.model.decoder.is_bilinear

    @property
    def reads_features(self) -> bool:
        """Encoders read the features of all nodes."""
        return True

    @cached_property
    def _vectors(self) -> dict[Stage, tuple[Tensor, Tensor, Tensor]]:
        return {}

    def vectors(self, stage: Stage = "use") -> tuple[Tensor, Tensor, Tensor]:
        """Representations of all sources and all targets, and the popularity of each target."""
        if stage not in self._vectors:
            ends = Encoding(self.graphs, stage, self.model.backbone, self.config).of(self.model.backbone)
            self._vectors[stage] = (*ends, self.graphs.popularity(self.task.links_at(stage)))
        return self._vectors[stage]

    def rows(self, stage: Stage = "use") -> Callable[[Array], Array]:
        """A function that scores some sources with every target."""
        return rows_of(self.model, *self.vectors(stage))

    @torch.no_grad()
    def predict(self, source: Array, target: Array, *, stage: Stage = "use") -> Array:
        """The log-odds that each pair is a link, on the graph with all known links, or on that of a stage."""
        z, y, popularity = self.vectors(stage)
        u, i = (torch.from_numpy(np.asarray(side, np.int64)) for side in (source, target))
        parts = [
            self.model.decode(z[a], y[b], popularity[b])
            for a, b in zip(u.split(1 << 16), i.split(1 << 16), strict=True)
        ]
        values: Array = torch.cat([torch.zeros(0), *parts]).numpy()
        return values

    def recommend(self, sources: Array | None = None, *, top: int = 10, stage: Stage = "use") -> Recommendations:
        """The best new partners of some sources, or of all; known links are left out. Exact over all targets."""
        chosen = np.arange(self.task.num_sources) if sources is None else np.asarray(sources)
        known = self.task.known_rows(stage)
        z, y, popularity = self.vectors(stage)
        with torch.no_grad():
            both = self.model.vectors(z[torch.from_numpy(chosen)], y, popularity)
        if both is None:
            return recommend(self.rows(stage), known, chosen, top=top)
        return recommend_vectors(*both, known[chosen], chosen, top=top)

    def explain(self, source: int, target: int, *, instances: int = 3) -> LinkReasons:
        """What each joined meta-path adds to the log-odds of one pair; a known link is hidden first."""
        check_pair(self.task, source, target)
        relation, graph = self.task.relation, self.task.graph_at("use")
        inputs, links = self.graphs.stages["use"], self.task.links_at("use")
        if self.task.known_rows("use")[source, target]:
            pair = np.array([[source], [target]])
            graph, inputs = hidden_from(graph, relation, pair), self.graphs.use_without(pair)
            links = LinkTask.for_use(graph, relation, reverses=self.task.reverses).train
        popularity = self.graphs.popularity(links)
        return explain_pair(
            self.model, inputs, graph, relation, self.task.reverses, popularity, source, target, instances=instances
        )

    def metapaths(self, top: int | None = None) -> list[LinkPath]:
        """The joined meta-paths by what they contribute to the scores of validation pairs; none without meta-paths."""
        if not self.sums_paths:
            return []
        return joined_paths(self, most_pairs=MOST_EXPLAINED)[:top]

    def facts(self) -> dict[str, Any]:
        """Scores, paths and verdict as plain values."""
        model = {"model": self.config.model.label, "decoder": self.options.decoder, "epoch": self.epoch}
        return model | super().facts()


def fit_encoders(
    task: LinkTask,
    model: str = "fast_gtn",
    settings: Values | None = None,
    *,
    longest: int = 4,
    seed: int = 0,
    resume: Callable[[State], None] | None = None,
    watch: Callable[[State], None] | None = None,
    team: Team = ALONE,
) -> LearnedLinks:
    """Train encoders of both ends on hidden training links, choose the epoch on validation, and score the test once.

    Args:
        model: A name of `fastgtn ls`.
        settings: Nested values of a config, such as ``{"model": {"decoder": "distmult"}, "batch": {"size": 512}}``.
        longest: The most steps of a joined path that is screened, and from which the filters may start.
        resume: A function that may replace the state before the first step.
        watch: A function that is called with the state after every epoch.
    """
    config, options = encoder_config(model, settings or {}, seed=seed)
    chosen_device(config.fit.device, team)  # a missing one is reported before paths are screened
    task = task.selecting(str((settings or {}).get("fit", {}).get("select_by", "auto")))
    config, screening, start = settle(task, config, longest=longest, seed=seed)
    graphs = LinkGraphs.of(task, config)
    scaling = settled_scaling(graphs.stages["use"].features, config.features)
    config = with_values(config, {"features.normalize": scaling})  # another graph is read in the same way
    state = train_encoders(graphs, config, options, start, resume=resume, watch=watch, team=team)
    assert isinstance(state.model, LinkPredictor)
    assert state.best is not None
    result = LearnedLinks(
        task,
        config,
        options,
        state.model,
        graphs,
        screening,
        {},
        {},
        popularity_scores(task),
        state.best.epoch,
        state.history,
    )
    result.val.update(score_stage(result, "val"))
    result.test.update(score_stage(result, "test"))
    return result


def popularity_scores(task: LinkTask) -> dict[str, float]:
    """What popularity alone scores on validation."""
    popularity = popularity_of(task, task.train)
    scores = pair_scores(popularity[task.val.target], task.val.labels, task.val.source)
    return scores | full_ranking(task, lambda s: np.broadcast_to(popularity, (len(s), len(popularity))), "val")
