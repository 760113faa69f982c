"""K hops forward and backward on a CUDA device:  python -m benchmarks.gpu [--rounds 20].

The fused Triton kernel, plain torch on the same device, and the kernels of the processor take turns. Values are
compared before anything is timed.
"""

import argparse
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.graphs import random_stack, stack_of
from fastgtn.bench.measure import interleaved, markdown
from fastgtn.relations import RelationStack
from fastgtn.relations.operator import propagate_reference

K, C, D = 2, 2, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["dblp", "acm", "imdb", "blogcatalog", "flickr", "227k nodes"])
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit(f"this torch ({torch.__version__}) finds no CUDA device, so there is nothing to measure.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    rows = [row(name, arguments.rounds) for name in arguments.graphs]
    print(markdown(["graph", "Triton", "plain torch takes", "the processor takes"], rows))


def row(name: str, rounds: int) -> list[str]:
    """Milliseconds on one graph."""
    raw = random_stack(227_144, 4_249_598, 4) if name == "227k nodes" else stack_of(name)[0]
    near = raw.row_normalized()
    far = near.to("cuda")
    ways = {"triton": step(far, far.propagate), "torch": step(far, plain(far)), "cpu": step(near, near.propagate)}
    results = {key: run() for key, run in ways.items()}
    for key in ("torch", "cpu"):
        torch.testing.assert_close(results["triton"].cpu(), results[key].cpu(), rtol=1e-3, atol=1e-4)
    ms = {key: seconds * 1e3 for key, seconds in interleaved(ways, rounds).items()}
    return [name, f"{ms['triton']:.2f} ms", *(f"{ms[key] / ms['triton']:.1f}×" for key in ("torch", "cpu"))]


def plain(stack: RelationStack) -> Callable[[Tensor, Tensor], Tensor]:
    """One hop in plain torch."""
    operator = stack.operator
    assert operator.diagonal is not None
    diagonal, values = operator.diagonal, [edges.values for edges in operator.edges]
    return lambda h, filters: propagate_reference(operator, h, filters, diagonal.pattern_weights(filters), values)


def step(stack: RelationStack, hop: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor]:
    """K hops there and back; returns the gradient of the filters, when the device has finished."""
    g = torch.Generator().manual_seed(0)
    device = stack.operator.edges[0].values.device
    h = torch.randn(stack.num_nodes, C, D, generator=g).to(device).requires_grad_()
    filters = torch.rand(K, C, len(stack), generator=g).to(device).requires_grad_()

    def run() -> Tensor:
        out = h
        for k in reversed(range(K)):
            out = hop(out, filters[k])
        found: Tensor = torch.autograd.grad(out.square().mean(), filters)[0]
        if device.type == "cuda":
            torch.cuda.synchronize()
        return found

    return run


if __name__ == "__main__":
    main()
