"""Timing on a noisy machine: candidates take turns, medians are compared, and memory is measured."""

import ctypes
import importlib
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_PATIENCE = 30  # seconds: a candidate that would take longer in total has fewer rounds


def interleaved(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each candidate; one run of each per round, after one to warm up if there are several.

    Slow candidates take part only in the first rounds, but at least in one.
    """
    first = {name: _seconds(run) for name, run in candidates.items()}
    if rounds == 1:
        return first
    turns = {name: max(1, min(rounds, int(_PATIENCE / max(seconds, 1e-9)))) for name, seconds in first.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds):
        for name, run in candidates.items():
            if number < turns[name]:
                times[name].append(_seconds(run))
    return {name: statistics.median(values) for name, values in times.items()}


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_memory(run: Callable[[], object]) -> float:
    """Bytes of resident memory that a call adds at its peak: counted by Linux, elsewhere sampled every millisecond."""
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # memory that earlier runs freed would hide the memory of this one
    try:
        _CLEAR.write_text("5")  # the largest size so far becomes the size now
    except OSError:
        return _sampled_memory(run)
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    """A size of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def _sampled_memory(run: Callable[[], object]) -> float:
    process = importlib.import_module("psutil").Process()  # PyG needs psutil, so it is installed
    before = peak = process.memory_info().rss
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
    return float(max(peak, process.memory_info().rss) - before)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table that reads well in a terminal and in a README."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(header), rule, *(line(row) for row in rows)])
