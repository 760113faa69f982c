"""Calls that run on the team of threads, and the bits of their results; as a program, one of two processes of DDP.

RANK and FILE are set by test_threads.py, which compares the lines that both processes print with its own.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fastgtn import Features
from fastgtn.relations import LayerSampler, NeighborSampler, RelationStack
from fastgtn.relations.kernels import compile as compiling
from fastgtn.relations.kernels import neighbours
from fastgtn.relations.kernels.attention import attend, edge_dots, edge_sums
from fastgtn.relations.kernels.dropout import drop
from fastgtn.relations.kernels.nearest import largest_products
from fastgtn.relations.sampling.batch import Batch

NODES, WIDTH = 900, 8  # results are so small that torch itself takes one thread: it cannot use more after a fork
LONG = torch.arange(300_000.0)


def stack() -> RelationStack:
    """Enough edges for a dozen chunks, so that several threads have something to do."""
    g = torch.Generator().manual_seed(0)
    edges = {("n", f"r{t}", "n"): torch.randint(NODES, (2, 20_000), generator=g) for t in range(3)}
    return RelationStack.from_edges(edges, {"n": NODES}).row_normalized()


GRAPH = stack()


def hop() -> list[Tensor]:
    g = torch.Generator().manual_seed(1)
    h = torch.randn(NODES, 2, WIDTH, generator=g, requires_grad=True)
    filters = torch.rand(2, len(GRAPH), generator=g, requires_grad=True)
    out = GRAPH.propagate(h, filters)
    out.backward(torch.linspace(-1, 1, out.numel()).view_as(out))
    assert h.grad is not None
    assert filters.grad is not None
    return [out.detach(), h.grad, filters.grad]


def dropout() -> list[Tensor]:
    torch.manual_seed(3)
    return [drop(LONG, 0.4)]


def nearest() -> list[Tensor]:
    g = torch.Generator().manual_seed(2)
    return [largest_products(torch.randint(-3, 4, (NODES, 8), generator=g).float(), 5)]


def attention() -> list[Tensor]:
    g = torch.Generator().manual_seed(4)
    edges = torch.randint(NODES, (2, 15_000), generator=g)
    q, k, v = (torch.randn(NODES, 2, 12, generator=g, requires_grad=True) for _ in range(3))
    logits = edge_dots(edges, q, k) + edge_sums(edges, q[:, :, 0], k[:, :, 0], slope=0.2)
    torch.manual_seed(5)
    out = attend(edges, logits, v, NODES, dropout=0.3)
    out.backward(torch.linspace(-1, 1, out.numel()).view_as(out))
    return [out.detach(), *(t.grad for t in (q, k, v) if t.grad is not None)]


def sparse_stack() -> RelationStack:
    """Enough rows for a dozen threads that sample."""
    g = torch.Generator().manual_seed(6)
    edges = {("n", f"r{t}", "n"): torch.randint(20_000, (2, 60_000), generator=g) for t in range(2)}
    return RelationStack.from_edges(edges, {"n": 20_000})


SAMPLED = sparse_stack()


def arrays_of(batch: Batch) -> list[Tensor]:
    (edges,) = batch.stack.operator.edges
    s = edges.segments
    return [batch.nodes, batch.targets, edges.values, s.row_ptr, s.relation, s.seg_ptr, s.col]


def neighbor_sampling() -> list[Tensor]:
    targets = torch.arange(0, 1200)
    samplers = NeighborSampler(SAMPLED, [2, 2]), NeighborSampler(SAMPLED, [1, None], per_relation=True)
    return [array for sampler in samplers for array in arrays_of(sampler.sample(targets, 7))]


def layer_sampling() -> list[Tensor]:
    return arrays_of(LayerSampler(SAMPLED, 1000, 2).sample(torch.arange(0, 1200), 7))


def gathering() -> list[Tensor]:
    table = torch.arange(300_000.0).remainder(1000).view(3000, 100)
    nodes = torch.randperm(3000, generator=torch.Generator().manual_seed(8))
    matrices = [Features.of(features).select(nodes).blocks[0].matrix for features in (table, table.half())]
    return [matrix for matrix in matrices if isinstance(matrix, Tensor)]


KERNELS: dict[str, Callable[[], list[Tensor]]] = {
    "hop": hop,
    "dropout": dropout,
    "nearest": nearest,
    "attention": attention,
    "neighbor_sampling": neighbor_sampling,
    "layer_sampling": layer_sampling,
    "gathering": gathering,
}


def digest(results: list[Tensor]) -> str:
    return hashlib.sha256(b"".join(t.contiguous().numpy().tobytes() for t in results)).hexdigest()


class Hop(nn.Module):
    """The hop of :func:`hop`, with its filters as parameters."""

    def __init__(self, filters: Tensor) -> None:
        super().__init__()
        self.filters = nn.Parameter(filters)

    def forward(self, h: Tensor) -> Tensor:
        return GRAPH.propagate(h, self.filters)


def distributed_hop() -> list[Tensor]:
    """The same numbers as :func:`hop`: the mean of equal gradients is exact."""
    g = torch.Generator().manual_seed(1)
    h = torch.randn(NODES, 2, WIDTH, generator=g, requires_grad=True)
    model = Hop(torch.rand(2, len(GRAPH), generator=g))
    out = nn.parallel.DistributedDataParallel(model)(h)
    out.backward(torch.linspace(-1, 1, out.numel()).view_as(out))
    assert h.grad is not None
    assert model.filters.grad is not None
    return [out.detach(), h.grad, model.filters.grad]


def main() -> None:
    neighbours._runnable = lambda: 0
    rank = int(os.environ["RANK"])
    torch.set_num_threads(2 + rank)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['FILE']}", rank=rank, world_size=2)
    found = {name: digest(run()) for name, run in {**KERNELS, "distributed_hop": distributed_hop}.items()}
    assert compiling._has_team or sys.platform == "win32"
    sys.stdout.write(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
