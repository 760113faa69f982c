"""Search for the config of a model on a graph by validation scores, never by test scores."""

import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from optuna.trial import FrozenTrial, Trial, TrialState
from torch_geometric.data import HeteroData

from fastgtn.config import Config, toml
from fastgtn.data import NodeTask, checksum, load
from fastgtn.errors import InputError
from fastgtn.nn.meta_path_model import MetaPathOptions
from fastgtn.runs.summary import name_of
from fastgtn.training.build import Inputs
from fastgtn.training.fit import check, train_inputs
from fastgtn.training.free_memory import require_memory
from fastgtn.training.loop import State, selection_metric
from fastgtn.training.memory import plan_memory
from fastgtn.training.prepare.decisions import Decisions
from fastgtn.training.prepare.settle import settle
from fastgtn.tuning.output import summary, write_files
from fastgtn.tuning.space import drawn, search_space, storable
from fastgtn.tuning.study import REPORT_EVERY, SharedStudy, locked, open_study


@dataclass(frozen=True)
class Budget:
    """The limits of a search: it ends after this many trials or minutes of training."""

    trials: int = 50
    minutes: float | None = None
    seeds_per_trial: int = 1

    def __post_init__(self) -> None:
        for name, value in (("trials", self.trials), ("seeds-per-trial", self.seeds_per_trial)):
            if value < 1:
                raise InputError(f"--{name} is {value}; it must be at least 1.")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"--minutes is {self.minutes}; it must be more than 0.")


class TuneListener:
    """Receives the events of a search. This base class ignores them."""

    def started(self, ended: int, best: FrozenTrial | None) -> None: ...

    def trial_done(self, trial: FrozenTrial, ended: int, best: FrozenTrial | None) -> None: ...


class _Stopped(Exception):
    """A trial was stopped for the reason in its message."""


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
    graph, task = load(config.dataset, data_dir=data_dir, seed=config.split_seed)
    if task is None:
        raise InputError(
            f"{config.dataset} has no labels and splits, so nothing can be learned: add a task to the graph."
        )
    space = search_space(config, toml.flat(fixed or {}))
    if not space:
        raise InputError("all searchable keys are set with --set: leave some of them free.")
    search = Search(config, graph, without_test(task), budget)
    search.check()
    start = toml.flat(config.model_dump())
    facts = {
        "dataset": name_of(config),
        "model": config.model.label,
        "metric": search.metric,
        "seeds_per_trial": budget.seeds_per_trial,
        "data_checksum": checksum(config.dataset, data_dir=data_dir),
        "config": config.model_dump(mode="json"),
        "searched": sorted(space),
    }
    with open_study(
        Path(out), facts, space, {key: storable(start[key]) for key in space}, seed=config.fit.seed
    ) as study:
        listener.started(len(study.ended()), study.best())
        while search.time_left(study) > 0 and (trial := study.ask(budget.trials)) is not None:
            search.run(trial, study)
            with locked(study.folder):
                write_files(study, config, facts)
            done = study.trials()[trial.number]
            listener.trial_done(done, len(study.ended()), study.best())
        with locked(study.folder):
            write_files(study, config, facts, plot=True)
        if study.best() is None:
            reasons = [trial.user_attrs["reason"] for trial in study.ended()]
            raise InputError(f"none of the {len(reasons)} trials finished; the reason of the last one: {reasons[-1]}")
        return summary(study, facts)


def without_test(task: NodeTask) -> NodeTask:
    """The same task with only the labels of the training and validation splits."""
    return replace(task, _labels=torch.empty(0))


@dataclass(eq=False)
class Search:
    """The state that trials share: the prepared graphs and the rules."""

    config: Config
    graph: HeteroData
    task: NodeTask
    budget: Budget
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

    def time_left(self, study: SharedStudy) -> float:
        """The remaining seconds; unlimited without a time limit and before the first result."""
        if self.budget.minutes is None or study.best() is None:
            return float("inf")
        return 60 * self.budget.minutes - study.seconds()

    def run(self, trial: Trial, study: SharedStudy) -> None:
        """Train one config and record the outcome."""
        watch = StopWatch()
        left = self.time_left(study)
        states: list[State] = []
        try:
            config = Config.of(self.config.model_dump(), drawn(trial.params))
            for seed in range(config.fit.seed, config.fit.seed + self.budget.seeds_per_trial):
                states.append(self._train(config.for_seed(seed), trial if not states else None, watch, left))
        except TimeoutError:
            study.tell(trial, TrialState.FAIL, reason="out of time", seconds=watch.seconds())
            return
        except (_Stopped, InputError) as error:  # a diverged training is also an InputError
            study.tell(trial, TrialState.PRUNED, reason=str(error), seconds=watch.seconds())
            return
        records = [state.history[state.best.epoch - 1] for state in states if state.best is not None]
        study.tell(
            trial,
            TrialState.COMPLETE,
            statistics.fmean(record[f"val_{self.metric}"] for record in records),
            epochs=[record["epoch"] for record in records],
            val_loss=statistics.fmean(r["val_loss"] for r in records),
            seconds=watch.seconds(),
        )

    def _train(self, config: Config, trial: Trial | None, watch: "StopWatch", left: float) -> State:
        def after_epoch(state: State) -> None:
            if watch.seconds() > left:
                raise TimeoutError
            if trial is None or state.epoch % REPORT_EVERY:
                return
            assert state.best is not None
            trial.report(float(state.history[state.best.epoch - 1][f"val_{self.metric}"]), state.epoch)
            if trial.should_prune():
                raise _Stopped(f"below the median of the trials before it after {state.epoch} epochs")

        inputs, settled = self._settled(config)
        return train_inputs(inputs, self.task, settled, watch=after_epoch)

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


class StopWatch:
    """Elapsed time without the time that a busy machine gave to other processes, for equal budgets."""

    def __init__(self) -> None:
        self.clock, self.processor = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """The processor time per thread, which cannot exceed the elapsed time."""
        return min(time.perf_counter() - self.clock, time.process_time() - self.processor)
