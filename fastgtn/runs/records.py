"""The records of a finished seed, which are written once and checked when they are read."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from fastgtn.runs.files import damaged, read_json, read_text, write_text
from fastgtn.training.loop import Record


class Facts(BaseModel):
    """What readers of a JSON file rely on; other keys may be there."""

    model_config = ConfigDict(strict=True, extra="allow")


class _SeedFacts(Facts):
    """What readers of a seed's result rely on."""

    seed: int
    epoch: int
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    peak_memory_mb: float
    versions: dict[str, str] = {}


class _SeedName(Facts):
    seed: int


class _RunFacts(Facts):
    """What readers of a run's summary rely on."""

    runs: list[_SeedName]


def read_result(folder: Path) -> dict[str, Any]:
    """The `result.json` of one seed."""
    return checked(folder / "result.json", _SeedFacts)


def finished_seeds(folder: Path) -> list[int]:
    """The seeds in the summary of a run."""
    return [run["seed"] for run in checked(folder / "result.json", _RunFacts)["runs"]]


def write_history(folder: Path, history: list[Record]) -> None:
    write_text(folder / "history.jsonl", "".join(json.dumps(record) + "\n" for record in history))


def read_history(folder: Path) -> list[Record]:
    """One record per epoch; none before the first checkpoint."""
    path = folder / "history.jsonl"
    if not path.exists():
        return []
    text = read_text(path)
    try:
        records = [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from None
    for number, record in enumerate(records, 1):
        numbers = isinstance(record, dict) and all(map(_is_finite, record.values()))
        if not numbers or not isinstance(record.get("epoch"), int):
            raise damaged(path, f"line {number} is not a record of an epoch")
    return records


def checked(path: Path, kind: type[Facts]) -> dict[str, Any]:
    """A JSON object whose values have the right types."""
    value = read_json(path)
    try:
        kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise damaged(path, f"{place}: {first['msg']}") from None
    return value


def _is_finite(value: object) -> bool:
    """A number that can be drawn: training stops before it would write another."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
