"""Names of files that are being written, and how to delete those that killed processes have left behind."""

import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial(\.\w+)?")
OLD_SECONDS = 3600  # a temporary file that has not changed for this long was left by a killed process


def temporary_name(path: Path) -> Path:
    """A name beside the final one, with the same ending. It is random, so no link can exist under it."""
    return path.with_name(f".{path.stem}.{secrets.token_hex(8)}.partial{path.suffix}")


def sweep(folder: Path, *, stem: str = "", older_than: float = 0.0) -> None:
    """Delete files and archive folders that killed processes have left half-written in a folder.

    Args:
        stem: Only those of files with this name before the ending.
        older_than: Only files that were not changed in this many seconds: others may be in use.
    """
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if PARTIAL.fullmatch(entry.name)]
    for entry in found:
        if entry.name.startswith(f".{stem}." if stem else "."):
            with suppress(OSError):  # another process may delete it at the same time, or it belongs to another user
                _delete(entry, older_than)


def _delete(entry: os.DirEntry[str], older_than: float) -> None:
    changed = entry.stat(follow_symlinks=False).st_mtime
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_folder:  # a large array may be written for long without any change of the folder itself
        with os.scandir(entry.path) as files:
            changed = max([changed, *(file.stat(follow_symlinks=False).st_mtime for file in files)])
    if time.time() - changed >= older_than:
        (shutil.rmtree if is_folder else os.unlink)(entry.path)
