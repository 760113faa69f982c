"""One thread against two, and a C kernel with OpenMP beside:  python -m benchmarks.threads [graph …] [--rounds 15].

All ways take turns in one process, so that a busy neighbour slows all of them down alike; medians are printed. C runs
on the same OpenMP library, so that the two do not keep each other's threads waiting.

With ``--busy 4``, four processes that never rest run beside it. The table then shows one thread, two threads, and the
number of threads that the package itself chooses, with its share of the time of one thread.
"""

import argparse
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.graphs import random_stack, stack_of
from benchmarks.threads.c_kernel import c_steps, compile_kernel
from fastgtn.bench.measure import interleaved, markdown
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels import hop as kernels
from fastgtn.relations.kernels import neighbours

K, C, D = 2, 2, 64
_BUSY_NEIGHBOURS = neighbours.busy_neighbours
LARGE = {"227k nodes": (227_144, 4_249_598), "1.1M nodes": (1_116_163, 28_427_508)}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.threads", description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["dblp", "acm", "imdb", "blogcatalog", "flickr", "227k nodes"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep the processors busy meanwhile")
    arguments = parser.parse_args()
    if arguments.busy:
        with busy_processes(arguments.busy):
            rows = [busy_row(name, arguments.rounds) for name in arguments.graphs]
        print(markdown(["graph", "one thread", "two threads", "chosen", "chosen / one"], rows))
        return
    library = compile_kernel()
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, C kernel: {'gcc -O3' if library else 'no compiler'}")
    rows = [row(name, library, arguments.rounds) for name in arguments.graphs]
    header = [
        "graph",
        "one thread",
        "two threads",
        "gain",
        "C, one",
        "C, two",
        "backward, two",
        "C backward, two",
        "ours / C",
    ]
    print(markdown(header, rows))


def row(name: str, library: ctypes.CDLL | None, rounds: int) -> list[str]:
    """Milliseconds of K hops forward and backward on one graph."""
    stack = graph(name)
    steps = our_steps(stack)
    if library is not None:
        steps |= {f"c {part}": run for part, run in c_steps(library, stack, K=K, C=C, d=D).items()}
    ways = {f"{part} {n}": partial(on_threads, n, run) for n in (1, 2) for part, run in steps.items()}
    ms = {key: seconds * 1e3 for key, seconds in interleaved(ways, rounds).items()}
    both = {threads: ms[f"forward {threads}"] + ms[f"backward {threads}"] for threads in (1, 2)}
    cells = [name, f"{both[1]:.1f}", f"{both[2]:.1f}", f"{both[1] / both[2]:.2f}×"]
    if library is None:
        return [*cells, "–", "–", f"{ms['backward 2']:.1f}", "–", "–"]
    c = [f"{ms[f'c forward {threads}'] + ms[f'c backward {threads}']:.1f}" for threads in (1, 2)]
    backward = ms["backward 2"], ms["c backward 2"]
    return [*cells, *c, *(f"{value:.1f}" for value in backward), f"{backward[0] / backward[1]:.2f}"]


def busy_row(name: str, rounds: int) -> list[str]:
    """Milliseconds of K hops forward and backward while other processes want the processors."""
    steps = our_steps(graph(name))

    def step() -> None:
        for run in steps.values():
            run()

    def chosen() -> None:
        torch.set_num_threads(2)
        with patch.object(neighbours, "busy_neighbours", _BUSY_NEIGHBOURS):
            step()

    ways: dict[str, Callable[[], None]] = {"chosen": chosen}
    ways |= {name: partial(on_threads, count, step) for name, count in (("one", 1), ("two", 2))}
    ms = {key: seconds * 1e3 for key, seconds in interleaved(ways, rounds).items()}
    cells = [f"{ms[way]:.1f}" for way in ("one", "two", "chosen")]
    return [name, *cells, f"{ms['chosen'] / ms['one']:.2f}"]


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Other programs that never rest."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def our_steps(stack: RelationStack) -> dict[str, Callable[[], None]]:
    """K hops of our kernels, forward and backward, on the arrays that the C kernel gets."""
    (edges,) = stack.operator.edges
    transposed, order = edges.segments.transposed
    random = np.random.default_rng(0)
    alpha = random.random((C, edges.segments.num_relations), np.float32)
    x = random.random((stack.num_nodes, C * D), np.float32)
    out, probe = np.zeros_like(x), np.ones_like(x)
    values = edges.values.numpy(), edges.values[order].numpy()

    def forward() -> None:
        for _ in range(K):
            kernels.sweep(edges.segments, values[0], alpha, x, out)

    def backward() -> None:
        for _ in range(K):
            kernels.sweep(transposed, values[1], alpha, x, out, probe=probe)

    return {"forward": forward, "backward": backward}


def on_threads(count: int, run: Callable[[], None]) -> None:
    neighbours.busy_neighbours = _nobody  # use exactly this number of threads, even on a busy machine
    torch.set_num_threads(count)  # and with it OpenMP's own number, which the C kernel follows
    run()


def _nobody(own: int) -> int:  # noqa: ARG001
    return 0


def graph(name: str) -> RelationStack:
    """A graph by name, without self-loops: both kernels then read the same edges."""
    stack = random_stack(*LARGE[name], 4) if name in LARGE else stack_of(name)[0]
    return stack.row_normalized("zero")


if __name__ == "__main__":
    main()
