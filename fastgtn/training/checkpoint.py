"""The whole state of training in one file without pickle, so that a killed run continues bit for bit."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fastgtn.training.files import damaged, write_whole
from fastgtn.training.loop import Best, State

NAME = "checkpoint/state.safetensors"


def save(folder: Path, state: State) -> None:
    """Weights, their average, the best weights, the optimiser and the random generator, in one atomic file."""
    tensors = {"rng": torch.get_rng_state(), **_prefixed("model", state.model.state_dict())}
    if state.average is not None:
        tensors |= _prefixed("average", state.average.state_dict())
    facts: dict[str, Any] = {"epoch": state.epoch, "seconds": state.seconds}
    if state.best is not None:
        tensors |= _prefixed("best", state.best.weights)
        facts["best"] = {"epoch": state.best.epoch, "score": state.best.score, "val_loss": state.best.val_loss}
    for number, slots in state.optimizer.state_dict()["state"].items():
        tensors |= _prefixed(f"optimizer.{number}", slots)
    store_tensors(folder / NAME, tensors, {"facts": json.dumps(facts)})


def restore(folder: Path, state: State, history: list[dict[str, Any]]) -> bool:
    """Continue where the checkpoint was made; False where there is none yet."""
    path = folder / NAME
    if not path.exists():
        return False
    tensors, metadata = read_tensors(path)
    try:
        facts = json.loads(metadata["facts"])
        state.model.load_state_dict(_under("model", tensors))
        if state.average is not None:
            state.average.load_state_dict(_under("average", tensors))
        slots = state.optimizer.state_dict()
        numbers = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("optimizer.")})
        slots["state"] = {number: _under(f"optimizer.{number}", tensors) for number in numbers}
        state.optimizer.load_state_dict(slots)
        if "best" in facts:
            state.best = Best(**facts["best"], weights=_under("best", tensors))
        state.seconds = float(facts["seconds"])
        state.history = history[: facts["epoch"]]
        torch.set_rng_state(tensors["rng"])
    except (KeyError, ValueError, RuntimeError, TypeError) as error:
        raise damaged(path, error) from None
    if state.epoch != facts["epoch"]:
        raise damaged(folder / "history.jsonl", f"{state.epoch} epochs of {facts['epoch']}")
    return True


def store_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write named tensors, all at once."""
    apart = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_whole(path, lambda temporary: save_file(apart, temporary, metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors and the texts stored with them."""
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from None


def is_whole(path: Path) -> bool:
    """Whether a file of tensors is there from its beginning to its end; the tensors are not read."""
    try:
        with safe_open(path, "pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
