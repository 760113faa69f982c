"""Search for the config of a model on a graph by validation scores, never by test scores."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import HeteroData

from fastgtn.config import Config, toml
from fastgtn.data import NodeTask, checksum
from fastgtn.data.catalog import load_labelled
from fastgtn.data.moments import all_moments
from fastgtn.errors import InputError
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.options import Values
from fastgtn.runs.summary import name_of
from fastgtn.training.build import Inputs
from fastgtn.training.consistency import missing_for_consistency
from fastgtn.training.device import chosen_device
from fastgtn.training.fit import check, train_inputs
from fastgtn.training.free_memory import require_memory
from fastgtn.training.loop import State, selection_metric
from fastgtn.training.memory import plan_memory
from fastgtn.training.prepare.decisions import Decisions
from fastgtn.training.prepare.settle import settle
from fastgtn.training.team import ALONE
from fastgtn.tuning.output import best_config
from fastgtn.tuning.space import CONSISTENCY, search_space, start_values, storable
from fastgtn.tuning.trials import AfterEpoch, Budget, Outcome, Trials, TuneListener


def tune(
    config: Config,
    *,
    out: str | Path,
    budget: Budget | None = None,
    fixed: dict[str, Any] | None = None,
    data_dir: str | Path | None = None,
    listener: TuneListener | None = None,
) -> dict[str, Any]:
    """Search near a config until the budget is spent, or resume the search in a folder.

    Args:
        config: The first trial, and the values of keys that are not searched.
        out: The folder of the search. Several processes may share it.
        fixed: Nested values that are not searched.
    """
    budget, listener = budget or Budget(), listener or TuneListener()
    chosen_device(config.fit.device, ALONE)  # a missing one is reported before the graph is read
    graph, task = load_labelled(config.dataset, data_dir=data_dir, seed=config.split_seed)
    start = start_values(config)
    known = toml.flat(fixed or {})
    if missing_for_consistency(task, config, is_timed=all_moments(graph) is not None):
        known = {CONSISTENCY: 0.0} | known
    space = search_space(config, known)
    search = Search(config, graph, without_test(task))
    if space:
        search.check()
    facts = {
        "dataset": name_of(config),
        "model": config.model.label,
        "metric": search.metric,
        "seeds_per_trial": budget.seeds_per_trial,
        "data_checksum": checksum(config.dataset, data_dir=data_dir),
        "config": config.model_dump(mode="json"),
        "searched": sorted(space),
    }
    first = {key: storable(start[key]) for key in space}
    best_file = partial(best_config, config=config, facts=facts)
    trials = Trials(facts, space, first, config.fit.seed, search.train, best_file)
    return trials.search(Path(out), budget, listener)


def without_test(task: NodeTask) -> NodeTask:
    """The same task with only the labels of the training and validation splits."""
    return replace(task, _labels=torch.empty(0))


@dataclass(eq=False)
class Search:
    """The state that trials share: the prepared graphs and the rules."""

    config: Config
    graph: HeteroData
    task: NodeTask
    inputs: dict[str, Inputs] = field(default_factory=dict)
    decisions: dict[tuple[Any, ...], Decisions] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The validation metric by which trials are compared."""
        name = selection_metric(self.task, self.config.fit)
        if not len(self.task.val):
            raise InputError("the validation split is empty, so it cannot choose a config: add labelled nodes to it.")
        return self.task.selection_metric if name in ("last", "loss") else name

    def check(self) -> None:
        """Refuse a config that cannot be trained, before anything is written."""
        require_memory(plan_memory(self.graph, self.task, self.config), self.config)
        inputs, settled = self._settled(self.config)
        check(inputs, self.task, settled)

    def train(self, values: Values, seed: int, after_epoch: AfterEpoch) -> Outcome:
        """Train one config with one seed."""
        config = Config.of(self.config.model_dump(), values).for_seed(seed)

        def watch(state: State) -> None:
            assert state.best is not None
            after_epoch(state.epoch, float(state.history[state.best.epoch - 1][f"val_{self.metric}"]))

        inputs, settled = self._settled(config)
        state = train_inputs(inputs, self.task, settled, watch=watch)
        assert state.best is not None
        record = state.history[state.best.epoch - 1]
        return Outcome(record["epoch"], record[f"val_{self.metric}"], record["val_loss"])

    def _settled(self, config: Config) -> tuple[Inputs, Config]:
        """Inputs and a config without open keys; trials that read the same graph alike share a screening."""
        options = config.model
        numbers = (options.longest, options.most_channels) if isinstance(options, MetaPathOptions) else ()
        open_keys = [key for key, value in toml.flat(config.model_dump()).items() if value == "auto"]
        key = (self._key(config), options.name, numbers, tuple(open_keys))
        inputs, settled = settle(self._inputs(config), self.task, config, stored=self.decisions.get(key))
        self.decisions[key] = inputs.decisions
        return inputs, settled

    def _key(self, config: Config) -> str:
        return config.graph.model_dump_json() + config.features.model_dump_json()

    def _inputs(self, config: Config) -> Inputs:
        key = self._key(config)
        if key not in self.inputs:
            self.inputs[key] = Inputs.of(self.graph, config)
        return self.inputs[key]
