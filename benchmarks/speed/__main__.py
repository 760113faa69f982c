"""Speed and memory of the algebra and the models:  python -m benchmarks.speed [section …] [--quick]."""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.graphs import random_stack, stack_of
from benchmarks.speed.other_ways import Coalesced, PerRelation
from fastgtn.bench.measure import interleaved, markdown, peak_memory
from fastgtn.nn.gtn import convolve
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels import hop as kernels
from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.nearest import largest_products
from fastgtn.relations.kernels.row_sums import add_rows
from fastgtn.relations.kernels.team import on_team

Hop = Callable[[Tensor, Tensor], Tensor]


def forward_backward(
    hop: Hop, num_nodes: int, num_relations: int, *, K: int = 2, C: int = 2, d: int = 64
) -> Callable[[], None]:
    """K hops there and back, as in one step of training."""
    torch.manual_seed(0)
    h = torch.randn(num_nodes, C, d, requires_grad=True)
    logits = torch.randn(K, C, num_relations, requires_grad=True)

    def run() -> None:
        out, filters = h, logits.softmax(-1)
        for k in reversed(range(K)):
            out = hop(out, filters[k])
        out.sum().backward()

    return run


def propagation(rounds: int) -> str:
    """The fused kernel against torch.sparse per relation and against the published way."""
    rows = []
    for name in ("dblp", "acm", "imdb", "blogcatalog", "flickr"):
        raw, kind = stack_of(name)
        stack = raw.row_normalized("zero")  # all ways get the same stored edges
        ways: dict[str, Hop] = {"fused": stack.propagate, "mkl": PerRelation(stack)}
        ways["sane"] = Coalesced(stack, sane_backward=True)
        runs = {key: forward_backward(way, stack.num_nodes, len(stack)) for key, way in ways.items()}
        times = interleaved(runs, rounds)
        published = forward_backward(Coalesced(stack, sane_backward=False), stack.num_nodes, len(stack))
        times |= interleaved({"fused again": runs["fused"], "published": published}, 1)
        memory = {key: peak_memory(run) for key, run in {**runs, "published": published}.items()}
        rows.append(
            [
                f"{name} ({kind})",
                f"{times['fused'] * 1e3:.1f} ms",
                *(f"{times[key] / times['fused']:.1f}×" for key in ("mkl", "sane", "published")),
                *(f"{memory[key] / 1e6:.0f}" for key in ("fused", "mkl", "published")),
            ]
        )
    header = [
        "graph",
        "fused",
        "torch.sparse CSR takes",
        "COO, sane backward",
        "COO as published",
        "MB fused",
        "CSR",
        "COO",
    ]
    return markdown(header, rows)


def gtn(rounds: int) -> str:
    """The exact GTN without products of sparse matrices against the explicit products."""
    rows = []
    for name, K in (("acm", 3), ("dblp", 4)):
        stack, kind = stack_of(name)
        steps = {"implicit": _gtn_step(stack, K, _implicit)}
        if name == "acm":  # written out, the product of DBLP does not fit
            steps |= {"explicit": _gtn_step(stack, K, _explicit)}
        times = interleaved(steps, max(2, rounds // 3))
        row = [f"{name} ({kind})", str(K), f"{times['implicit'] * 1e3:.0f} ms"]
        row.append(f"{peak_memory(steps['implicit']) / 1e6:.0f} MB")
        if name == "acm":
            published = interleaved({**steps, "published": _gtn_step(stack, K, _published)}, 1)
            row.append(f"{times['explicit'] / times['implicit']:.0f}×")
            row.append(f"{published['published'] / published['implicit']:.0f}×")
            row.append(f"{peak_memory(steps['explicit']) / 1e6:.0f} MB")
        rows.append(row + ["–"] * (7 - len(row)))
    header = [
        "graph",
        "K",
        "implicit",
        "memory",
        "our explicit takes",
        "torch.sparse explicit takes",
        "explicit memory",
    ]
    return markdown(header, rows)


def _gtn_step(
    stack: RelationStack, K: int, way: Callable[[RelationStack, Tensor, Tensor], Tensor]
) -> Callable[[], None]:
    torch.manual_seed(0)
    z = torch.randn(stack.num_nodes, 64, requires_grad=True)
    logits = torch.randn(K, 2, len(stack), requires_grad=True)
    return lambda: way(stack, z, logits.softmax(-1)).sum().backward()


def _implicit(stack: RelationStack, z: Tensor, filters: Tensor) -> Tensor:
    return convolve(z[:, None].expand(-1, filters.size(1), -1), stack.hops(len(filters)), filters, 1.0)


def _explicit(stack: RelationStack, z: Tensor, filters: Tensor) -> Tensor:
    """Our own sparse products with gradients for the places that exist."""
    graph = stack.mix(filters[0])
    for hop in filters[1:]:
        graph = graph.compose(stack.mix(hop)).row_normalized("zero")
    ones = torch.ones_like(z[:, :1])
    return torch.stack([(graph[c] @ z + z) / ((graph[c] @ ones) + 1) for c in range(len(graph))], 1)


def _published(stack: RelationStack, z: Tensor, filters: Tensor) -> Tensor:
    """Products of torch.sparse matrices, normalised after each, as in the published program."""
    way = Coalesced(stack, sane_backward=False)
    out = []
    for c in range(filters.size(1)):
        hops = [
            torch.sparse_coo_tensor(
                way.indices, way.values * hop[c][way.relation], way.shape, check_invariants=False
            ).coalesce()
            for hop in filters
        ]
        graph = hops[0]
        for hop in hops[1:]:
            graph = torch.sparse.mm(graph, hop).coalesce()
            degree = torch.sparse.sum(graph, 1).to_dense().clamp(min=1e-30)
            graph = torch.sparse_coo_tensor(
                graph.indices(), graph.values() / degree[graph.indices()[0]], way.shape, check_invariants=False
            )
        out.append((torch.sparse.mm(graph, z) + z) / 2)
    return torch.stack(out, 1)


def non_local(rounds: int) -> str:
    """The n largest inner products per row: scanning tiles against a chunked product and topk."""
    g = torch.relu(torch.randn(18_405, 64, generator=torch.Generator().manual_seed(0)))

    def chunked() -> Tensor:
        return torch.cat([(g[start : start + 512] @ g.T).topk(5).indices for start in range(0, len(g), 512)])

    def ours() -> Tensor:
        return largest_products(g, 5)

    values = [(g * g[found[:, 4].long()]).sum(1) for found in (ours(), chunked())]
    torch.testing.assert_close(*values, rtol=1e-4, atol=1e-4)
    times = interleaved({"ours": ours, "chunked": chunked}, max(2, rounds // 2))
    row = [f"{times['ours']:.2f} s", f"{times['chunked'] / times['ours']:.1f}×", f"{peak_memory(ours) / 1e6:.0f} MB"]
    return markdown(["18,405 nodes, n = 5", "matmul + topk takes", "extra memory"], [row])


def bandwidth(rounds: int, *, quick: bool) -> str:
    """Time per edge beside the gather bandwidth of this machine at the same table size."""
    sizes = [(18_405, 400_000), (227_144, 4_249_598)] + ([] if quick else [(1_116_163, 28_427_508)])
    rows = []
    for num_nodes, num_edges in sizes:
        start = time.perf_counter()
        stack = random_stack(num_nodes, num_edges, 4).row_normalized("zero")
        building = time.perf_counter() - start
        times = _hop_and_gather(stack, max(2, rounds // 3))
        rate = {name: stack.num_edges * 512 / seconds / 1e9 for name, seconds in times.items()}  # 2 × 64 float32
        rows.append(
            [
                f"{num_nodes:,}",
                f"{stack.num_edges:,}",
                f"{building:.1f} s",
                f"{times['hop'] / stack.num_edges * 1e9:.1f} ns",
                *(f"{rate[name]:.1f} GB/s" for name in ("hop", "kernel", "gather")),
                *(f"{rate[name] / rate['gather']:.0%}" for name in ("hop", "kernel")),
            ]
        )
    header = ["nodes", "edges", "building", "hop per edge", "hop", "kernel", "gather alone", "hop reaches", "kernel"]
    return markdown(header, rows)


def _hop_and_gather(stack: RelationStack, rounds: int) -> dict[str, float]:
    """The whole hop, which takes new memory for its result; the kernel alone, into existing memory; the gather."""
    h, filters = torch.randn(stack.num_nodes, 2, 64), torch.rand(2, len(stack))
    (edges,), table = stack.operator.edges, h.view(stack.num_nodes, -1).numpy()
    alpha, diagonal = filters[:, edges.columns].numpy().copy(), stack.operator.diagonal
    assert diagonal is not None
    own = kernels.Loops(diagonal.pattern_weights(filters).numpy(), diagonal.pattern.numpy())
    out = torch.zeros_like(h).view(stack.num_nodes, -1).numpy()
    candidates = {
        "hop": lambda: stack.propagate(h, filters),
        "kernel": lambda: kernels.sweep(edges.segments, edges.values.numpy(), alpha, table, out, loops=own),
        "gather": lambda: gather(edges.segments.col.numpy(), table),
    }
    return interleaved(candidates, rounds)


def gather(col: np.ndarray, table: np.ndarray) -> None:
    """Read the rows that the edges name, in their order, and add them up: nothing else."""
    weights = np.ones(len(col), table.dtype)
    run_ranges(_gather, _gather_all, 64, col, weights, table)


@kernel
def _gather(first: int, last: int, col: np.ndarray, weights: np.ndarray, table: np.ndarray) -> None:
    width = table.shape[1]
    total, flat = np.zeros(width, table.dtype), table.reshape(-1)
    one = table.dtype.type(1)
    for piece in range(first, last):
        start, stop = len(col) * piece // 64, len(col) * (piece + 1) // 64
        for block in range(start, stop, 256):
            end = min(block + 256, stop)
            add_rows(flat, 0, width, width, col, weights, block, end, one, total, total, 0)


_gather_all = kernel(lambda threads, count, *arguments: on_team(_gather, threads, count, arguments))


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.speed", description=__doc__)
    sections = {"propagation": propagation, "gtn": gtn, "non_local": non_local}
    parser.add_argument("sections", nargs="*", default=[*sections, "bandwidth"], help="which tables to print")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="leave out the largest graph")
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    for name in arguments.sections:
        run = sections.get(name)
        table = bandwidth(arguments.rounds, quick=arguments.quick) if run is None else run(arguments.rounds)
        print(f"\n## {name}\n{table}", flush=True)


if __name__ == "__main__":
    main()
