"""Bad inputs for one door, in a child process that is watched: a crash in C is counted and does not end the soak."""

import os
import resource
import select
import signal
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

KEYS = ("read", "refused", "foreign", "crash")
LEAST = 5  # inputs that every door gets each time, however slow it is


class Attempts(Protocol):
    """A door: one attempt says "read" or "refused"; other errors are raised."""

    def attempt(self, random: Random, folder: Path) -> str:
        """Try one bad input; files may be written into the folder."""


@dataclass(frozen=True)
class Limits:
    """What one input may take at most: seconds of the processor, seconds of silence, megabytes of memory."""

    processor: float = 20
    silence: float = 600
    megabytes: int = 4096


@dataclass
class Fuzzed:
    """How many attempts ended in which way, what has to be said about them, and their processor time."""

    ends: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def fuzz(door: Attempts, seed: str, seconds: float, limits: Limits | None = None) -> Fuzzed:
    """Attempts on one door for some seconds of processor time, at least `LEAST` of them."""
    limits = limits or Limits()
    before = _processor_time()
    with tempfile.TemporaryDirectory() as folder:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            os._exit(_child(door, Random(seed), seconds, limits, Path(folder), write))
        os.close(write)
        text, is_silent = _read(read, limits.silence)
        os.close(read)
        if is_silent:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lines = text.split("\n")
    fuzzed = Fuzzed(Counter(line for line in lines if line in KEYS), [line[1:] for line in lines if line[:1] == "!"])
    if code or is_silent:
        how = f"is silent for {limits.silence:.0f} s" if is_silent else f"ends the process with code {code}"
        fuzzed.ends["crash"] += 1
        fuzzed.notes.append(f"attempt {fuzzed.ends.total() - 1} {how}")
    fuzzed.seconds = _processor_time() - before
    return fuzzed


def _read(pipe: int, silence: float) -> tuple[str, bool]:
    """Everything until the end of a pipe, and whether nothing came for too long."""
    data = b""
    while select.select([pipe], [], [], silence)[0]:
        if not (part := os.read(pipe, 1 << 16)):
            return data.decode(errors="replace"), False
        data += part
    return data.decode(errors="replace"), True


def _child(door: Attempts, random: Random, seconds: float, limits: Limits, folder: Path, write: int) -> int:
    """The exit code; whatever leaves this function as an exception would run the code of the parent again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the server's log
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (limits.megabytes << 20),) * 2)
        end, latest, number = _processor_time() + seconds, time.monotonic() + 20 * seconds, 0
        while (_processor_time() < end and time.monotonic() < latest) or number < LEAST:
            signal.setitimer(signal.ITIMER_PROF, limits.processor)
            os.write(write, _ending(door, random, folder, number).encode())  # at once: the next one may be a crash
            number += 1
    except BaseException:
        return 1
    return 0


def _ending(door: Attempts, random: Random, folder: Path, number: int) -> str:
    try:
        return door.attempt(random, folder) + "\n"
    except Exception:
        last = traceback.format_exc().strip().splitlines()
        where = last[-3].strip() if len(last) > 2 else ""
        return f"foreign\n!attempt {number}: {last[-1]} ({where})\n"


def _processor_time() -> float:
    """Seconds of this process and of the children that have ended: some readers start one for each file."""
    return sum(os.times()[:4])
