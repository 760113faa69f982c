"""Write files atomically, so that they are complete or absent, and never through a link."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError
from fastgtn.leftovers import OLD_SECONDS, sweep, temporary_name
from fastgtn.system import create_new, flush, lock, open_own

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file under a random name, flush it to the disk, then give it its name.

    The random name cannot be guessed, so no link can exist under it. Every file gets the permissions of the
    user's umask, whatever `fill` makes of them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, stem=path.stem, older_than=OLD_SECONDS)
    temporary = temporary_name(path)
    mode = create_new(temporary)
    try:
        fill(temporary)
        temporary.chmod(mode)
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise no_space(path, error.strerror or error) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_text(path: Path) -> str:
    """Read a text file that fastgtn wrote. A pipe or a device is refused, since reading it may never end."""
    try:
        require_file(path)
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that fastgtn wrote."""
    text = read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from None
    if not isinstance(value, dict):
        raise damaged(path, "it is not a JSON object")
    return value


def require_file(path: Path) -> None:
    """Refuse a file that is not regular, before reading could block."""
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder against a second process. The lock ends with the process."""
    descriptor = open_own(folder / ".lock", create=True)
    try:
        if not lock(descriptor, wait=False):
            raise InputError(f"another process is training into {folder}: wait for it, or choose another --out.")
        yield
    finally:
        os.close(descriptor)


def damaged(path: Path, reason: object) -> InputError:
    """The error for a file of a run that cannot be read."""
    return InputError(
        f"{path} is missing or damaged ({reason}): the run cannot be used. fastgtn train --resume recreates a "
        "finished seed from its checkpoint. If the checkpoint itself is damaged, delete the seed's folder first."
    )


def no_space(path: Path, reason: object) -> InputError:
    """The error for a full disk."""
    return InputError(
        f"{path} could not be written ({reason}): free some space, then run the command again. "
        "Use --resume to continue a training from its last checkpoint."
    )
