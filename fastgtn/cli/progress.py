"""How a training run shows itself: a bar on a terminal, one line per seed elsewhere; always on stderr."""

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
from fastgtn.data import NodeTask
from fastgtn.relations import IDENTITY
from fastgtn.training import Config
from fastgtn.training.build import Inputs
from fastgtn.training.loop import State
from fastgtn.training.memory import MemoryPlan
from fastgtn.training.runs import Listener, name_of

MAIN_METRICS = {"ndcg": "NDCG", "micro_f1": "micro-F1"}  # the first that a task has is shown

LARGE = 1_000_000  # edges from which on the memory is spoken of


class StoppableBar:
    """A bar on a terminal, silence elsewhere; tells a user who stops the work how it goes on."""

    def __init__(self, clock: ProgressColumn) -> None:
        layout = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"),
            clock,
        )  # fmt: skip
        self.bar = Progress(*layout, console=stderr, transient=True, disable=not stderr.is_terminal)

    def how_to_continue(self) -> str | None:
        """What to say; None where nothing is there to go on with."""
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
    """Loss, validation metric and time left of the seed that is being trained."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.inputs: Inputs | None = None
        self.folder: Path | None = None
        self.has_said_propagation = False
        super().__init__(TimeRemainingColumn())
        self.tasks: dict[int, TaskID] = {}

    def how_to_continue(self) -> str | None:
        return None if self.folder is None else f"continue with: fastgtn train --resume --out {self.folder}"

    def started(self, inputs: Inputs, task: NodeTask, folder: Path, plan: MemoryPlan) -> None:  # noqa: ARG002
        self.inputs, self.folder = inputs, folder
        if inputs.raw.num_edges > LARGE:
            words = [f"{name.removesuffix('_gb').replace('_', ' ')} {gb:.1f} GB" for name, gb in plan.to_json().items()]
            stderr.print(f"memory about: {' · '.join(words)}", markup=False)

    def epoch_done(self, seed: int, state: State) -> None:
        self._say_propagation(state)
        if self.bar.disable:
            return
        if seed not in self.tasks:
            self.tasks[seed] = self.bar.add_task(f"seed {seed}", total=self.config.fit.epochs, facts="")
        record = state.history[-1]
        val = {name.removeprefix("val_"): value for name, value in record.items()}
        self.bar.update(
            self.tasks[seed], completed=state.epoch, facts=f"loss {record['loss']:.3f} · val {main_metric(val)}"
        )

    def _say_propagation(self, state: State) -> None:
        """Once, where there was something to choose."""
        chosen = state.propagation
        if self.has_said_propagation or chosen is None or chosen.implicit_cost is None or chosen.unrolled_cost is None:
            return
        self.has_said_propagation = True
        stderr.print(
            f"propagation {chosen.chosen} ({chosen.reason}): implicit {chosen.implicit_cost / 1e6:,.1f} million per "
            f"epoch, unrolled {chosen.unrolled_cost / 1e6:,.1f} million · {chosen.paths} paths, "
            f"{chosen.megabytes:,.1f} MB",
            markup=False,
        )

    def seed_done(self, run: dict[str, Any]) -> None:
        if run["seed"] in self.tasks:
            self.bar.remove_task(self.tasks[run["seed"]])
        stderr.print(
            f"seed {run['seed']} · epoch {run['epoch']} · val {main_metric(run['val'])} · "
            f"test {main_metric(run['test'])} · {run['seconds']:.1f} s · {run['peak_memory_mb']:.0f} MB",
            markup=False,
        )

    def say_inputs(self) -> None:
        """Name the graph and the model of a result."""
        assert self.inputs is not None
        stack = self.inputs.stack
        named = sum(relation != IDENTITY for relation in stack.relations)
        identity = " + identity" if stack.has_identity else ""
        say("graph", f"{name_of(self.config)} · {stack.num_nodes:,} nodes · {named} relations{identity}")
        say("model", self.config.model.summary)


def main_metric(scores: dict[str, float]) -> str:
    """The metric that epochs are chosen by, in points."""
    for name, title in MAIN_METRICS.items():
        if name in scores:
            return f"{title} {100 * scores[name]:.2f}"
    return "–"
