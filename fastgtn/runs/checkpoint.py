"""The complete training state in one file without pickle, so that an interrupted run resumes bit for bit."""

import json
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.runs.files import damaged, no_space, require_file, write_whole
from fastgtn.system import own_folder
from fastgtn.training.loop import Best, State, Weights

NAME = "checkpoint/state.safetensors"
FORMAT = 1  # of weights and checkpoints; see "Versions of run folders" in docs/training.md
MOMENTS = ("exp_avg", "exp_avg_sq")


class _BestFacts(BaseModel):
    model_config = ConfigDict(strict=True)

    epoch: int
    score: float
    val_loss: float


class _Facts(BaseModel):
    """The metadata of a checkpoint."""

    model_config = ConfigDict(strict=True)

    epoch: int
    seconds: float
    best: _BestFacts | None = None


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
    own_folder(folder / "checkpoint")
    store_tensors(folder / NAME, tensors, {"facts": json.dumps(facts)})


def restore(folder: Path, state: State, history: list[dict[str, Any]]) -> bool:
    """Restore the state of the checkpoint; returns False if there is none."""
    path = folder / NAME
    if not path.exists():
        return False
    tensors, metadata = read_tensors(path)
    try:
        facts = _Facts.model_validate_json(metadata["facts"])
        state.model.load_state_dict(_under("model", tensors))
        if state.average is not None:
            state.average.load_state_dict(_under("average", tensors))
        slots = state.optimizer.state_dict()
        slots["state"] = _optimizer_slots(tensors, state.optimizer)
        state.optimizer.load_state_dict(slots)
        if facts.best is not None:
            state.best = _best(facts, _under("best", tensors), state.model.state_dict())
        state.seconds = facts.seconds
        state.history = history[: facts.epoch]
        torch.set_rng_state(tensors["rng"])
    except (KeyError, ValueError, RuntimeError, TypeError) as error:
        raise damaged(path, " ".join(str(error).split())) from None
    if state.epoch != facts.epoch:
        raise damaged(folder / "history.jsonl", f"{state.epoch} epochs of {facts.epoch}")
    return True


def _optimizer_slots(tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    """Adam's moments of each parameter. Its fused kernel trusts their shapes, so they are compared here."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("optimizer.")})
    found = {number: _under(f"optimizer.{number}", tensors) for number in numbers}
    for number, slots in found.items():
        if not 0 <= number < len(parameters):
            raise ValueError(f"there are moments of parameter {number}, but the model has {len(parameters)}")
        expected = dict.fromkeys(MOMENTS, parameters[number]) | {"step": torch.tensor(0.0)}
        _require_like(slots, expected, f"optimizer.{number}")
    return found


def _best(facts: _Facts, weights: Weights, expected: Weights) -> Best:
    assert facts.best is not None
    if not 1 <= facts.best.epoch <= facts.epoch:
        raise ValueError(f"the best epoch is {facts.best.epoch} of {facts.epoch}")
    _require_like(weights, expected, "best")
    return Best(facts.best.epoch, facts.best.score, facts.best.val_loss, weights)


def _require_like(found: Weights, expected: Weights, what: str) -> None:
    """Refuse tensors of other names, shapes or types."""
    if found.keys() != expected.keys():
        names = sorted(found.keys() ^ expected.keys())
        raise ValueError(f"{what}.{names[0]} is missing or not expected")
    for name, tensor in found.items():
        mine, theirs = ((list(t.shape), t.dtype) for t in (expected[name], tensor))
        if mine != theirs:
            raise ValueError(f"{what}.{name} has shape {theirs[0]} and {theirs[1]} instead of {mine[0]} and {mine[1]}")


def store_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write named tensors, all at once. A tensor that two parts of a model share is written under both names."""
    apart: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.detach().clone() if place in places else tensor.detach().contiguous()
        places.add(place)
    try:
        write_whole(path, lambda temporary: save_file(apart, temporary, metadata | {"format": str(FORMAT)}))
    except SafetensorError as error:  # the error that safetensors raises if the disk refuses to write
        raise no_space(path, error) from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors and the texts stored with them; files of a later format are refused."""
    try:
        require_file(path)
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            _require_known(path, metadata)
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from None


def _require_known(path: Path, metadata: dict[str, str]) -> None:
    """Files without a number have format 1; early builds of version 0.1.0 wrote them."""
    stored = metadata.get("format", "1")
    if not stored.isdecimal():
        raise damaged(path, f'its format is "{stored[:20]}", not a number')
    if int(stored[:9]) > FORMAT:
        raise InputError(
            f"{path} has format {stored[:9]}, and this version of fastgtn reads formats up to {FORMAT}: "
            "update fastgtn (pip install --upgrade fastgtn)."
        )


def is_whole(path: Path) -> bool:
    """Whether a file of tensors is complete; the tensors are not read."""
    try:
        require_file(path)
        with safe_open(path, "pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
