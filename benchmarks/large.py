"""Large graphs: what sampling a batch costs beside gathering its features.

python -m benchmarks.large FOLDER [--json]        FOLDER: fastgtn data make oag-cs --out FOLDER
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from fastgtn.data import load
from fastgtn.models import Features
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


def main() -> None:
    parser = argparse.ArgumentParser(description=sampling_table.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = sampling_table(options.folder)
    if options.json:
        print(json.dumps(table))
        return
    print(
        f"{table['graph']}: {table['nodes']:,} nodes, {table['edges']:,} edges, opened in {table['open_seconds']:.2f} s"
    )
    for name in ("neighbours", "layers"):
        row = table[name]
        print(
            f"{name:<12}sample {row['sample_ms']:.0f} ms   gather {row['gather_ms']:.0f} ms   "
            f"{row['sampled_nodes']:,.0f} nodes"
        )


if __name__ == "__main__":
    main()
