"""What differs between operating systems: file locks, links, flushing to the disk, and how memory is counted.

`fcntl` and `resource` exist on Linux and macOS only, `msvcrt` on Windows only. No other file imports them, except
`data/child/start.py`, which runs alone and limits the memory of a child process.
"""

import importlib
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError


def _optional(name: str) -> Any:
    """A module that only some systems have, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fcntl, msvcrt, resource = _optional("fcntl"), _optional("msvcrt"), _optional("resource")

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a link is refused; a pipe does not block
BINARY = getattr(os, "O_BINARY", 0)  # without it, Windows changes line ends


def lock(descriptor: int, *, wait: bool) -> bool:
    """Take the exclusive lock of an open file; False if another process holds it and `wait` is off.

    The lock ends when the file is closed, or with the process. On a system without file locks, no process is excluded.
    """
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    elif msvcrt is not None:
        while not _lock_first_byte(descriptor):
            if not wait:
                return False
            time.sleep(0.05)
    return True


def _lock_first_byte(descriptor: int) -> bool:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def open_own(path: Path, *, create: bool) -> int:
    """Open a file for a lock: a regular file under exactly this name, whose content stays as it is.

    Args:
        create: Make the file where there is none.
    """
    flags = os.O_RDWR | BINARY | NO_LINKS | (os.O_CREAT if create else 0)
    _refuse_link(path)  # for systems without O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError:
        _refuse_link(path)
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path} is not a regular file: delete it, or choose another folder.")
    return descriptor


def create_new(path: Path) -> int:
    """Create a file that must not exist yet, with the permissions that the user's umask gives; returns its mode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY | NO_LINKS, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def own_folder(path: Path) -> Path:
    """Make a folder, or take the one that exists unless it is a link to somewhere else."""
    _refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk; Windows cannot flush folders."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, in MB."""
    if resource is None:
        memory = importlib.import_module("psutil").Process().memory_info()  # PyG needs psutil, so it is installed
        return float(getattr(memory, "peak_wset", memory.rss)) / 2**20
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak / 2 ** (20 if sys.platform == "darwin" else 10)  # macOS counts bytes, Linux kB


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise InputError(
            f"{path} is a symbolic link, and the files of a run are not written through links: "
            "delete the link, or choose another folder."
        )
