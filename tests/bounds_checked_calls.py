"""Random public calls, to be run with NUMBA_BOUNDSCHECK=1:  python tests/bounds_checked_calls.py COUNT.

Prints how many calls were computed and how many were refused. Anything but our own error ends the program.
"""

import sys

import torch
from graphs import random_filters, random_stack

from fastgtn import GTN, FastGTN, InputError, NonLocalOptions, RelationStack
from fastgtn.relations import LayerSampler, NeighborSampler
from fastgtn.relations.kernels.attention import attend, edge_dots, edge_sums
from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.products import PathProducts


def calls(seed: int, stack: RelationStack) -> None:
    """One call of each door that leads to kernels, with sizes that are sometimes wrong by one."""
    g = torch.Generator().manual_seed(seed)
    off = int(torch.randint(0, 4, (1,), generator=g)) == 0
    nodes = stack.num_nodes + off
    h = torch.randn(nodes, 2, 3, dtype=torch.float64, generator=g).requires_grad_()
    filters = random_filters(2, len(stack), seed=seed).requires_grad_()
    stack.operator.apply(h, filters).sum().backward()
    targets = torch.randperm(nodes, generator=g)[: 1 + seed % nodes]
    NeighborSampler(stack, [2, None]).sample(targets, seed)
    LayerSampler(stack, 2, 2).sample(targets, seed)
    mixed = stack.mix(filters.detach())
    mixed.compose(mixed)
    parts = Decomposition.of(stack.node_types, stack.node_counts, stack.hops(2, targets))
    x = {t: torch.randn(len(stack.nodes_of(t)), 2, dtype=torch.float64) for t in stack.node_types}
    for kind in range(len(stack.node_types)):
        list(PathProducts(parts, list(parts.effective_paths(kind, most=20))).of_types(x))
    edges = torch.randint(-(seed % 5 == 0), nodes, (2, 7), generator=g)
    values = torch.randn(stack.num_nodes, 2, 3, generator=g)
    attend(edges, edge_dots(edges, values, values), values, stack.num_nodes)
    edge_sums(edges, values[:, :, 0], values[:, :, 1], slope=0.2)
    for model in (
        FastGTN(3, 4, stack.relations, path_length=3, non_local=NonLocalOptions(neighbors=2) if seed % 2 else None),
        GTN(3, 4, stack.relations, path_length=2),
    ):
        model.double()(h[:, 0].detach(), stack).sum().backward()


def main(count: int) -> None:
    computed = refused = 0
    for seed in range(count):
        stack = random_stack(seed, num_types=1 + seed % 3, num_relations=1 + seed % 4, max_nodes=6, max_edges=12)
        try:
            calls(seed, stack.row_normalized() if seed % 2 else stack)
            computed += 1
        except InputError:
            refused += 1
    sys.stdout.write(f"{computed} {refused}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
