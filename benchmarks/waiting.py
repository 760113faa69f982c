"""What threads cost that wait for work: a training with different ways of waiting, which take turns.

    python -m benchmarks.waiting --confined                     the built-in graph, one processor for all threads
    python -m benchmarks.waiting --dataset dblp --epochs 100    on all processors: run it on a quiet machine

OpenMP's threads (of torch and of our kernels) and OpenBLAS's (of numpy) spin for a while before they sleep. With
`--confined`, the libraries start as many threads as the machine has processors, and then all of them share the first
processor. This is what happens beside busy programs, without the need for any.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.startup import entry
from fastgtn.bench.measure import markdown
from fastgtn.cli import WAITING

OPENMP, OPENBLAS = {"OMP_WAIT_POLICY": "PASSIVE"}, {"OPENBLAS_THREAD_TIMEOUT": "4"}  # 4: the shortest time
LONG = {"GOMP_SPINCOUNT": "300000", "OPENBLAS_THREAD_TIMEOUT": "26"}  # the libraries' own values
VARIANTS: dict[str, dict[str, str]] = {
    "as the command line sets them": WAITING,  # in advance: confining imports the libraries, which read them then
    "as the libraries do": LONG,
    "OpenMP sleeps": LONG | OPENMP,
    "OpenBLAS sleeps": LONG | OPENBLAS,
    "both sleep": OPENMP | OPENBLAS,
    "one thread": {"OMP_NUM_THREADS": "1"},
}
CONFINE = """
import os, numpy, torch  # the libraries count the processors and start their threads
for thread in os.listdir("/proc/self/task"):
    os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
"""


class Cost(NamedTuple):
    """Seconds of a process, and of the epochs in it."""

    processor: float
    wall: float
    fit: float


def main() -> None:
    """Print the medians of each way of waiting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", help="a dataset; the built-in graph if left out")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--confined", action="store_true", help="let all threads share one processor (Linux)")
    options = parser.parse_args()
    training = ["train", "--runs", "1", "--set", f"fit.epochs={options.epochs}", "--set", "fit.patience=0", "--json"]
    training += ["--dataset", options.dataset] if options.dataset else []
    costs: dict[str, list[Cost]] = {name: [] for name in VARIANTS}
    for _ in range(options.rounds):
        for name, variables in VARIANTS.items():
            costs[name].append(measured(training, variables, confined=options.confined))
            print(name, costs[name][-1], f"load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    rows = []
    for name, values in costs.items():
        medians = (statistics.median(times) for times in zip(*values, strict=True))
        rows.append([name, *(f"{seconds:.2f}" for seconds in medians)])
    print(markdown(["waiting threads", "processor seconds", "wall-clock seconds", "of these in epochs"], rows))


def measured(training: list[str], variables: dict[str, str], *, confined: bool) -> Cost:
    """One training in a new process with these environment variables."""
    with tempfile.TemporaryDirectory() as folder:
        code = entry([*training, "--out", str(Path(folder) / "run")])
        command = [sys.executable, "-c", CONFINE + code if confined else code]
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | variables
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"exit code {os.waitstatus_to_exitcode(status)} of fastgtn {' '.join(training)}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, json.loads(output)["runs"][0]["seconds"])


if __name__ == "__main__":
    main()
