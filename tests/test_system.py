"""The package works where the modules of Linux and macOS do not exist."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastgtn import system
from fastgtn.errors import InputError

BLOCKED = """
import importlib, pkgutil, sys
for other in ("torch_geometric", "numba", "optuna", "matplotlib.figure", "pyarrow", "duckdb", "typer"):
    importlib.import_module(other)  # those of other projects have their own ways on Windows
for name in ("fcntl", "resource", "msvcrt"):
    sys.modules[name] = None  # importing it raises ImportError
import fastgtn
for module in pkgutil.walk_packages(fastgtn.__path__, "fastgtn."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # the kernel for GPUs alone may miss what only GPUs need
            if (module.name, error.name) != ("fastgtn.relations.kernels.gpu", "triton"):
                raise
from fastgtn import system
assert 10 < system.peak_memory_mb() < 1e6
from pathlib import Path
from fastgtn.runs.files import alone_in, write_text
with alone_in(Path(sys.argv[1])):
    write_text(Path(sys.argv[1]) / "text.txt", "α")
"""


def test_every_module_imports_without_fcntl_and_resource(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", BLOCKED, str(tmp_path)], check=True)
    assert (tmp_path / "text.txt").read_text(encoding="utf-8") == "α"


class _Msvcrt:
    """The one function of Windows that is used, on the lock of this system."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.holder: int | None = None

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        assert (mode, size, os.lseek(descriptor, 0, os.SEEK_CUR)) == (self.LK_NBLCK, 1, 0)
        if self.holder not in (None, descriptor):
            raise OSError(13, "Permission denied")
        self.holder = descriptor


@pytest.mark.parametrize("windows", [False, True])
def test_a_lock_is_held_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: bool) -> None:
    if windows:
        monkeypatch.setattr(system, "fcntl", None)
        monkeypatch.setattr(system, "msvcrt", _Msvcrt())
    first, second = (system.open_own(tmp_path / "lock", create=True) for _ in range(2))
    assert system.lock(first, wait=False)
    assert not system.lock(second, wait=False)
    os.close(first)
    if windows:
        system.msvcrt.holder = None
    assert system.lock(second, wait=True)
    os.close(second)


def test_a_new_file_is_never_one_that_exists(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("target", "link"):
        with pytest.raises(FileExistsError):
            system.create_new(tmp_path / name)
    with pytest.raises(InputError, match="link is a symbolic link"):
        system.own_folder(tmp_path / "link")


def test_memory_is_counted_in_megabytes() -> None:
    assert 10 < system.peak_memory_mb() < 1e6
