"""The folder of one seed: what is written during training, and what at its end."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.training import checkpoint
from fastgtn.training.build import Inputs
from fastgtn.training.config import Config, FitOptions
from fastgtn.training.distributed import ALONE, Team, is_launched
from fastgtn.training.files import write_json, write_text, write_whole
from fastgtn.training.fit import Result, Watch, train_inputs
from fastgtn.training.loop import DivergedError, Record, State
from fastgtn.training.predictions import prediction_tables, write_table
from fastgtn.training.results import read_history, read_result, write_history
from fastgtn.training.schema import Schema


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One training of a run. `result.json` is written last: where it exists, the seed is finished."""

    folder: Path
    config: Config
    schema: Schema
    graph: HeteroData
    team: Team = ALONE

    def finished(self) -> dict[str, Any] | None:
        """The stored result; None where there is none, or where it or its weights are damaged: they are made anew."""
        try:
            result = read_result(self.folder)
        except InputError:
            return None
        return result if checkpoint.is_whole(self.folder / "model.safetensors") else None

    def train(self, inputs: Inputs, task: NodeTask, show: Watch) -> State:
        """Train from the last checkpoint, or from the beginning; a diverged run keeps its history."""
        if self.team.leads:
            write_text(self.folder / "config.toml", self.config.to_toml())
        recorder = _Recorder(self.folder, self.config.fit, show, writes=self.team.leads)
        try:
            return train_inputs(inputs, task, self.config, resume=recorder.resume, watch=recorder.watch, team=self.team)
        except DivergedError as error:
            if self.team.leads:
                write_history(self.folder, recorder.history)
                write_json(self.folder / "failed.json", {"error": str(error), "epoch": len(recorder.history)})
            raise DivergedError(f"{error} The history is in {self.folder}.") from None
        finally:
            recorder.close()

    def store(self, result: Result, task: NodeTask, facts: dict[str, Any]) -> None:
        """Write all that a finished seed has."""
        write_history(self.folder, result.history)
        if result.filters:
            arrays: dict[str, Any] = {f"layer_{n}": weights for n, weights in enumerate(result.filters)}
            arrays["relations"] = np.array([str(r) for r in result.model.backbone.hop_filters()[0].relations])
            write_whole(self.folder / "filters.npz", lambda path: np.savez(path, **arrays))
        tables = prediction_tables(self.schema, self.graph, result.logit_blocks(), task)
        write_table(tables, self.folder / "predictions.parquet")
        metadata = {"schema": json.dumps(self.schema.to_json()), "config": self.config.model_dump_json()}
        checkpoint.store_tensors(self.folder / "model.safetensors", result.model.state_dict(), metadata)
        (self.folder / "failed.json").unlink(missing_ok=True)
        write_json(self.folder / "result.json", facts)


class _Recorder:
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
        is_due = state.epoch == self.options.epochs or (self.every and state.epoch % self.every == 0)
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
    return SummaryWriter(str(folder / "tensorboard"), purge_step=first_epoch)
