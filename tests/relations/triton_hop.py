"""The Triton kernel in Triton's interpreter against the dense oracle. Run as a program: the interpreter must be chosen
before Triton is imported for the first time.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from fastgtn.relations import RelationStack
from fastgtn.relations.kernels import gpu
from fastgtn.relations.operator import Operator, propagate_reference


def graph(kind: str) -> RelationStack:
    g = torch.Generator().manual_seed(0)
    sizes = {"usual": (7, 3, 15), "one node": (1, 1, 2), "no edges": (4, 2, 0), "many relations": (5, 9, 4)}
    nodes, relations, edges = sizes.get(kind, (7, 3, 15))
    ends = {
        ("n", f"r{t}", "n"): (
            torch.randint(nodes, (2, edges), generator=g),
            torch.rand(edges, generator=g, dtype=torch.float64) + 0.1,
        )
        for t in range(relations)
    }
    stack = RelationStack.from_edges(ends, {"n": nodes}, identity=kind != "no identity", dtype=torch.float64)
    return stack if kind == "raw" else stack.row_normalized("self")


def check(operator: Operator, C: int, d: int) -> None:
    """Values and gradients of the kernel are those of plain torch, and twice the same."""
    g = torch.Generator().manual_seed(1)
    h = torch.randn(operator.num_cols, C, d, generator=g, dtype=torch.float64)
    filters = torch.rand(C, operator.num_relations, generator=g, dtype=torch.float64)
    results = []
    for way in (gpu.hop, gpu.hop, propagate_reference):
        inputs = [h.clone().requires_grad_(), filters.clone().requires_grad_()]
        values = [edges.values.clone().requires_grad_() for edges in operator.edges]
        loops = h.new_zeros(0, C) if operator.diagonal is None else operator.diagonal.pattern_weights(inputs[1])
        out = way(operator, inputs[0], inputs[1], loops, values)
        leaves = [*inputs, *values]
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        found = torch.autograd.grad((out * weights).sum(), leaves)
        results.append([out.detach(), *found])
    for mine, again, expected in zip(*results, strict=True):
        assert torch.equal(mine, again), "two runs differ"
        torch.testing.assert_close(mine, expected)


def main() -> None:
    for kind in ("usual", "raw", "no identity", "one node", "no edges", "many relations"):
        check(graph(kind).operator, 2, 5)
    usual = graph("usual").operator
    check(usual, 1, 1)
    check(usual, 3, 16)
    check(usual.select_rows(torch.tensor([4, 0]))[0], 2, 5)  # more columns than rows
    other = graph("no identity")
    joined = RelationStack(
        other.node_types,
        other.node_counts,
        tuple(r._replace(name=f"x{r.name}") for r in other.relations),
        other.operator,
    )
    both = graph("usual").join(joined).operator
    assert len(both.edges) == 2
    check(both, 2, 5)
    sys.stdout.write("agrees\n")


if __name__ == "__main__":
    main()
