"""The folder of one seed: what is written during training, and what at its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_geometric.data import HeteroData

from fastgtn.config import Config, FitOptions
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.runs import checkpoint
from fastgtn.runs.files import write_json, write_text
from fastgtn.runs.records import read_history, read_result, write_history
from fastgtn.runs.result import Result
from fastgtn.runs.save import store_seed
from fastgtn.runs.schema import Schema
from fastgtn.system import own_folder
from fastgtn.training.build import Inputs
from fastgtn.training.fit import Trained, Watch, train_inputs
from fastgtn.training.loop import DivergedError, Record, State
from fastgtn.training.team import ALONE, Team, is_launched


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One training of a run. `result.json` is written last: where it exists, the seed is finished."""

    folder: Path
    config: Config
    schema: Schema
    graph: HeteroData
    team: Team = ALONE

    def finished(self) -> dict[str, Any] | None:
        """The stored result. None if it is missing or damaged, or the weights are: the seed is then trained again."""
        try:
            result = read_result(self.folder)
        except InputError:
            return None
        return result if checkpoint.is_whole(self.folder / "model.safetensors") else None

    def train(self, inputs: Inputs, task: NodeTask, show: Watch) -> State:
        """Train from the last checkpoint, or from the beginning; a diverged run keeps its history."""
        if self.team.leads:
            own_folder(self.folder)
            write_text(self.folder / "config.toml", self.config.to_toml())
        recorder = Recorder(self.folder, self.config.fit, show, writes=self.team.leads)
        try:
            return train_inputs(inputs, task, self.config, resume=recorder.resume, watch=recorder.watch, team=self.team)
        except DivergedError as error:
            if self.team.leads:
                write_history(self.folder, recorder.history)
                write_json(self.folder / "failed.json", {"error": str(error), "epoch": len(recorder.history)})
            raise DivergedError(f"{error} The history is in {self.folder}.") from None
        finally:
            recorder.close()

    def store(self, trained: Trained, task: NodeTask, record: dict[str, Any]) -> dict[str, Any]:
        """Write all that a finished seed has; returns what its `result.json` holds."""
        result = Result.of(trained, self.graph, task, schema=self.schema, record=record, keeps_graph=False)
        store_seed(result, self.folder, self.config, result.facts)
        return result.facts


class Recorder:
    """Writes checkpoints, the history and TensorBoard's events while a seed is trained.

    Of several processes only one writes. What torchrun has started it may start again at any time, so there every
    epoch is kept.
    """

    def __init__(self, folder: Path, options: FitOptions, show: Watch, *, writes: bool) -> None:
        self.folder, self.options, self.show, self.writes = folder, options, show, writes
        self.every = 1 if is_launched() else options.checkpoint_every
        self.history: list[Record] = []
        self.board: Any = None

    def resume(self, state: State) -> None:
        checkpoint.restore(self.folder, state, read_history(self.folder))
        self.history = state.history
        if self.options.tensorboard and self.writes:
            self.board = tensorboard_writer(self.folder, state.epoch + 1)

    def watch(self, state: State) -> None:
        is_due = state.epoch == self.options.most_epochs or (self.every and state.epoch % self.every == 0)
        if self.writes and is_due:
            write_history(self.folder, state.history)  # before the checkpoint: it must have every epoch of it
            checkpoint.save(self.folder, state)
        if self.board is not None:
            for name, value in state.history[-1].items():
                self.board.add_scalar(name, value, state.epoch)
        self.show(state)

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def tensorboard_writer(folder: Path, first_epoch: int) -> Any:
    """A writer of TensorBoard, which is an optional package; epochs that will be repeated are hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("fit.tensorboard needs the package: pip install 'fastgtn[tensorboard]'.") from None
    return SummaryWriter(str(own_folder(folder / "tensorboard")), purge_step=first_epoch)
