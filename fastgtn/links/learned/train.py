"""Train encoders for links with the loop that trains node classifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.errors import InputError
from fastgtn.links.edges import Array
from fastgtn.links.fit import can_rank
from fastgtn.links.joined.screen import LinkScreening, screening_of
from fastgtn.links.joined.supervision import Described, held_out
from fastgtn.links.joined.words import cut
from fastgtn.links.learned.graphs import LinkGraphs
from fastgtn.links.learned.model import LinkPredictor
from fastgtn.links.learned.options import LinkModelOptions
from fastgtn.links.learned.passes import LinkBatches, LinkPasses, WholeLinks
from fastgtn.links.metrics import RANKING_METRICS, SELECTED_BY, rank_all
from fastgtn.links.task import LinkTask
from fastgtn.nn.classifier import Predictor
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.relations import Relation
from fastgtn.training.device import chosen_device
from fastgtn.training.loop import State, Trainer
from fastgtn.training.prepare.settle import UNIFORM_CHANNELS, UNIFORM_LENGTH
from fastgtn.training.team import ALONE, Team


@dataclass(frozen=True)
class Start:
    """Where filters start: for each chosen joined path its half from the source and its half from the target."""

    source: tuple[tuple[Relation, ...], ...]
    target: tuple[tuple[Relation, ...], ...]

    @property
    def length(self) -> int:
        return max((len(half) for half in self.source + self.target), default=0)


class LinkTrainer(Trainer):
    """Validation of links: the pairs, and the ranking of all targets where that chooses and is affordable."""

    def val_scores(self, model: Predictor) -> tuple[float, dict[str, float]]:
        loss, scores = super().val_scores(model)
        passes, task = self.passes, self.task
        assert isinstance(passes, LinkPasses)
        assert isinstance(task, LinkTask)
        assert isinstance(model, LinkPredictor)
        if not task.chooses_by_ranking or not can_rank(task, "val"):
            return loss, scores
        assert passes.vectors is not None
        rows = rows_of(model, *passes.vectors, passes.popularity)
        part = self.team.part(len(np.unique(task.val.links[0])))
        tallies = self.team.gather(rank_all(rows, task.val.links, task.known_rows("val"), part=part))
        return loss, scores | sum(tallies[1:], tallies[0]).scores()

    @property
    def selected_by(self) -> str:
        assert isinstance(self.task, LinkTask)
        return link_metric(self.task, self.options.select_by)

    def goodness(self, name: str, value: float) -> float:  # noqa: ARG002
        return value  # of every metric of links, more is better


def rows_of(model: LinkPredictor, z: Tensor, y: Tensor, popularity: Tensor) -> Callable[[Array], Array]:
    """A function that scores some sources with every target."""
    device = model.bias.device
    y, popularity = y.to(device), popularity.to(device)

    def rows(sources: Array) -> Array:
        values: Array = model.rows(z[torch.from_numpy(np.asarray(sources))].to(device), y, popularity).cpu().numpy()
        return values

    return rows


def link_metric(task: LinkTask, select_by: str) -> str:
    """The validation metric that chooses the epoch; ROC-AUC where the ranking of all targets is too large."""
    if select_by == "auto":
        select_by = task.select_by
    if select_by not in SELECTED_BY:
        raise InputError(
            f'fit.select_by = "{select_by}" does not apply to links: use "auto" or one of {", ".join(SELECTED_BY)}.'
        )
    return "roc_auc" if select_by in RANKING_METRICS and not can_rank(task, "val") else select_by


def screened_start(described: Described, screening: LinkScreening, *, most: int) -> Start:
    """Cut the chosen joined paths in the middle: each encoder starts from its halves."""
    paths = described.paths
    reverses = paths.reverses
    source, target = [], []
    for found in [path for path in screening.paths if path.chosen is not None][:most]:
        near, far = cut(found.steps)
        source.append(tuple(paths.relations[t] for t in near))
        target.append(tuple(reverses[paths.relations[t]] for t in reversed(far)))
    return Start(tuple(source), tuple(target))


def settle(task: LinkTask, config: Config, *, longest: int, seed: int) -> tuple[Config, LinkScreening, Start]:
    """Screen the joined paths; they decide the path length and the channels that are "auto", and the start."""
    described = held_out(task, longest=longest, seed=seed, features=False)  # encoders read features themselves
    screening = screening_of(described, seed=seed)
    options = config.model
    if not isinstance(options, MetaPathOptions):
        return config, screening, Start((), ())
    start = screened_start(described, screening, most=options.most_channels)
    if options.start == "uniform":
        start = Start((), ())
    numbers = {"path_length": start.length or UNIFORM_LENGTH, "num_channels": len(start.source) or UNIFORM_CHANNELS}
    chosen = {key: value for key, value in numbers.items() if getattr(options, key) == "auto"}
    return config.model_copy(update={"model": options.model_copy(update=chosen)}), screening, start


def train_encoders(
    graphs: LinkGraphs,
    config: Config,
    options: LinkModelOptions,
    start: Start,
    *,
    resume: Callable[[State], None] | None = None,
    watch: Callable[[State], None] | None = None,
    team: Team = ALONE,
) -> State:
    """Train and choose the epoch on validation; test pairs are not read.

    Args:
        resume: A function that may replace the state before the first step.
        team: The processes that train together; each of them calls this.
    """
    task = graphs.task
    link_metric(task, config.fit.select_by)
    with torch.random.fork_rng(devices=[]):  # keep the caller's random state unchanged
        torch.manual_seed(config.fit.seed)
        device = chosen_device(config.fit.device, team)
        graphs = graphs.on(device)
        inputs = graphs.stages["val"]
        model = options.build(config, inputs).to(device)
        _start_filters(model, start)
        state = State.start(model, config.fit)
        if resume is not None:
            resume(state)
        if not state.epoch:
            model.backbone.prepare(inputs.features, inputs.stack)
            if state.average is not None:
                state.average.load_state_dict(model.state_dict())
        passes = (LinkBatches if config.batch.size else WholeLinks)(graphs, model, config, team)
        LinkTrainer(state, passes, task, config.fit, team).run(watch or (lambda _: None))
    assert state.best is not None
    model.load_state_dict(state.best.weights)
    model.cpu().eval()
    return state


def _start_filters(model: LinkPredictor, start: Start) -> None:
    """Channel c of both encoders starts from the halves of joined path c; one encoder of both takes the sources'."""
    for encoder, halves in zip(model.backbone.encoders, (start.source, start.target), strict=False):
        for filters in encoder.hop_filters()[:1]:
            filters.start_from([half for half in halves if len(half) <= filters.path_length])
