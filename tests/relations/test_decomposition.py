"""K hops taken apart: the steps, the meta-paths that some rows can take, and their products with features."""

import torch
from graphs import randn, random_filters, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn.relations import IDENTITY, RelationStack
from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.metapath import PathNames
from fastgtn.relations.paths.products import PathProducts
from fastgtn.relations.paths.walks import Walks

STACKS = {
    "raw": lambda stack: stack,
    "self": lambda stack: stack.row_normalized("self"),
    "zero": lambda stack: stack.row_normalized("zero"),
}


def decomposed(stack: RelationStack, K: int, rows: torch.Tensor | None = None) -> Decomposition:
    return Decomposition.of(stack.node_types, stack.node_counts, stack.hops(K, rows))


def stored(stack: RelationStack, relation: int) -> torch.Tensor:
    """The stored edges of a relation as a dense matrix, without implied self-loops."""
    dense = torch.zeros(stack.num_nodes, stack.num_nodes, dtype=torch.float64)
    for edges in stack.operator.edges:
        mine = edges.segments.edge_relations() + edges.first == relation
        places = edges.segments.edge_rows()[mine], edges.segments.col.long()[mine]
        dense.index_put_(places, edges.values[mine], accumulate=True)
    return dense


@settings(max_examples=80, deadline=None)
@given(stacks(), st.integers(1, 3), st.sampled_from(list(STACKS)), st.integers(0, 1000))
def test_products_of_all_effective_paths_equal_dense_products(stack, K, prepared, seed):
    """Chosen rows, any end type, shared ends: A_p X for every path, in float64."""
    if not len(stack):
        return
    stack = STACKS[prepared](stack)
    kind = seed % len(stack.node_types)
    nodes = stack.nodes_of(stack.node_types[kind])
    rows = torch.tensor(nodes)[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    rows = rows[: 1 + seed % len(nodes)]
    parts = decomposed(stack, K, rows)
    paths = list(parts.effective_paths(kind))
    x = randn(stack.num_nodes, 2)
    by_type = {t: x[stack.nodes_of(t).start : stack.nodes_of(t).stop] for t in stack.node_types}
    seen = {}
    for number, targets, product in PathProducts(parts, paths).of_types(by_type):
        seen[number] = product
        assert torch.equal(targets, torch.arange(len(rows)))
    assert set(seen) == set(range(len(paths)))
    for number, path in enumerate(paths):
        expected = x
        for step in reversed(path):
            relation, _, far = parts.steps[step]
            inside = torch.zeros(stack.num_nodes, dtype=torch.float64)
            places = stack.nodes_of(stack.node_types[far])
            inside[places.start : places.stop] = 1
            expected = stored(stack, relation) @ (inside[:, None] * expected)
        torch.testing.assert_close(seen[number], expected[rows], rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(stacks(), st.integers(1, 3), st.sampled_from(list(STACKS)))
def test_walks_add_up_to_the_hops(stack, K, prepared):
    """The sum over all walks, F_1 ⋯ F_K v, is what K propagations give."""
    if not len(stack):
        return
    stack = STACKS[prepared](stack)
    filters, h = random_filters(K, 2, len(stack)), randn(stack.num_nodes, 2, 3)
    walks = Walks.of(decomposed(stack, K), filters)
    expected = h
    for k in reversed(range(K)):
        expected = stack.propagate(expected, filters[k])
    ranges = [stack.nodes_of(t) for t in stack.node_types]
    values = h.transpose(1, 2).numpy()
    for mine, product in zip(ranges, walks.product([values[r.start : r.stop] for r in ranges]), strict=True):
        there = expected[mine.start : mine.stop].transpose(1, 2)
        torch.testing.assert_close(torch.from_numpy(product), there, rtol=1e-12, atol=1e-12)


def test_effective_paths_are_those_that_edges_allow_short_ones_first():
    """Author ← paper ← venue, and back; one paper has no venue."""
    writes, held = torch.tensor([[0, 0, 1], [0, 1, 1]]), torch.tensor([[0], [0]])
    stack = RelationStack.from_edges(
        {("paper", "by", "author"): writes, ("author", "of", "paper"): writes.flip(0), ("venue", "has", "paper"): held},
        {"author": 2, "paper": 2, "venue": 1},
        dtype=torch.float64,
    )
    names = PathNames(stack.node_types, stack.relations)
    for rows, expected in (
        (torch.tensor([0, 1]), ["A", "AP", "APA", "APV"]),
        (torch.tensor([1]), ["A", "AP", "APA", "APV"]),
    ):
        parts = decomposed(stack, 2, rows)
        assert [names.short(parts.path(0, steps)) for steps in parts.effective_paths(0)] == expected
    assert IDENTITY not in [stack.relations[step.relation] for step in parts.steps]
    assert len(list(parts.effective_paths(0, most=2))) == 2
    for steps in parts.effective_paths(0):
        assert parts.numbers(parts.path(0, steps)) == list(steps)


def test_shared_ends_are_computed_once():
    """The cost counts what is read: two paths with the same last step read its edges once."""
    edges = {("n", "r", "n"): torch.tensor([[0, 1], [1, 2]]), ("n", "s", "n"): torch.tensor([[2, 0, 1], [0, 1, 1]])}
    stack = RelationStack.from_edges(edges, {"n": 3})
    parts = decomposed(stack, 2)
    one, two = ((0, 1), (1, 1))
    together = PathProducts(parts, [one, two]).cost
    last = parts.blocks[1][1]
    assert (
        together == PathProducts(parts, [one]).cost + PathProducts(parts, [two]).cost - last.num_edges - last.num_rows
    )
