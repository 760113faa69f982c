"""Faults and bad inputs for as long as one likes; the counts are for docs/reliability.md.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/faults/soak.py --minutes 60
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from faults.doors import file_doors
from faults.folder_doors import SearchFolder, StoredFolder
from faults.injections import Faults, all_faults
from faults.processes import Trouble
from faults.serving import Requests, ServeFaults
from faults.value_doors import ValueDoor, value_doors

SECONDS = 20  # processor time after which one input counts as a hang
MEGABYTES = 4096  # memory beyond which a bad input counts as a crash
MEMORY = Path("/dev/shm")  # files in memory: a disk would be waited for most of the time
KEYS = ("read", "refused", "foreign", "crash")
DOORS: dict[str, Any] = file_doors() | value_doors()


def fuzz(name: str, seed: int, seconds: float) -> Counter[str]:
    """Attempts on one door in a child, so that a crash in C is counted and does not end the soak."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(_fuzz_child(name, seed, seconds, write))
    os.close(write)
    with os.fdopen(read, errors="replace") as pipe:
        lines = pipe.read().split("\n")
    _, status = os.waitpid(pid, 0)
    ended = Counter(line for line in lines if line in KEYS)
    for line in lines:
        if line.startswith("!"):
            tell(f"{name}, seed {seed}: {line[1:]}")
    if os.WIFSIGNALED(status):
        ended["crash"] += 1
        tell(f"{name}, seed {seed}: attempt {sum(ended.values())} ends the process with signal {os.WTERMSIG(status)}")
    return ended


def _fuzz_child(name: str, seed: int, seconds: float, write: int) -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the server's log
    door, random = DOORS[name], Random(seed)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (MEGABYTES << 20),) * 2)
    with tempfile.TemporaryDirectory() as folder, os.fdopen(write, "w") as pipe:
        end, latest, number = time.process_time() + seconds, time.monotonic() + 20 * seconds, 0
        while (time.process_time() < end and time.monotonic() < latest) or number < 3:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                pipe.write(door.attempt(random, Path(folder)) + "\n")
            except Exception:
                last = traceback.format_exc().strip().splitlines()
                pipe.write(f"foreign\n!attempt {number}: {last[-1]} ({last[-3].strip() if len(last) > 2 else ''})\n")
            pipe.flush()
            number += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
    return 0


def make_folders(folder: Path) -> None:
    """What the doors of folders damage, made once by other processes: this one must start no thread."""
    for number, door in enumerate(DOORS.values()):
        use = getattr(door, "use", None)
        if isinstance(use, StoredFolder | SearchFolder):
            place = folder / f"door-{number}" / "run"
            place.parent.mkdir()
            pid = os.fork()
            if pid == 0:
                try:
                    use.make(place)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            use.remember(place)


def tell(line: str) -> None:
    """Say what happened at once: a soak is watched."""
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


def hurt(faults: Faults | ServeFaults, random: Random, round_number: int) -> int:
    """One fault of each kind; how many were not survived."""
    kinds = [faults.interrupt]
    if isinstance(faults, Faults):
        kinds += [faults.fill_disk, faults.forbid_writing, faults.damage_file, faults.two_at_once]
        if faults.command.name == "bench" and round_number % 4 == 0:
            kinds.append(faults.kill_worker)
    troubles = 0
    for inject in kinds:
        try:
            inject(random)
        except Trouble as trouble:
            troubles += 1
            tell(f"TROUBLE: {trouble}")
    return troubles


def main() -> None:
    """Alternate between faults and bad inputs until the time is over, then print the counts; exit code 1 on trouble."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--inputs", type=int, default=0, help="go on until this many bad inputs were tried")
    parser.add_argument("--faults", type=int, default=0, help="go on until this many faults were injected")
    parser.add_argument("--seconds", type=float, default=1.0, help="processor time for each door and round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=MEMORY if MEMORY.is_dir() else None, help="for all files")
    parser.add_argument("--counts", type=Path, help="write the counts to this file after every round")
    options = parser.parse_args()
    tempfile.tempdir = None if options.folder is None else str(options.folder)
    random = Random(options.seed)
    troubles, round_number, began, text = 0, 0, time.monotonic(), "no time for a round\n"
    with tempfile.TemporaryDirectory() as folder:
        commands: list[Faults | ServeFaults] = [*all_faults(Path(folder)), ServeFaults(Path(folder))]
        DOORS["requests to the server"] = ValueDoor(Requests(Path(folder) / "inputs" / "run"))
        make_folders(Path(folder))
        inputs: dict[str, Counter[str]] = {name: Counter() for name in DOORS}
        while (
            time.monotonic() - began < 60 * options.minutes
            or sum(map(Counter.total, inputs.values())) < options.inputs
            or sum(faults.counts.total() for faults in commands) < options.faults
        ):
            for name, counts in inputs.items():
                slow = 0 < sum(counts.values()) < 1000 * options.seconds  # doors that open slowly get less time
                counts.update(fuzz(name, options.seed + round_number, options.seconds / (4 if slow else 1)))
            for faults in commands:
                for _ in range(2 if faults.seconds <= median(each.seconds for each in commands) else 1):
                    troubles += hurt(faults, random, round_number)
            round_number += 1
            text = table(inputs, commands, troubles, (time.monotonic() - began) / 60)
            if options.counts is not None:
                options.counts.write_text(text)
    sys.stdout.write(text)
    total = sum(inputs.values(), Counter())
    sys.exit(1 if troubles or total["foreign"] or total["crash"] else 0)


def table(inputs: dict[str, Counter[str]], commands: list[Faults | ServeFaults], troubles: int, minutes: float) -> str:
    """The counts as they stand in docs/reliability.md."""
    lines = ["| door | tried | read | refused | other errors | crashes |", "|---|---|---|---|---|---|"]
    total: Counter[str] = sum(inputs.values(), Counter())
    for name, counts in [*inputs.items(), ("**all**", total)]:
        shown = " | ".join(f"{counts[key]:,}" for key in KEYS)
        lines.append(f"| {name} | {sum(counts.values()):,} | {shown} |")
    kinds = sorted({kind for faults in commands for kind in faults.counts})
    lines += ["", f"| fault | {' | '.join(f.command.name for f in commands)} | all |"]
    lines.append("|---" * (len(commands) + 2) + "|")
    for kind in kinds:
        row = [faults.counts[kind] for faults in commands]
        lines.append(f"| {kind} | {' | '.join(f'{count:,}' for count in row)} | {sum(row):,} |")
    sums = [sum(faults.counts.values()) for faults in commands]
    lines.append(f"| **all** | {' | '.join(f'{count:,}' for count in sums)} | {sum(sums):,} |")
    lost, bits = (sum(getattr(f, name) for f in commands) for name in ("lost_results", "differing_bits"))
    lines += ["", f"{minutes:.0f} minutes. Not survived: {troubles}; lost results: {lost}; differing files: {bits}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
