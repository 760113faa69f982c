"""The kernels trust indices, so every door that leads to them looks at what it is given."""

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from graphs import randn, random_filters, random_stack
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn import InputError
from fastgtn.links.joined.dots import pair_dots
from fastgtn.nn.baselines.parts.random_walks import WalkGraph, random_walks
from fastgtn.relations import NeighborSampler, RelationStack
from fastgtn.relations.kernels.attention import attend, edge_dots, edge_sums
from fastgtn.relations.kernels.nearest import largest_products
from fastgtn.relations.layout.diagonal import Diagonal
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator, propagate_reference

FIELDS = ("row_ptr", "relation", "seg_ptr", "col")


def small() -> RelationStack:
    return random_stack(4, num_types=2, num_relations=3, max_nodes=6, max_edges=12).row_normalized()


def with_segments(stack: RelationStack, **changes: object) -> RelationStack:
    (edges,) = stack.operator.edges
    damaged = replace(edges.segments, **changes)
    return replace(stack, operator=replace(stack.operator, edges=(replace(edges, segments=damaged),)))


def reference(stack: RelationStack, h: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    operator = stack.operator
    loops = h.new_zeros(0, 1) if operator.diagonal is None else operator.diagonal.pattern_weights(filters)
    return propagate_reference(operator, h, filters, loops, [edges.values for edges in operator.edges])


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 500),
    st.sampled_from(FIELDS),
    st.integers(0, 10_000),
    st.sampled_from([-(2**31), -1, 0, 1, 2, 5, 10_000, 2**31 - 1]),
    st.sampled_from(["replace", "pickle", "deepcopy"]),
)
def test_a_changed_index_is_refused_or_computed_as_plain_torch_does(seed, field, place, value, way):
    """One number of one array is overwritten: out of range it is refused, in range the kernel gives torch's result."""
    stack = random_stack(seed, num_types=2, num_relations=3, max_nodes=6, max_edges=12).row_normalized()
    h, filters = randn(stack.num_nodes, 2, 3), random_filters(2, len(stack))
    stack.propagate(h, filters)  # what was found to be sound before does not vouch for a changed copy
    array = getattr(stack.operator.edges[0].segments, field).clone()
    if not array.numel():
        return
    array[place % array.numel()] = value
    stack = with_segments(stack, **{field: array})
    stack = {"replace": lambda s: s, "pickle": lambda s: pickle.loads(pickle.dumps(s)), "deepcopy": copy.deepcopy}[way](
        stack
    )
    try:
        out = stack.propagate(h, filters)
    except InputError:
        return
    torch.testing.assert_close(out, reference(stack, h, filters), rtol=1e-12, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(-2, 6),
    st.integers(-2, 6),
    st.lists(st.tuples(st.integers(-3, 8), st.integers(-3, 8)), max_size=6),
    st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.integers(0, 3), st.integers(0, 4)),
)
def test_any_edges_counts_and_shapes_are_refused_or_right(papers, authors, edges, shape, filter_shape):
    """From edge lists to a hop: nothing but our own error, or the dense product."""
    index = torch.tensor(edges, dtype=torch.int64).view(-1, 2).T
    h, filters = randn(*shape), randn(*filter_shape)
    try:
        stack = RelationStack.from_edges(
            {("paper", "by", "author"): index}, {"paper": papers, "author": authors}, dtype=torch.float64
        )
        out = stack.operator.apply(h, filters)
    except InputError:
        return
    dense = torch.stack([stack[t].to_dense() for t in range(len(stack))])
    expected = torch.einsum("ct,tij,jcd->icd", filters, dense, h)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [-1, 2.0, True, "3", None])
def test_node_counts_are_whole_numbers(count):
    with pytest.raises(InputError, match=r'num_nodes of "n" must be a whole number, at least 0, but got'):
        RelationStack.from_edges({("n", "r", "n"): torch.zeros(2, 0, dtype=torch.int64)}, {"n": count})
    assert RelationStack.from_edges({}, {"n": np.int64(3)}).num_nodes == 3


def test_more_nodes_than_an_int32_can_number_are_refused():
    none = torch.zeros(2, 0, dtype=torch.int64)
    with pytest.raises(InputError, match="can have at most 2,147,483,647 nodes, but got 4,294,967,294"):
        RelationStack.from_edges({("a", "r", "b"): none}, {"a": 2**31 - 1, "b": 2**31 - 1})
    with pytest.raises(InputError, match="there may be 0 … 2147483647 cols"):
        Segments.build(*(torch.zeros(0, dtype=torch.int64),) * 3, shape=(1, 2**31), num_relations=1)


def test_features_and_filters_must_fit_the_operator():
    stack = small()
    h, filters = randn(stack.num_nodes, 2, 3), random_filters(2, len(stack))
    for wrong_h, wrong_filters in ((h[:1], filters), (h[:, :1], filters), (h[:, 0], filters), (h, filters[:, :1])):
        with pytest.raises(InputError, match=r"takes features \[\d+, C, d\] and filters"):
            stack.operator.apply(wrong_h, wrong_filters)


def test_parts_of_an_operator_must_fit_each_other():
    stack = small()
    operator, (edges,) = stack.operator, stack.operator.edges
    with pytest.raises(InputError, match="an operator has 0 … 2,147,483,647 rows, columns and relations, but got -1"):
        Operator(-1, operator.num_cols, operator.num_relations, (), None)
    with pytest.raises(InputError, match="got edges of"):
        replace(operator, num_rows=operator.num_rows + 1)
    with pytest.raises(InputError, match="got self-loops of 1 rows"):
        replace(operator, diagonal=Diagonal.identity(1, operator.num_relations))
    with pytest.raises(InputError, match="edges need one real number each"):
        Edges(edges.segments, edges.values[:-1])
    with pytest.raises(InputError, match="do not fit an operator of"):
        replace(stack, node_counts=(1, 1))
    wrong = replace(operator, diagonal=replace(operator.diagonal, pattern=operator.diagonal.pattern + 100))
    with pytest.raises(InputError, match="pattern must lie in 0 …"):
        wrong.apply(randn(stack.num_nodes, 1, 2), random_filters(1, len(stack)))


def test_samplers_and_products_look_at_the_edges_too():
    stack = small()
    damaged = with_segments(stack, col=stack.operator.edges[0].segments.col + 1000)
    with pytest.raises(InputError, match="col must lie in"):
        NeighborSampler(damaged, [2])
    with pytest.raises(InputError, match="col must lie in"):
        damaged.mix(random_filters(2, len(stack)))
    with pytest.raises(InputError, match="col must lie in"):
        damaged[0].to_dense()


def test_walks_nearest_neighbours_and_pairs_stay_within_their_nodes():
    graph = WalkGraph(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([1.0, 2.0]))
    with pytest.raises(InputError, match=r"walks start at nodes 0 … 1, but got 0 … 7"):
        random_walks(graph, np.array([0, 7]), 3, p=1.0, q=1.0, seed=0)
    with pytest.raises(InputError, match=r"rows must lie in 0 … 4, but they span -1 … 2"):
        largest_products(torch.randn(5, 3), 2, rows=torch.tensor([-1, 2]))
    matrix = sp.identity(3, format="csr")
    with pytest.raises(InputError, match=r"nodes must lie in 0 … 2, but span 0 … 3"):
        pair_dots(matrix, matrix, np.array([0, 3]), np.array([0, 1]))
    with pytest.raises(InputError, match="got 2 sources and 1 targets"):
        pair_dots(matrix, matrix, np.array([0, 1]), np.array([0]))


def test_attention_refuses_nodes_that_do_not_exist():
    edges = torch.tensor([[0, 4], [1, 0]])
    values, scores = torch.randn(3, 2, 4), torch.randn(3, 2)
    with pytest.raises(InputError, match="nodes in 0 … 2, but they span 0 … 4"):
        attend(edges, torch.randn(2, 2), values, 3)
    with pytest.raises(InputError, match="nodes in 0 … 2, but they span 0 … 4"):
        edge_dots(edges, values, values)
    with pytest.raises(InputError, match="2 heads"):
        edge_sums(edges.clamp(max=1), scores[:, :1], scores, slope=0.2)
    with pytest.raises(InputError, match=r"logits \[2, H\]"):
        attend(edges.clamp(max=1), torch.randn(1, 2), values, 3)


def test_attention_in_half_precision_keeps_its_type():
    """Computed in float32, returned as it came."""
    edges = torch.tensor([[0, 1, 2, 1], [1, 0, 0, 1]])
    logits, values = torch.randn(4, 2), torch.randn(3, 2, 4)
    expected = attend(edges, logits.bfloat16().float(), values.bfloat16().float(), 3)
    half = values.bfloat16().requires_grad_()
    out = attend(edges, logits.bfloat16(), half, 3)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, expected.bfloat16())
    out.float().sum().backward()
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16


@pytest.mark.slow
def test_random_calls_stay_in_bounds(tmp_path):
    """The kernels are compiled with numba's bounds checking: a read or write outside of an array would be an error."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(root / "tests" / "bounds_checked_calls.py"), "200"],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    computed, refused = map(int, done.stdout.split())
    assert computed + refused == 200
    assert min(computed, refused) > 20
