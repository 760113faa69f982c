"""Files that are whole or absent, whenever the process ends."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError


def write_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file under another name, flush it to the disk, then give it its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # always the same name: what a killed process left behind is overwritten by the next one
    temporary = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        fill(temporary)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that we wrote."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None
    if not isinstance(value, dict):
        raise damaged(path, "it is not a JSON object")
    return value


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep a second process out of a folder; the lock ends with the process, however that ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another process is training into {folder}: wait for it, or choose another --out."
            ) from None
        yield


def damaged(path: Path, reason: object) -> InputError:
    """The answer to a file of a run that cannot be read."""
    return InputError(
        f"{path} is missing or damaged ({reason}): the run cannot be used as it is. fastgtn train --resume makes a "
        "finished seed anew from its checkpoint; where that is what is damaged, delete the seed's folder first."
    )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
