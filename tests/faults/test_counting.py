"""The soak can fail: crashes, hangs, lost results and differing bits that are made on purpose are counted."""

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from faults.commands import Command, files, without_today
from faults.counts import Counts, OtherVersion, tables
from faults.fuzzing import LEAST, Limits, fuzz
from faults.injections import Faults
from faults.processes import ABORTED, Trouble, start
from faults.soak import TIMES, Worker, inject_faults, try_inputs


def crash() -> None:
    faulthandler.disable()  # pytest would print the stack of every thread
    ctypes.string_at(0)


def hang() -> None:
    while True:
        pass


def wait() -> None:
    time.sleep(60)


def leave() -> None:
    raise SystemExit


def fail() -> None:
    raise KeyError("no error of ours")


@dataclass
class BadDoor:
    """A door that reads two inputs and then does something that no door may do."""

    deed: Callable[[], None]
    tried: int = 0

    def attempt(self, _random: Random, _folder: Path) -> str:
        """Says "read" twice."""
        self.tried += 1
        if self.tried == 3:
            self.deed()
        return "read"


@pytest.mark.parametrize(
    ("deed", "limits", "note"),
    [
        (crash, Limits(), "attempt 2 ends the process with code -11"),
        (hang, Limits(processor=0.2), "attempt 2 ends the process with code -27"),
        (wait, Limits(silence=0.5), "attempt 2 is silent"),
        (leave, Limits(), "attempt 2 ends the process with code 1"),
    ],
)
def test_a_door_that_ends_its_process_is_counted_as_a_crash(
    deed: Callable[[], None], limits: Limits, note: str
) -> None:
    fuzzed = fuzz(BadDoor(deed), "0", 0, limits)
    assert fuzzed.ends == {"read": 2, "crash": 1}
    assert [line.startswith(note) for line in fuzzed.notes] == [True]


def test_another_error_is_counted_and_the_next_inputs_are_tried() -> None:
    fuzzed = fuzz(BadDoor(fail), "0", 0)
    assert fuzzed.ends == {"read": LEAST - 1, "foreign": 1}
    assert "KeyError: 'no error of ours'" in fuzzed.notes[0]


def write_well(out: Path, stop: Callable[[], None]) -> None:
    if not (out / "a.json").exists():
        (out / "a.json").write_text("[1]")
    stop()
    (out / "b.json").write_text("[2]")


def write_anew(out: Path, stop: Callable[[], None]) -> None:
    """Finished work is thrown away at every start."""
    (out / "a.json").unlink(missing_ok=True)
    write_well(out, stop)


def write_otherwise(out: Path, stop: Callable[[], None]) -> None:
    """The result shows that there was an interruption."""
    is_new = not (out / "a.json").exists()
    write_well(out, stop)
    (out / "b.json").write_text(json.dumps(is_new))


def write_halves(out: Path, stop: Callable[[], None]) -> None:
    """A file has its final name before it is complete."""
    (out / "b.json").write_text("[1,")
    stop()
    (out / "b.json").write_text("[1, 2]")


def fail_again(out: Path, stop: Callable[[], None]) -> None:
    """What was interrupted cannot be continued."""
    if (out / "a.json").exists():
        raise KeyError("a.json")
    write_well(out, stop)


Write = Callable[[Path, Callable[[], None]], None]


class SmallFaults(Faults):
    """Faults of a small program instead of a command of fastgtn; it is killed at a known moment."""

    def __init__(self, write: Write, folder: Path) -> None:
        self.is_stopped = False
        run = lambda: write(Path(sys.argv[1]), self._stop)  # noqa: E731
        results = files("a.json", "b.json")
        super().__init__(Command("small", lambda _, place: [str(place)], results, _times, program=run), folder)

    def interrupt(self, _random: Random) -> None:
        """One kill between the two files of the program."""
        place, self.is_stopped = self._place(), True
        self._start(place).end().require(-signal.SIGKILL, fault="kill -9")
        self.is_stopped = False
        self.counts["kill -9"] += 1
        self.check_left(place, "kill -9")
        self.finish(place, "kill -9")

    def _stop(self) -> None:
        if self.is_stopped:
            os.kill(os.getpid(), signal.SIGKILL)


def _times(folder: Path) -> dict[str, str]:
    """The first file is finished work: it must not be made twice."""
    path = folder / "a.json"
    return {"a.json": str(path.stat().st_mtime_ns)} if path.exists() else {}


@pytest.mark.parametrize(
    ("write", "harm"),
    [
        (write_well, {}),
        (write_anew, {"not survived": TIMES, "lost results": TIMES}),
        (write_otherwise, {"not survived": TIMES, "differing files": TIMES}),
        (write_halves, {"not survived": TIMES}),
        (fail_again, {"not survived": TIMES}),
    ],
)
def test_a_program_that_loses_work_is_found(write: Write, harm: dict[str, int], tmp_path: Path) -> None:
    worker = Worker(tmp_path / "faults.json", Counts(), seconds=0, least=1)
    inject_faults(worker, [(SmallFaults(write, tmp_path), "interrupt")], seed=0)
    stored = Counts.load(tmp_path / "faults.json", "")
    assert stored.table == {"small": Counter({"kill -9": TIMES})}
    assert (stored.harm, stored.is_clean) == (harm, not harm)


def test_an_undisturbed_program_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="has no results"):
        SmallFaults(lambda _, __: None, tmp_path)


def test_an_interrupted_soak_continues_with_its_counts(tmp_path: Path) -> None:
    file, doors = tmp_path / "inputs.json", {"good": BadDoor(lambda: None), "bad": BadDoor(crash)}
    try_inputs(Worker(file, Counts(source="1"), seconds=0, least=1), doors, seed=0, seconds=0)
    first, first_text = Counts.load(file, "1"), file.read_text()
    assert first.table == {"good": Counter(read=LEAST), "bad": Counter(read=2, crash=1)}
    try_inputs(Worker(file, first, seconds=0, least=first.total + 1), doors, seed=0, seconds=0)
    second = Counts.load(file, "1")
    assert second.table == {"good": Counter(read=2 * LEAST), "bad": Counter(read=4, crash=2)}
    assert (second.steps, len(second.troubles)) == (4, 2)
    assert second.seconds > json.loads(first_text)["seconds"]
    assert "| bad | 6 | 4 | 0 | 0 | 2 |" in tables(second, Counts())
    with pytest.raises(OtherVersion, match="another version"):
        Counts.load(file, "2")


def test_only_the_day_of_writing_is_left_out_of_a_comparison(tmp_path: Path) -> None:
    page, midnight = tmp_path / "page.html", 1_763_424_000  # 18 November 2025, 0:00 UTC
    contents = []
    for day, seconds in (("17 November 2025", -5), ("17 November 2025", 1), ("18 November 2025", 1)):
        page.write_text(f"<p>{day}, after 3 May 2024</p>")
        os.utime(page, (midnight + seconds, midnight + seconds))
        contents.append(without_today(page))
    assert contents == [b"<p>DATE, after 3 May 2024</p>"] * 3
    os.utime(page, (midnight + 200_000, midnight + 200_000))
    assert b"18 November 2025" in without_today(page)


def test_a_command_that_does_not_end_is_killed_and_counted() -> None:
    process = start(["hang"], program=wait)
    with pytest.raises(Trouble, match="has not ended"):
        process.end(patience=3)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_ctrl_c_reaches_a_command_of_a_soak_that_ignores_it() -> None:
    """A shell starts background jobs with SIGINT ignored. What is not disturbed must not be counted as survived."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = start(["wait"], program=wait)
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.signal(signal.SIGINT, after=0)
    assert process.end().code in ABORTED
