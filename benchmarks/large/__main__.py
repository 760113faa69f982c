"""Large graphs, of the shape of OAG: sampling beside gathering, training in mini-batches, memory, two processes.

python -m benchmarks.large [--folder runs/bench-large] [--steps 40] [--json]        or: make bench-large

Graphs that are not in the folder are made first: the largest takes some minutes, and 2 GB of disk.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from fastgtn.data import load
from fastgtn.nn import Features
from fastgtn.relations import LayerSampler, NeighborSampler, RelationStack, Sampler

BATCH, FANOUTS, BUDGET, DEPTH = 1024, (15, 10), 1000, 2


def sampling_table(folder: Path, *, batches: int = 10) -> dict[str, Any]:
    """Median milliseconds on one thread to sample 1,024 targets and to gather the features of the sampled nodes."""
    start = time.perf_counter()
    graph, task = load(folder)
    opened = time.perf_counter() - start
    assert task is not None
    stack, features = RelationStack.from_hetero(graph), Features.from_hetero(graph)
    samplers: dict[str, Sampler] = {
        "neighbours": NeighborSampler(stack, FANOUTS),
        "layers": LayerSampler(stack, BUDGET, DEPTH),
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    first = stack.nodes_of(task.target).start
    rows = {name: _measured(sampler, features, task.train.nodes + first, batches) for name, sampler in samplers.items()}
    torch.set_num_threads(threads)
    return {"graph": graph.name, "nodes": stack.num_nodes, "edges": stack.num_edges, "open_seconds": opened} | rows


def _measured(sampler: Sampler, features: Features, nodes: torch.Tensor, batches: int) -> dict[str, float]:
    """The first batch compiles, and is left out."""
    sample_ms, gather_ms, sizes = [], [], []
    for number in range(batches + 1):
        order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(number))
        start = time.perf_counter()
        batch = sampler.sample(nodes[order[:BATCH]], number)
        sampled = time.perf_counter()
        features.select(batch.nodes)
        sample_ms.append(1000 * (sampled - start))
        gather_ms.append(1000 * (time.perf_counter() - sampled))
        sizes.append(float(len(batch.nodes)))
    named = {"sample_ms": sample_ms, "gather_ms": gather_ms, "sampled_nodes": sizes}
    return {name: torch.tensor(values[1:]).median().item() for name, values in named.items()}


def training_tables(cs: Path, ml: Path, steps: int) -> dict[str, dict[str, Any]]:
    """Each runs in a separate process, so that its memory is measured alone."""
    one_core = ["train", ml, "--steps", steps, "--prefetch", 0]
    return {
        "training": _run(["train", cs, "--steps", steps], threads=1),
        "full graph": _run(["full", ml], threads=os.cpu_count() or 1),
        "one process": _run(one_core, threads=1),
        "two processes": _run(one_core, threads=1, processes=2),
    }


def _run(words: list[Any], *, threads: int, processes: int = 1) -> dict[str, Any]:
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    command = [sys.executable, *start, "-m", "benchmarks.large.training", *map(str, words)]
    output = subprocess.check_output(command, env=os.environ | {"OMP_NUM_THREADS": str(threads)}, text=True)
    facts: dict[str, Any] = json.loads(output.splitlines()[-1])
    return facts


def made(folder: Path, name: str) -> Path:
    """The archive of a graph, which is made if it is not there."""
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "fastgtn", "data", "make", name, "--out", folder / name],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return folder / name


def report(table: dict[str, Any]) -> list[str]:
    """The figures in words."""
    sampling = table["sampling"]
    lines = [
        f"{sampling['graph']}: {sampling['nodes']:,} nodes, {sampling['edges']:,} edges, "
        f"opened in {sampling['open_seconds']:.2f} s"
    ]
    for name in ("neighbours", "layers"):
        row = sampling[name]
        lines.append(
            f"{name:<14}sample {row['sample_ms']:.0f} ms   gather {row['gather_ms']:.0f} ms   "
            f"{row['sampled_nodes']:,.0f} nodes"
        )
    for name in ("training", "one process", "two processes"):
        row = table[name]
        shares = "   ".join(f"{word} {100 * row[word]:.0f} %" for word in ("sampling", "gathering", "computing"))
        speed = f"{row['steps']} steps   {row['targets_per_second']:,.0f} targets/s"
        lines.append(f"{name:<14}{row['graph']}   {speed}   {shares}   {row['resident_gb']:.1f} GB resident")
    full = table["full graph"]
    lines.append(
        f"{'full graph':<14}{full['graph']}   forward and backward {full['seconds']:.1f} s   "
        f"{full['resident_gb']:.1f} GB resident"
    )
    ratio = table["two processes"]["targets_per_second"] / table["one process"]["targets_per_second"]
    return [*lines, f"two processes handle {ratio:.2f} times as many targets as one"]


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.large", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("runs/bench-large"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cs, ml = (made(options.folder, name) for name in ("oag-cs", "oag-ml"))
    # training first: this process must not keep the graph in memory while others are measured
    table: dict[str, Any] = training_tables(cs, ml, options.steps)
    table["sampling"] = sampling_table(cs)
    print(json.dumps(table) if options.json else "\n".join(report(table)))


if __name__ == "__main__":
    main()
