"""Search for the settings of a link model by validation scores, with the search that node models have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution

from fastgtn.config import is_path, toml
from fastgtn.data import checksum
from fastgtn.links.fit import choose_links
from fastgtn.links.folder import load_link_task
from fastgtn.links.learned.graphs import LinkGraphs
from fastgtn.links.learned.options import JOINED, LinkModelOptions, encoder_config
from fastgtn.links.learned.train import link_metric, settle, train_encoders
from fastgtn.links.settings import LinkSettings
from fastgtn.links.task import LinkTask
from fastgtn.links.verdict import chosen_by
from fastgtn.nn.backbone_options import Range, field_ranges
from fastgtn.options import Choice, Values, merged
from fastgtn.training.device import chosen_device
from fastgtn.training.loop import State
from fastgtn.training.team import ALONE
from fastgtn.tuning.output import best_header
from fastgtn.tuning.space import CONSISTENCY, drawn, including, search_space, start_values, storable
from fastgtn.tuning.study import SharedStudy
from fastgtn.tuning.trials import AfterEpoch, Budget, Outcome, Trials, TuneListener

LONGEST = Choice((2, 3, 4, 5))


def tune_links(
    settings: LinkSettings,
    *,
    out: str | Path,
    budget: Budget | None = None,
    fixed: Values | None = None,
    data_dir: str | Path | None = None,
    listener: TuneListener | None = None,
) -> dict[str, Any]:
    """Search near the settings of a link model until the budget is spent, or resume the search in a folder.

    Args:
        settings: The first trial, and the values of keys that are not searched.
        out: The folder of the search. Several processes may share it.
        fixed: Nested values that are not searched.
    """
    budget = budget or Budget()
    if settings.model != JOINED:  # a missing device is reported before the graph is read
        chosen_device(encoder_config(settings.model, settings.values)[0].fit.device, ALONE)
    space, first = link_space(settings, fixed or {})
    search = LinkSearch(settings, data_dir)
    facts = {
        "dataset": Path(settings.dataset).stem if is_path(settings.dataset) else settings.dataset,
        "model": settings.model,
        "metric": search.metric,
        "seeds_per_trial": budget.seeds_per_trial,
        "data_checksum": checksum(settings.dataset, data_dir=data_dir),
        "config": settings.to_json(),
        "searched": sorted(space),
    }

    def best_file(study: SharedStudy) -> str:
        best = study.best()
        assert best is not None
        chosen = search.settings_of(drawn(best.params), settings.seed).nested()
        if is_path(settings.dataset):
            chosen["dataset"] = str(Path(settings.dataset).resolve())  # not relative to the folder of this file
        return best_header(study, facts, "<this file>") + toml.dump(chosen)

    trials = Trials(facts, space, first, settings.seed, search.train, best_file)
    return trials.search(Path(out), budget, listener or TuneListener())


@dataclass(eq=False)
class LinkSearch:
    """What trials share: the tasks of the seeds, without their test pairs."""

    settings: LinkSettings
    data_dir: str | Path | None = None
    tasks: dict[int, LinkTask] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The validation metric by which trials are compared."""
        task = self.task(self.settings.seed)
        if self.settings.model == JOINED:
            return link_metric(task, "auto")
        found = link_metric(task, encoder_config(self.settings.model, self.settings.values)[0].fit.select_by)
        return link_metric(task, "auto") if found in ("last", "loss") else found

    def task(self, seed: int) -> LinkTask:
        """The task of a seed. Test links and later edges are in none of its graphs."""
        if seed not in self.tasks:
            found = load_link_task(replace(self.settings, seed=seed), data_dir=self.data_dir)
            self.tasks[seed] = found.without_test()
        return self.tasks[seed]

    def settings_of(self, values: Values, seed: int) -> LinkSettings:
        """The settings of a trial."""
        return LinkSettings.of(merged(self.settings.nested(), merged(values, {"fit": {"seed": seed}})))

    def train(self, values: Values, seed: int, after_epoch: AfterEpoch) -> Outcome:
        """Train one link model with one seed."""
        settings, task = self.settings_of(values, seed), self.task(seed)
        if settings.model == JOINED:
            result = choose_links(task, longest=settings.longest, seed=seed)
            after_epoch(0, result.score)
            logits = result.predict(task.val.source, task.val.target, stage="val")
            loss = float(np.logaddexp(0, np.where(task.val.labels > 0, -logits, logits)).mean())
            return Outcome(0, chosen_by(task, result.val), loss)
        config, options = encoder_config(settings.model, settings.values, seed=seed)
        config, _, start = settle(task, config, longest=settings.longest, seed=seed)

        def record(state: State) -> dict[str, Any]:
            assert state.best is not None
            return state.history[state.best.epoch - 1]

        def watch(state: State) -> None:
            after_epoch(state.epoch, float(record(state)[f"val_{self.metric}"]))

        found = record(train_encoders(LinkGraphs.of(task, config), config, options, start, watch=watch))
        return Outcome(found["epoch"], found[f"val_{self.metric}"], found["val_loss"])


def link_space(settings: LinkSettings, fixed: Values) -> tuple[dict[str, BaseDistribution], dict[str, Any]]:
    """The ranges of all keys that are searched, and their values in the settings."""
    ranges: dict[str, Range] = {"link.longest": LONGEST}
    start: dict[str, Any] = {"link.longest": settings.longest}
    space: dict[str, BaseDistribution] = {}
    known = toml.flat(fixed)
    if settings.model != JOINED:
        config, options = encoder_config(settings.model, settings.values)
        ranges |= field_ranges(LinkModelOptions, "model.")
        start |= {f"model.{key}": value for key, value in options.model_dump().items()} | start_values(config)
        # patience ends a training, and pairs have no other nodes to agree on
        space = search_space(config, {**known, "fit.epochs": None, CONSISTENCY: None})
    space |= {key: including(values, start[key]) for key, values in ranges.items() if key not in known}
    return space, {key: storable(start[key]) for key in space}
