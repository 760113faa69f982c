"""What is known about this installation. No user names, no environment beyond the variables that change results."""

import importlib.metadata
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from fastgtn.data import catalog
from fastgtn.data.archive.arrays import memory_bytes
from fastgtn.data.tables.config import Source
from fastgtn.data.tables.source import Tables
from fastgtn.errors import InputError
from fastgtn.relations import RelationStack
from fastgtn.training.free_memory import free_memory

PACKAGES = ("torch", "torch_geometric", "numba", "numpy", "scipy", "duckdb", "pyarrow", "pydantic", "optuna", "typer")
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "FASTGTN_DATA", "NO_COLOR")


def facts() -> dict[str, str]:
    """Versions, threads, memory, device and folders by name."""
    set_variables = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    return {
        "fastgtn": _version("fastgtn"),
        "python": f"{platform.python_version()} ({sys.implementation.name}) on {platform.platform()}",
        "uses": " · ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "threads": f"{torch.get_num_threads()} of torch · {os.cpu_count()} processors",
        "memory": _memory(),
        "device": _device(),
        "data": _data(),
        "set": " · ".join(set_variables) or "none of the variables that change threads, folders or colours",
    }


def checks() -> dict[str, str | None]:
    """What works (None) and what does not (why), by name."""
    return {"kernels": _failure(_try_kernels), "tables": _failure(_try_tables), "writing": _failure(_try_writing)}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _memory() -> str:
    free = free_memory()
    return f"{memory_bytes() / 1e9:.1f} GB" + ("" if free is None else f" · {free / 1e9:.1f} GB free")


def _device() -> str:
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()} (CUDA {torch.version.cuda})"
    return "MPS" if torch.backends.mps.is_available() else "CPU only"


def _data() -> str:
    try:
        folder = catalog.data_folder()
    except InputError as error:
        return str(error)
    if not folder.is_dir():
        return f"{folder}, which does not exist yet; the built-in graph needs no folder"
    return f"{folder} · {len(catalog.available())} graphs"


def _failure(attempt: Callable[[], None]) -> str | None:
    try:
        attempt()
    except Exception as error:  # any failure is what the user wants to know
        return f"FAILS ({type(error).__name__}: {error})"
    return None


def _try_kernels() -> None:
    """The compiled kernels give the same as a dense product."""
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    stack = RelationStack.from_edges({("n", "r", "n"): edges}, {"n": 3}, identity=False)
    h = torch.arange(6.0).reshape(3, 1, 2)
    dense = torch.zeros(3, 3)
    dense[edges[1], edges[0]] = 1
    if not torch.equal(stack.propagate(h, torch.ones(1, 1))[:, 0], dense @ h[:, 0]):
        raise ArithmeticError("the compiled kernels give other numbers than a dense product")


def _try_tables() -> None:
    """A child process can be started, and DuckDB answers in it."""
    with tempfile.TemporaryDirectory() as folder, Tables(Path(folder)) as tables:
        tables.read(Source(sql="SELECT 1 AS id"), ["id"], where="doctor")


def _try_writing() -> None:
    """The current folder, where runs are written, can be written to."""
    with tempfile.TemporaryFile(dir="."):
        pass
