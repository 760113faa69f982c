"""The short form of the soak: every door meets some bad inputs, and every kind of fault is injected."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from faults.doors import damaged, damaged_values, file_doors
from faults.folder_doors import StoredFolder
from faults.value_doors import value_doors

TESTS = Path(__file__).parents[1]
FILE_DOORS = file_doors()
VALUE_DOORS = value_doors()
DOORS = FILE_DOORS | VALUE_DOORS
FOLDERS = {name: door.use for name, door in VALUE_DOORS.items() if isinstance(door.use, StoredFolder)}
ATTEMPTS = {"MATLAB file": 3, "search database": 5, "public calls": 3, "CSV table": 10, "Parquet table": 10}
FAULTS = """
from pathlib import Path
from random import Random
import sys
from faults.injections import all_faults
random, injected = Random(0), 0
for faults in all_faults(Path(sys.argv[1]), tuple(sys.argv[3:])):
    for name in sys.argv[2].split(","):
        getattr(faults, name)(random)
    injected += sum(faults.counts.values())
print(injected)
"""

SERVER = """
from pathlib import Path
from random import Random
import sys
from faults.injections import all_faults
from faults.serving import Requests, ServeFaults
from faults.value_doors import ValueDoor
folder, random = Path(sys.argv[1]), Random(0)
all_faults(folder, ("train",))
faults = ServeFaults(folder)
for _ in range(3):
    faults.interrupt(random)
door = ValueDoor(Requests(folder / "inputs" / "run"))
print(len([door.attempt(random, folder) for _ in range(25)]), sum(faults.counts.values()))
"""


@pytest.mark.parametrize("name", DOORS)
def test_bad_inputs_are_read_or_refused(name: str, tmp_path: Path) -> None:
    """Anything but an `InputError` fails here, with its traceback."""
    random = Random(name)
    ends = [DOORS[name].attempt(random, tmp_path) for _ in range(ATTEMPTS.get(name, 25))]
    assert set(ends) <= {"read", "refused"}


@pytest.mark.parametrize("name", FILE_DOORS)
def test_the_good_input_of_a_door_is_good(name: str, tmp_path: Path) -> None:
    """Otherwise the fuzzing would only ever see its first check."""
    path = tmp_path / FILE_DOORS[name].name
    path.write_bytes(FILE_DOORS[name].good)
    FILE_DOORS[name].read(path)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_nobody_changed_is_used(name: str, tmp_path: Path) -> None:
    FOLDERS[name].make(tmp_path / "run")
    FOLDERS[name].use(tmp_path / "run")


def test_damage_depends_on_the_seed_alone() -> None:
    data = bytes(range(256))
    assert damaged(data, Random(1)) == damaged(data, Random(1))
    assert len({damaged(data, Random(seed)) for seed in range(50)}) > 40
    text = b'{"a": [1, 2, {"b": "c"}], "d": {"e": null, "f": [[1.5]]}}'
    assert len({damaged_values(text, Random(seed)) for seed in range(50)}) > 10


def test_the_server_survives_bad_requests_and_signals(tmp_path: Path) -> None:
    assert _in_a_process(SERVER, tmp_path) == "25 3"


@pytest.mark.parametrize(
    ("kinds", "commands"),
    [
        ("interrupt", ("train", "tune", "bench", "data build", "screen", "report", "predict")),
        ("fill_disk,forbid_writing,damage_file,two_at_once", ("train", "data build")),
    ],
)
def test_commands_survive_faults(kinds: str, commands: tuple[str, ...], tmp_path: Path) -> None:
    injected = _in_a_process(FAULTS, tmp_path, kinds, *commands)
    assert int(injected) >= len(kinds.split(",")) * len(commands) // 2  # some signals come after the end


def _in_a_process(script: str, folder: Path, *words: str) -> str:
    """The output of a process of its own, which starts no thread and can therefore fork."""
    path = os.pathsep.join([str(TESTS), *(p for p in sys.path if p)])
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), *words],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()
