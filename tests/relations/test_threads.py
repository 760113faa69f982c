"""Threads only say who does the work: not one bit of a result depends on them, and they never wait for each other."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from team_calls import KERNELS, digest
from torch import Tensor

from fastgtn import system
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels import cache, neighbours
from fastgtn.relations.kernels import compile as compiling
from fastgtn.relations.kernels.cache import CheckedCacheFile
from fastgtn.relations.kernels.dropout import _drop
from fastgtn.relations.kernels.team import find_team


@pytest.fixture(autouse=True)
def _whole_machine_is_ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So many threads as a test asks for, whatever else runs; the number is set back afterwards."""
    before = torch.get_num_threads()
    monkeypatch.setattr(neighbours, "_runnable", lambda: 0)
    monkeypatch.setattr(neighbours, "_seen_at", -1.0)
    yield
    torch.set_num_threads(before)


DRAWING = ("dropout", "attention")  # they draw from torch's generator, which all threads of a process share


def digest_in_fork(name: str) -> str:
    """Computed by a forked process; empty if that process fails."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, digest(KERNELS[name]()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = pipe.read()
    os.waitpid(pid, 0)
    return found


def on_threads(count: int, run: Callable[[], list[Tensor]]) -> str:
    torch.set_num_threads(count)
    return digest(run())


def test_this_torch_has_a_team() -> None:
    assert find_team() or sys.platform == "win32"


@pytest.mark.parametrize("name", KERNELS)
def test_bits_are_the_same_on_any_number_of_threads(name: str) -> None:
    assert len({on_threads(count, KERNELS[name]) for count in (1, 2, 3, 8, 2)}) == 1


@pytest.mark.parametrize("name", KERNELS)
def test_bits_are_the_same_without_a_team(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = on_threads(3, KERNELS[name])
    monkeypatch.setattr(compiling, "_has_team", False)
    assert on_threads(1, KERNELS[name]) == on_threads(3, KERNELS[name]) == expected


# torch's own team is lost as well: after a fork, only operations that torch runs on one thread can be used
@pytest.mark.parametrize("name", ["hop", "dropout", "attention", "neighbor_sampling", "layer_sampling"])
def test_bits_are_the_same_in_a_forked_process(name: str) -> None:
    expected = on_threads(3, KERNELS[name])  # the team exists when the process is forked, and is lost then
    assert digest_in_fork(name) == expected
    assert on_threads(3, KERNELS[name]) == expected


def test_bits_are_the_same_in_two_processes_that_train_together(tmp_path: Path) -> None:
    """Each process of DDP has a team, here of two and of three threads."""
    expected = {name: on_threads(1, run) for name, run in KERNELS.items()}
    words = [sys.executable, str(Path(__file__).parents[1] / "team_calls.py")]
    processes = [
        subprocess.Popen(words, stdout=subprocess.PIPE, env=os.environ | {"RANK": rank, "FILE": str(tmp_path / "meet")})
        for rank in "01"
    ]
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0
        assert json.loads(out) == {**expected, "distributed_hop": expected["hop"]}


def test_bits_are_the_same_in_a_pool_of_threads() -> None:
    """As in the threads that prepare batches, or in a program that has threads of its own."""
    expected = {name: on_threads(1, run) for name, run in KERNELS.items() if name not in DRAWING}
    torch.set_num_threads(3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: (name, digest(KERNELS[name]())), 4 * list(expected)))
    assert {name for name, bits in found if bits != expected[name]} == set()


def test_bits_are_the_same_in_the_process_that_compiles_and_in_the_next(tmp_path: Path) -> None:
    """The one runs the function itself, the other the copy in the stored code of its caller."""
    code = (
        "import hashlib, numpy as np, torch\n"
        "from fastgtn.relations import RelationStack\nfrom fastgtn.relations.kernels.hop import sweep\n"
        "edges = torch.randint(40, (2, 300), generator=torch.Generator().manual_seed(0))\n"
        "(part,) = RelationStack.from_edges({('n', 'r', 'n'): edges}, {'n': 40}).operator.edges\n"
        "x, probe = np.random.default_rng(0).standard_normal((2, 40, 128), np.float32)\n"
        "weights, filters = part.values.numpy(), np.ones((2, 1), np.float32)\n"
        "dots = sweep(part.segments, weights, filters, x, np.empty_like(x), probe=probe)\n"
        "print(hashlib.sha256(dots.alpha.tobytes()).hexdigest())\n"
    )
    found = []
    for _ in range(2):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]


def test_a_thousand_mixed_calls_from_four_threads() -> None:
    torch.set_num_threads(2)
    names = ("hop", "gathering", "nearest", "layer_sampling", "hop")
    expected = {name: digest(KERNELS[name]()) for name in names}
    a = torch.randn(128, 128)
    product = a @ a

    def work(turn: int) -> bool:
        if turn % 2:
            return torch.equal(a @ a, product)  # torch's own team, at the same time
        name = names[turn // 2 % len(names)]
        return digest(KERNELS[name]()) == expected[name]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1000)))


@pytest.mark.parametrize(
    ("running", "cores", "wanted", "threads"),
    [(0, 8, 8, 8), (8, 8, 8, 8), (10, 8, 8, 6), (30, 8, 8, 1), (5, 8, 4, 4), (9, 8, 4, 3), (3, 2, 1, 1), (4, 4, 8, 8)],
)
def test_busy_neighbours_keep_their_processors(
    running: int, cores: int, wanted: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_runnable", lambda: running)
    monkeypatch.setattr(neighbours.os, "cpu_count", lambda: cores)
    torch.set_num_threads(wanted)
    assert neighbours.free_threads() == threads


def test_a_system_that_does_not_count_threads_has_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(neighbours, "open", lambda _: (_ for _ in ()).throw(OSError), raising=False)
    assert neighbours._runnable() == 0


def test_an_empty_range_and_a_single_item_run() -> None:
    edges = {("n", "r", "n"): torch.zeros(2, 0, dtype=torch.int64)}
    empty = RelationStack.from_edges(edges, {"n": 1}, identity=False)
    assert empty.propagate(torch.ones(1, 1, 1), torch.ones(1, len(empty))).tolist() == [[[0.0]]]


def test_code_that_another_process_compiled_for_other_types_is_not_run(tmp_path: Path) -> None:
    """Two processes find an empty cache, and both choose the first file name; the slower one writes last."""
    slow, fast = (CheckedCacheFile(str(tmp_path), "hop", "now") for _ in range(2))
    slow.save("float32", "code for float32")
    written = (tmp_path / "hop.1.nbc").read_bytes()
    (tmp_path / "hop.nbi").unlink()
    fast.save("float64", "code for float64")
    assert fast.load("float64") == "code for float64"
    (tmp_path / "hop.1.nbc").write_bytes(written)
    assert fast.load("float64") is None
    fast.save("float64", "code for float64")
    assert fast.load("float64") == "code for float64"
    assert CheckedCacheFile(str(tmp_path), "hop", "later").load("float64") is None


def test_processes_store_code_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads what is stored and adds to it: without a lock, what another one adds meanwhile would be lost."""
    read = CheckedCacheFile._load_index
    tried = []

    def also_by_another(self: CheckedCacheFile) -> object:
        lock_file = system.open_own(tmp_path / ".lock", create=False)
        tried.append(system.lock(lock_file, wait=False))
        os.close(lock_file)
        return read(self)

    monkeypatch.setattr(CheckedCacheFile, "_load_index", also_by_another)
    CheckedCacheFile(str(tmp_path), "hop", "now").save("float32", "code")
    assert tried == [False]
    monkeypatch.undo()
    assert CheckedCacheFile(str(tmp_path), "hop", "now").load("float32") == "code"


def test_code_is_compiled_again_if_another_kernel_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CheckedCacheFile(str(tmp_path), "hop", "now")
    file.save("float32", "code")
    monkeypatch.setattr(cache, "_kernels", lambda: (("row_sums.py", 1.0, 2),))
    assert file.load("float32") is None


def test_kernels_check_their_cache() -> None:
    assert type(_drop._cache._cache_file) is CheckedCacheFile


def test_without_openmp_compiled_code_still_runs() -> None:
    """As on Windows: the stand-in calls the work once, and the pool of Python's threads does the rest."""
    code = (
        "import numpy as np\n"
        "from fastgtn.relations.kernels import dropout, team\n"
        "team._address = lambda: None\n"
        "assert not team.find_team()\n"
        "out = np.zeros(100_000)\n"
        "dropout._drop_all(2, 2, np.ones(100_000), out, dropout.PIECE, np.uint64(5), np.int32(1 << 15), 2.0)\n"
        "assert 0.9 < out.mean() < 1.1\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
