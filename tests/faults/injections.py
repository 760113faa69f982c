"""Faults at random moments of a command; whether anything was lost, and whether it ends as an undisturbed one."""

import importlib
import os
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import torch
from faults.commands import COMMANDS, Command, make_inputs, require_whole
from faults.processes import ABORTED, CLEAN, MISTAKE, Process, Trouble, read_only, start

from fastgtn.leftovers import OLD_SECONDS, PARTIAL
from fastgtn.relations import RelationStack

SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
ENDS = {"kill -9": (-signal.SIGKILL,), "SIGTERM": (-signal.SIGTERM,), "Ctrl-C": (*ABORTED, -signal.SIGINT)}


def all_faults(folder: Path, only: tuple[str, ...] = ()) -> list["Faults"]:
    """The faults of every command; a finished run is among the inputs of those that read one."""
    inputs = folder / "inputs"
    make_inputs(inputs)
    edges = {("n", "r", "n"): torch.tensor([[0], [1]])}
    RelationStack.from_edges(edges, {"n": 2})  # numba prepares itself at its first call: once for all processes
    found = []
    for command in COMMANDS:
        if not only or command.name in ("train", *only):
            found.append(Faults(command, folder))
        if command.name == "train":
            shutil.copytree(found[-1].whole / "run", inputs / "run")
    return [faults for faults in found if not only or faults.command.name in only]


class Faults:
    """Injects faults into one command, and counts them."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.folder = command, folder
        self.inputs, self.whole = folder / "inputs", folder / f"whole {command.name}"
        self.counts: Counter[str] = Counter()
        self.harm: Counter[str] = Counter()
        self.whole.mkdir()
        modules = folder / "modules"
        self._start(self.whole, modules=modules).end().require(CLEAN, fault="nothing")
        self.expected = command.results(self.whole)
        if not self.expected:
            raise Trouble(f"{command.name} has no results")
        _import(modules.read_text().split())
        self.seconds = 0.0
        self.finish(self._place(), "nothing")

    def interrupt(self, random: Random) -> None:
        """One to three signals at random moments, each followed by a new start; the last one runs to the end."""
        before, latest = self.counts.total(), self.seconds
        while self.counts.total() == before:  # if all came after the end, sooner ones are sent
            place = self._place()
            for _ in range(random.randint(1, 3)):
                name = random.choice(list(SIGNALS))
                process = self._start(place)
                self.counts[name] += process.signal(SIGNALS[name], after=random.random() * latest)
                process.end().require(CLEAN, *ENDS[name], fault=f"{name} during {self.command.name}")
                self.check_left(place, name)
            latest /= 2
        self.finish(place, "signals")

    def fill_disk(self, random: Random) -> None:
        """No file may grow beyond a random size; then there is room again."""
        place = self._place()
        size = random.choice([random.randint(1, 2_000), random.randint(1, 20_000), random.randint(1, 200_000)])
        end = self._start(place, disk=size).end()
        end.require(CLEAN, MISTAKE, fault=f"a full disk during {self.command.name}")
        self.counts["disk full"] += end.code == MISTAKE  # otherwise no file was that large
        self.check_left(place, "a full disk")
        self.finish(place, "a full disk")

    def forbid_writing(self, random: Random) -> None:
        """The folder becomes read-only, before the first start or after an interrupted one."""
        place = self._place()
        if random.random() < 0.7:
            process = self._start(place)
            self.counts["kill -9"] += process.signal(signal.SIGKILL, after=random.random() * self.seconds)
            process.end().require(CLEAN, -signal.SIGKILL, fault="kill -9")
        with read_only(place):
            end = self._start(place, is_bound=True).end()
        end.require(CLEAN, MISTAKE, fault=f"a read-only folder during {self.command.name}")
        self.counts["read-only folder"] += end.code == MISTAKE  # otherwise everything was written before
        self.check_left(place, "a read-only folder")
        self.finish(place, "a read-only folder")

    def damage_file(self, random: Random) -> None:
        """Cut a file of finished work, or flip one of its bits; then start the command again."""
        place = self._place()
        shutil.copytree(self.whole, place, dirs_exist_ok=True)
        path = random.choice([p for p in sorted(place.rglob("*")) if p.is_file() and p.name != ".lock"])
        data = bytearray(path.read_bytes())
        kind = random.choice(["truncated file", "flipped bit"]) if data else "truncated file"
        if kind == "flipped bit":
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data if kind == "flipped bit" else data[: random.randrange(len(data) + 1)])
        self.counts[kind] += 1
        fault = f"{self.command.name} with a {kind} ({path.relative_to(place)})"
        self._start(place).end().require(CLEAN, MISTAKE, fault=fault)
        if self.command.name == "train":
            self._open(place / "run", fault)

    def two_at_once(self, random: Random) -> None:
        """Two processes write to the same folder; one may be killed. What they leave is the undisturbed result."""
        place = self._place()
        processes = []
        for _ in range(2):
            processes.append(self._start(place))
            time.sleep(random.random() * self.seconds / 4)
        is_killed = random.random() < 0.5
        if is_killed:
            is_hit = random.choice(processes).signal(signal.SIGKILL, after=random.random() * self.seconds)
            self.counts["one of two processes killed"] += is_hit
        ends = [process.end() for process in processes]
        for end in ends:
            end.require(CLEAN, MISTAKE, *[-signal.SIGKILL] * is_killed, fault=f"two processes of {self.command.name}")
        if not is_killed and CLEAN not in [end.code for end in ends]:
            raise Trouble(f"neither of two processes of {self.command.name} succeeds")
        self.counts["two processes, one folder"] += 1
        self.check_left(place, "two processes")
        self.finish(place, "two processes")

    def kill_worker(self, random: Random) -> None:
        """A parallel benchmark loses one of its workers."""
        place = self._place()
        process = self._start(place, extra=("--jobs", "2"))
        until = time.monotonic() + 60
        time.sleep(random.random() * 6)
        while not (is_killed := process.kill_worker()) and time.monotonic() < until:
            if process.has_ended:
                break
            time.sleep(0.05)
        process.end().require(CLEAN, MISTAKE, fault="a killed worker of bench")
        self.counts["killed worker"] += is_killed
        self.check_left(place, "a killed worker")
        self.finish(place, "a killed worker")

    def check_left(self, place: Path, fault: str) -> None:
        """Whatever has a final name is whole; a file that is the whole result is the right one."""
        for path in place.rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                try:
                    require_whole(path)
                except Exception as error:
                    raise Trouble(f"{fault} during {self.command.name} leaves a damaged {path.name}: {error}") from None

    def finish(self, place: Path, fault: str) -> None:
        """Start again: nothing finished is lost or made twice, and the end is that of an undisturbed process."""
        before = self.command.finished(place)
        for path in place.rglob("*"):
            if PARTIAL.fullmatch(path.name) and not self.command.sweeps:
                old = time.time() - 2 * OLD_SECONDS
                os.utime(path, (old, old))
        started, is_new = time.monotonic(), not any(place.iterdir())
        self._start(place).end().require(CLEAN, fault=f"{self.command.name} again after {fault}")
        if is_new or time.monotonic() - started > self.seconds / 2:  # how long an undisturbed run takes at present
            self.seconds = time.monotonic() - started
        else:
            self.seconds *= 0.95
        after = self.command.finished(place)
        if lost := [name for name in before if after.get(name) != before[name]]:
            self.harm["lost results"] += len(lost)
            raise Trouble(f"after {fault}, {self.command.name} has lost {lost}")
        if (results := self.command.results(place)) != self.expected:
            changed = [name for name in {**results, **self.expected} if results.get(name) != self.expected.get(name)]
            self.harm["differing files"] += len(changed)
            raise Trouble(f"after {fault}, the result of {self.command.name} differs: {changed}")
        if left := [path.name for path in place.rglob("*") if PARTIAL.fullmatch(path.name) or ".worker" in path.name]:
            raise Trouble(f"after {fault}, {self.command.name} leaves {left}")

    def _open(self, run: Path, fault: str) -> None:
        for words in (["evaluate", str(run)], ["explain", str(run)]):
            start(words).end().require(CLEAN, MISTAKE, fault=f"{words[0]} after {fault}")

    def _start(
        self,
        place: Path,
        *,
        extra: tuple[str, ...] = (),
        disk: int | None = None,
        is_bound: bool = False,
        modules: Path | None = None,
    ) -> Process:
        words = [*self.command.argv(self.inputs, place), *extra]
        return start(words, program=self.command.program, disk=disk, is_bound=is_bound, modules=modules)

    def _place(self) -> Path:
        place = self.folder / "hurt"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place


def _import(names: list[str]) -> None:
    """Import what a command has imported, so that the next ones need not."""
    for name in names:
        if name not in sys.modules and not name.startswith("__"):
            with suppress(Exception):
                importlib.import_module(name)
