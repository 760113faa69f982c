"""Progress of a training run on stderr: a bar on a terminal, otherwise one line per seed."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from fastgtn.cli.output import say, stderr
from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.data.metrics import main_metric, named, title_of
from fastgtn.relations import IDENTITY
from fastgtn.runs.train import Listener
from fastgtn.screening import Screening
from fastgtn.training.build import Inputs, unreached
from fastgtn.training.loop import State
from fastgtn.training.memory import MemoryPlan
from fastgtn.training.prepare.decisions import Decisions

LARGE = 1_000_000  # print the memory estimate for graphs with more edges than this


class StoppableBar:
    """A progress bar, shown on a terminal only. It tells a user who interrupts the work how to resume."""

    def __init__(self, clock: ProgressColumn) -> None:
        layout = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            clock,
        )
        self.bar = Progress(*layout, console=stderr, transient=True, disable=not stderr.is_terminal)

    def how_to_continue(self) -> str | None:
        """The hint to print, or None if there is nothing to resume."""
        return None

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt) and (words := self.how_to_continue()):
            stderr.print(f"stopped; {words}", markup=False)


class ProgressBar(StoppableBar, Listener):
    """Loss, validation metric and remaining time of the current seed."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.inputs: Inputs | None = None
        self.folder: Path | None = None
        self.has_said_propagation = False
        super().__init__(TimeRemainingColumn())
        self.tasks: dict[int, TaskID] = {}
        self.screening: TaskID | None = None
        self.trials: TaskID | None = None

    def how_to_continue(self) -> str | None:
        return None if self.folder is None else f"continue with: fastgtn train --resume --out {self.folder}"

    def screened(self, done: int, total: int) -> None:
        if self.screening is None:
            self.screening = self.bar.add_task("screening", total=total, facts="meta-paths")
        self.bar.update(self.screening, completed=done, total=total)

    def tried(self, done: int, total: int) -> None:
        if self.trials is None:
            self.trials = self.bar.add_task("trials", total=total, facts="short trainings that choose settings")
        self.bar.update(self.trials, completed=done, total=total)

    def started(self, inputs: Inputs, task: NodeTask, config: Config, folder: Path, plan: MemoryPlan) -> None:
        self.inputs, self.config, self.folder = inputs, config, folder
        for early in (self.screening, self.trials):
            if early is not None:
                self.bar.remove_task(early)
        if warning := unreached(inputs, task, config):
            stderr.print(f"warning: {warning}", markup=False, style="yellow")
        if task.has_rare_class:
            name, share = min(zip(task.class_names, task.balance, strict=True), key=lambda pair: pair[1])
            stderr.print(
                f'note: the class "{name}" has {100 * share:.1f} % of the training nodes, so epochs are chosen by '
                f"{title_of(task.selection_metric)} unless fit.select_by says otherwise; micro-F1 says little.",
                markup=False,
            )
        if inputs.raw.num_edges > LARGE:
            words = [f"{name.removesuffix('_gb').replace('_', ' ')} {gb:.1f} GB" for name, gb in plan.to_json().items()]
            stderr.print(f"estimated memory: {' · '.join(words)}", markup=False)

    def epoch_done(self, seed: int, state: State) -> None:
        self._say_propagation(state)
        if self.bar.disable:
            return
        if seed not in self.tasks:
            self.tasks[seed] = self.bar.add_task(f"seed {seed}", total=self.config.fit.most_epochs, facts="")
        record = state.history[-1]
        val = {name.removeprefix("val_"): value for name, value in record.items()}
        self.bar.update(
            self.tasks[seed], completed=state.epoch, facts=f"loss {record['loss']:.3f} · val {shown_score(val)}"
        )

    def _say_propagation(self, state: State) -> None:
        """Print the choice of the propagation mode once, if there was a choice."""
        chosen = state.propagation
        if self.has_said_propagation or chosen is None or chosen.implicit_cost is None or chosen.unrolled_cost is None:
            return
        self.has_said_propagation = True
        stderr.print(
            f"propagation: {chosen.chosen} ({chosen.reason}); an epoch reads {chosen.unrolled_cost / 1e6:,.1f} "
            f"million numbers unrolled and {chosen.implicit_cost / 1e6:,.1f} million implicit "
            f"({chosen.paths} paths, {chosen.megabytes:,.1f} MB of tables)",
            markup=False,
        )

    def seed_done(self, run: dict[str, Any]) -> None:
        if run["seed"] in self.tasks:
            self.bar.remove_task(self.tasks[run["seed"]])
        chosen_by = run.get("selected_by")
        stderr.print(
            f"seed {run['seed']} · epoch {run['epoch']} · val {shown_score(run['val'], chosen_by)} · "
            f"test {shown_score(run['test'], chosen_by)} · {run['seconds']:.1f} s · {run['peak_memory_mb']:.0f} MB",
            markup=False,
        )

    def say_inputs(self, dataset: str) -> None:
        """Print the graph and the model of a result."""
        assert self.inputs is not None
        stack = self.inputs.stack
        named = sum(relation != IDENTITY for relation in stack.relations)
        identity = " + identity" if stack.has_identity else ""
        say("graph", f"{dataset} · {stack.num_nodes:,} nodes · {named} relations{identity}")
        say("model", self.config.model.summary)
        if self.inputs.screening is not None:
            is_start = self.config.model.model_dump().get("start") != "uniform"
            say("start" if is_start else "screen", start_line(self.inputs.screening, is_start=is_start))
        if line := trials_line(self.inputs.decisions):
            say("trials", line)


def start_line(screening: Screening, *, is_start: bool = True) -> str:
    """The screened paths, from which the filters start unless short trainings preferred uniform filters."""
    looked = f"{len(screening):,} meta-paths screened in {screening.seconds:.1f} s"
    if not screening.chosen:
        return f"uniform filters: none of the {looked} predicts the training labels better than chance"
    names = ", ".join(path.name for path in screening.chosen)
    line = f"{names} · {100 * screening.joint:.0f} % of the variance of the labels · {looked}"
    return line if is_start else f"{line}; the filters start uniform"


def trials_line(decisions: Decisions) -> str:
    """What short trainings decided, and how long they took; empty where nothing was tried."""
    tried = [trial for trial in decisions.trials if trial.score is not None]
    if not tried:
        return ""
    seconds = sum(trial.seconds for trial in decisions.trials)
    chosen = ", ".join(f"{key} = {value}" for key, value in decisions.outcome.items() if value != "auto")
    return f"{chosen} · the best of {len(tried)} on validation nodes, {seconds:.1f} s"


def shown_score(scores: dict[str, float], chosen_by: str | None = None) -> str:
    """The metric that epochs are chosen by, for people."""
    main = named(chosen_by) if chosen_by in scores else main_metric(scores)
    return "–" if main is None else f"{main.title} {main.shown(scores[main.name])}"
