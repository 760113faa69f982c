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
from fastgtn.training.config import Config
from fastgtn.training.files import damaged, read_json, write_json, write_text, write_whole
from fastgtn.training.fit import Result, Watch, fit_inputs
from fastgtn.training.loop import DivergedError, Record, State
from fastgtn.training.predictions import prediction_table, write_table
from fastgtn.training.schema import Schema


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One training of a run. `result.json` is written last: where it exists, the seed is finished."""

    folder: Path
    config: Config
    schema: Schema
    graph: HeteroData

    def finished(self) -> dict[str, Any] | None:
        """The stored result, if there is one."""
        path = self.folder / "result.json"
        return read_json(path) if path.exists() else None

    def train(self, inputs: Inputs, task: NodeTask, show: Watch) -> Result:
        """Train from the last checkpoint, or from the beginning; a diverged run keeps its history."""
        write_text(self.folder / "config.toml", self.config.to_toml())
        history = read_history(self.folder)
        every = self.config.fit.checkpoint_every
        board = tensorboard_writer(self.folder) if self.config.fit.tensorboard else None
        last: list[State] = []

        def resume(state: State) -> None:
            last.append(state)
            checkpoint.restore(self.folder, state, history)

        def watch(state: State) -> None:
            if every and state.epoch % every == 0:
                self._keep(state)
            if board is not None:
                for name, value in state.history[-1].items():
                    board.add_scalar(name, value, state.epoch)
            show(state)

        try:
            result = fit_inputs(inputs, task, self.config, resume=resume, watch=watch)
        except DivergedError as error:
            write_history(self.folder, last[0].history)
            write_json(self.folder / "failed.json", {"error": str(error), "epoch": last[0].epoch})
            raise DivergedError(f"{error} The history is in {self.folder}.") from None
        finally:
            if board is not None:
                board.close()
        return result

    def store(self, result: Result, task: NodeTask, facts: dict[str, Any]) -> None:
        """Write all that a finished seed has."""
        write_history(self.folder, result.history)
        arrays: dict[str, Any] = {f"layer_{n}": weights for n, weights in enumerate(result.filters)}
        arrays["relations"] = np.array([str(r) for r in result.model.backbone.hop_filters()[0].relations])
        write_whole(self.folder / "filters.npz", lambda path: np.savez(path, **arrays))
        table = prediction_table(self.schema, self.graph, result.logits, task)
        write_table(table, self.folder / "predictions.parquet")
        metadata = {"schema": json.dumps(self.schema.to_json()), "config": self.config.model_dump_json()}
        checkpoint.store_tensors(self.folder / "model.safetensors", result.model.state_dict(), metadata)
        (self.folder / "failed.json").unlink(missing_ok=True)
        write_json(self.folder / "result.json", facts)

    def _keep(self, state: State) -> None:
        write_history(self.folder, state.history)  # before the checkpoint: it must have every epoch of it
        checkpoint.save(self.folder, state)


def write_history(folder: Path, history: list[Record]) -> None:
    write_text(folder / "history.jsonl", "".join(json.dumps(record) + "\n" for record in history))


def read_history(folder: Path) -> list[Record]:
    """One record per epoch; none before the first checkpoint."""
    path = folder / "history.jsonl"
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None


def tensorboard_writer(folder: Path) -> Any:
    """A writer of TensorBoard, which is an optional package."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("fit.tensorboard needs the package: pip install 'fastgtn[tensorboard]'.") from None
    return SummaryWriter(str(folder / "tensorboard"))
