"""Faults and bad inputs for as long as one likes; the counts are for docs/reliability.md.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/faults/soak.py --minutes 60

Two workers run side by side: one tries bad inputs, the other injects faults. Each stores its counts after every step.
An interrupted soak that is started again continues with them.
"""

import argparse
import gc
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from faults.counts import Counts, fingerprint, tables
from faults.doors import file_doors
from faults.folder_doors import SearchFolder, StoredFolder
from faults.fuzzing import fuzz
from faults.injections import Faults, all_faults
from faults.processes import Trouble
from faults.serving import Requests, ServeFaults
from faults.value_doors import ValueDoor, value_doors

MEMORY = Path("/dev/shm")  # files in memory: a disk would be waited for most of the time
QUICK = 1500  # inputs per second from which on a door gets the full time; slower ones get less, at least a quarter
TIMES = 3  # how often a fault is injected into a command that is quicker than half of the others

Injection = tuple[Faults | ServeFaults, str]


@dataclass(frozen=True)
class Worker:
    """One half of a soak: its counts, the file that keeps them, and when it has done enough."""

    file: Path
    counts: Counts
    seconds: float
    least: int

    def run(self, names: list[Any], step: Callable[[Any], None]) -> None:
        """Whole rounds of all names, until the time is over and there are enough counts."""
        parent = os.getppid()
        while self.counts.steps % len(names) or self.counts.seconds < self.seconds or self.counts.total < self.least:
            started = time.monotonic()
            step(names[self.counts.steps % len(names)])
            self.counts.steps += 1
            self.counts.seconds += time.monotonic() - started
            self.counts.store(self.file)
            if os.getppid() != parent:  # the soak was killed
                return

    def note(self, line: str) -> None:
        """Keep a failure, and say it at once: a soak is watched."""
        self.counts.troubles.append(line.replace("\n", " "))
        sys.stdout.write(self.counts.troubles[-1] + "\n")
        sys.stdout.flush()


def try_inputs(worker: Worker, doors: dict[str, Any], seed: int, seconds: float) -> None:
    """Bad inputs for one door after the other."""
    counts = worker.counts

    def step(name: str) -> None:
        tried = counts.table.setdefault(name, Counter())
        rate = tried.total() / counts.spent[name] if counts.spent.get(name) else 0
        label = f"{name}, seed {seed}/{counts.steps}"
        fuzzed = fuzz(doors[name], label, seconds * min(max(rate / QUICK, 0.25), 1))
        tried.update(fuzzed.ends)
        counts.spent[name] = counts.spent.get(name, 0.0) + fuzzed.seconds
        for line in fuzzed.notes:
            worker.note(f"{label}: {line}")

    worker.run(list(doors), step)


def inject_faults(worker: Worker, injections: list[Injection], seed: int) -> None:
    """Every kind of fault for one command after the other."""
    counts, commands = worker.counts, [faults for faults, _ in injections]
    for faults in commands:
        faults.counts = counts.table.setdefault(faults.command.name, Counter())
        faults.harm = counts.harm

    def step(injection: Injection) -> None:
        faults, kind = injection
        random = Random(f"{seed}/{counts.steps}")
        usual = median({each.command.name: each.seconds for each in commands}.values())
        is_quick = faults.seconds <= usual and kind != "kill_worker"
        for _ in range(TIMES if is_quick else 1):
            try:
                getattr(faults, kind)(random)
            except Trouble as trouble:
                counts.harm["not survived"] += 1
                worker.note(f"seed {seed}/{counts.steps}, {kind}: {trouble}")

    worker.run(injections, step)


def all_injections(commands: list[Faults | ServeFaults]) -> list[Injection]:
    """Each command with each kind of fault that can happen to it."""
    kinds = {faults.command.name: ["interrupt"] for faults in commands}
    for faults in commands:
        if isinstance(faults, Faults):
            kinds[faults.command.name] += ["fill_disk", "forbid_writing", "damage_file", "two_at_once"]
    if "bench" in kinds:
        kinds["bench"].append("kill_worker")
    return [(faults, kind) for faults in commands for kind in kinds[faults.command.name]]


def make_folders(folder: Path, doors: dict[str, Any]) -> None:
    """What the doors of folders damage, made once by other processes: this one must start no thread."""
    for number, door in enumerate(doors.values()):
        use = getattr(door, "use", None)
        if isinstance(use, StoredFolder | SearchFolder):
            place = folder / f"door-{number}" / "run"
            place.parent.mkdir()
            os.waitpid(fork(lambda use=use, place=place: use.make(place)), 0)
            use.remember(place)


def fork(work: Callable[[], object]) -> int:
    """Run something in a child; its exit code is 1 if that fails."""
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # only the soak itself tidies up after this signal
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def main() -> None:
    """Run both workers, then print the counts; exit code 1 if anything failed, 3 if the soak was interrupted."""
    options = _options()
    options.state.mkdir(parents=True, exist_ok=True)
    files, source = [options.state / f"{name}.json" for name in ("inputs", "faults")], fingerprint()
    least = (options.inputs, options.faults)
    inputs, faults = (
        Worker(file, Counts.load(file, source), 60 * options.minutes, count)
        for file, count in zip(files, least, strict=True)
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        tempfile.tempdir = name
        doors: dict[str, Any] = file_doors() | value_doors()
        commands: list[Faults | ServeFaults] = [*all_faults(Path(name)), ServeFaults(Path(name))]
        doors["requests to the server"] = ValueDoor(Requests(Path(name) / "inputs" / "run"))
        make_folders(Path(name), doors)
        gc.freeze()  # a collection in a child would copy the memory that it shares with this process
        workers = [
            fork(lambda: try_inputs(inputs, doors, options.seed, options.seconds)),
            fork(lambda: inject_faults(faults, all_injections(commands), options.seed)),
        ]
        is_whole = _wait(workers)
    done = [Counts.load(file, source) for file in files]
    (options.state / "counts.md").write_text(text := tables(*done))
    sys.stdout.write(text)
    if not is_whole:
        sys.exit(3)
    for file in files:
        file.unlink()  # the next soak begins at zero
    sys.exit(0 if all(counts.is_clean for counts in done) else 1)


def _wait(workers: list[int]) -> bool:
    """Whether both workers came to their end; they end with this process in any case."""
    left = set(workers)
    try:
        codes = []
        while left:
            pid, status = os.wait()
            left.discard(pid)
            codes.append(status)
        return not any(codes)
    finally:
        for pid in left:
            os.kill(pid, signal.SIGTERM)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="in all, also over several starts")
    parser.add_argument("--inputs", type=int, default=0, help="go on until this many bad inputs were tried")
    parser.add_argument("--faults", type=int, default=0, help="go on until this many faults were injected")
    parser.add_argument("--seconds", type=float, default=2.0, help="processor time for each door and round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=MEMORY if MEMORY.is_dir() else None, help="for all files")
    parser.add_argument("--state", type=Path, default=Path("build/soak"), help="the counts so far, and counts.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
