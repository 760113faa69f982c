"""Small random graphs of all shapes, for tests that must hold on any graph."""

import torch
from hypothesis import strategies as st

from fastgtn.relations import RelationStack


def random_stack(
    seed: int,
    *,
    num_types: int = 2,
    num_relations: int = 3,
    max_nodes: int = 5,
    max_edges: int = 8,
    identity: bool = True,
    weighted: bool = True,
) -> RelationStack:
    """Relations between random types, some of them empty, some nodes without edges, some edges twice."""
    g = torch.Generator().manual_seed(seed)
    counts = {f"t{i}": int(torch.randint(1, max_nodes + 1, (1,), generator=g)) for i in range(num_types)}
    edges = {}
    for number in range(num_relations):
        source, target = (f"t{int(torch.randint(num_types, (1,), generator=g))}" for _ in range(2))
        size = int(torch.randint(0, max_edges + 1, (1,), generator=g))
        ends = [torch.randint(counts[t], (size,), generator=g) for t in (source, target)]
        weight = torch.rand(size, generator=g, dtype=torch.float64) + 0.1 if weighted else None
        edges[source, f"r{number}", target] = (torch.stack(ends), weight)
    return RelationStack.from_edges(edges, counts, identity=identity, dtype=torch.float64)


@st.composite
def stacks(draw: st.DrawFn, *, identity: bool | None = None) -> RelationStack:
    """Hypothesis: a random stack, from one node and no relation upwards."""
    return random_stack(
        draw(st.integers(0, 10_000)),
        num_types=draw(st.integers(1, 3)),
        num_relations=draw(st.integers(0 if identity is not False else 1, 4)),
        max_nodes=draw(st.integers(1, 6)),
        max_edges=draw(st.sampled_from([0, 3, 12])),
        identity=draw(st.booleans()) if identity is None else identity,
        weighted=draw(st.booleans()),
    )


def random_filters(*shape: int, seed: int = 0) -> torch.Tensor:
    """Softmax rows, in float64."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).softmax(-1)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
