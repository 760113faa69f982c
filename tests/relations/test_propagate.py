"""The kernel computes what the mathematics says, on every graph, in values and gradients."""

import subprocess
import sys

import pytest
import torch
from graphs import randn, random_filters, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense, mixed

from fastgtn.relations import RelationStack
from fastgtn.relations.operator import Edges, Operator, propagate_reference


@settings(max_examples=80, deadline=None)
@given(stacks(), st.integers(1, 3), st.sampled_from([1, 3, 8, 33, 40, 72]), st.sampled_from([None, "self", "zero"]))
def test_propagate_equals_the_mixed_matrix(stack, C, d, normalize):
    """First law: propagate(h, α)[:, c] == mix(α)[c] @ h[:, c]."""
    if not len(stack):
        return
    stack = stack if normalize is None else stack.row_normalized(normalize)
    h = randn(stack.num_nodes, C, d).requires_grad_()
    filters = random_filters(C, len(stack)).requires_grad_()
    out = stack.propagate(h, filters)
    explicit = stack.mix(filters)
    torch.testing.assert_close(out, torch.stack([explicit[c] @ h[:, c] for c in range(C)], 1))
    oracle = torch.einsum("cij,jcd->icd", mixed(dense(stack), filters), h)
    torch.testing.assert_close(out, oracle)
    probe = randn(*out.shape, seed=1)
    for mine, theirs in zip(
        *(torch.autograd.grad((o * probe).sum(), (h, filters)) for o in (out, oracle)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@settings(max_examples=30, deadline=None)
@given(stacks(identity=True), st.integers(1, 3), st.booleans())
def test_explicit_product_equals_hops_in_a_row(stack, K, normalize):
    """Second law, values and gradients of the filters."""
    stack = stack.row_normalized() if normalize else stack
    filters = random_filters(K, 2, len(stack)).requires_grad_()
    h = randn(stack.num_nodes, 2, 4)
    product = stack.mix(filters[0])
    for hop in filters[1:]:
        product = product.compose(stack.mix(hop))
    explicit = torch.stack([product[c] @ h[:, c] for c in range(2)], 1)
    implicit = h
    for hop in filters.flip(0):
        implicit = stack.propagate(implicit, hop)
    torch.testing.assert_close(explicit, implicit)
    probe = randn(*h.shape, seed=1)
    mine, theirs = (torch.autograd.grad((out * probe).sum(), filters)[0] for out in (explicit, implicit))
    torch.testing.assert_close(mine, theirs)


@settings(max_examples=30, deadline=None)
@given(stacks(identity=True), st.sampled_from(["self", "zero"]))
def test_fused_kernel_equals_plain_torch(stack, empty_rows):
    operator = stack.row_normalized(empty_rows).operator
    h = randn(stack.num_nodes, 2, 6).requires_grad_()
    filters = random_filters(2, len(stack)).requires_grad_()
    loops = operator.diagonal.pattern_weights(filters)
    plain = propagate_reference(operator, h, filters, loops, [e.values for e in operator.edges])
    fused = operator.apply(h, filters)
    torch.testing.assert_close(fused, plain)
    for mine, theirs in zip(
        *(torch.autograd.grad(o.square().sum(), (h, filters)) for o in (fused, plain)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def with_values(operator: Operator, values: torch.Tensor) -> Operator:
    edges = Edges(operator.edges[0].segments, values)
    return Operator(operator.num_rows, operator.num_cols, operator.num_relations, (edges,), operator.diagonal)


@pytest.mark.parametrize("identity", [True, False])
def test_gradcheck_of_features_filters_and_edge_values(identity):
    operator = random_stack(3, num_types=3, num_relations=4, max_edges=12, identity=identity).operator
    h = randn(operator.num_cols, 2, 3).requires_grad_()
    filters = random_filters(2, operator.num_relations).requires_grad_()
    values = operator.edges[0].values.clone().requires_grad_()
    assert values.numel()
    assert torch.autograd.gradcheck(lambda h, f, v: with_values(operator, v).apply(h, f), (h, filters, values))


def test_several_blocks_of_edges_are_one_sum():
    left, right = random_stack(1, num_types=1, num_relations=2), None
    counts = dict(zip(left.node_types, left.node_counts, strict=True))
    n = left.num_nodes
    right = RelationStack.from_edges(
        {("t0", "extra", "t0"): torch.randint(n, (2, 7), generator=torch.Generator().manual_seed(0))},
        counts,
        identity=False,
        dtype=torch.float64,
    ).row_normalized()
    both = left.join(right)
    assert both.names == ("t0-r0-t0", "t0-r1-t0", "t0-extra-t0", "identity")
    torch.testing.assert_close(dense(both), torch.cat([dense(left)[:2], dense(right), dense(left)[2:]]))
    h, filters = randn(n, 2, 5).requires_grad_(), random_filters(2, 4).requires_grad_()
    assert torch.autograd.gradcheck(both.propagate, (h, filters))


def large_stack() -> RelationStack:
    g = torch.Generator().manual_seed(0)
    ends = {name: torch.randint(3000, (2, 40_000), generator=g) for name in ("x", "y")}
    return RelationStack.from_edges({("n", k, "n"): e for k, e in ends.items()}, {"n": 3000})


@pytest.mark.parametrize("width", [1, 7, 64])
def test_results_do_not_depend_on_the_number_of_threads(width):
    """Bit for bit, forward and backward, and the same in a second run."""
    stack = large_stack().row_normalized()
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5, 2):
            torch.set_num_threads(threads)
            h = randn(3000, 2, width).float().requires_grad_()
            filters = random_filters(2, 3).float().requires_grad_()
            out = stack.propagate(h, filters)
            results.append([out, *torch.autograd.grad(out.square().sum(), (h, filters))])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert torch.equal(mine, theirs)


def test_float32_is_as_good_as_float32_can_be():
    stack = large_stack().row_normalized()
    h, filters = randn(3000, 2, 64), random_filters(2, 3)
    exact = stack.propagate(h, filters)
    torch.testing.assert_close(stack.propagate(h.float(), filters.float()).double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_relations", [63, 64, 65, 256, 257])
def test_any_number_of_relations(num_relations):
    stack = random_stack(5, num_types=2, num_relations=num_relations, max_edges=3).row_normalized()
    filters = random_filters(1, num_relations + 1)
    h = randn(stack.num_nodes, 1, 2)
    torch.testing.assert_close(
        stack.propagate(h, filters), torch.einsum("cij,jcd->icd", mixed(dense(stack), filters), h)
    )


def test_nothing_at_all():
    empty = RelationStack.from_edges({("n", "r", "n"): torch.empty(2, 0, dtype=torch.int64)}, {"n": 0}).row_normalized()
    h = torch.empty(0, 2, 3, requires_grad=True)
    out = empty.propagate(h, torch.full((2, 2), 0.5))
    assert out.shape == (0, 2, 3)
    out.sum().backward()
    lonely = RelationStack.from_edges({}, {"n": 1})
    torch.testing.assert_close(lonely.propagate(torch.ones(1, 1, 2), torch.ones(1, 1)), torch.ones(1, 1, 2))


def test_no_grad_and_inference_mode():
    stack = random_stack(3)
    h, filters = randn(stack.num_nodes, 1, 4), random_filters(1, len(stack)).requires_grad_()
    with torch.no_grad():
        assert not stack.propagate(h, filters).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(stack.propagate(h, filters), stack.propagate(h, filters.detach()))


def test_other_precisions_fall_back_to_torch():
    stack = random_stack(3).to(torch.float32)
    h, filters = randn(stack.num_nodes, 1, 4), random_filters(1, len(stack))
    low = stack.propagate(h.bfloat16(), filters.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.double(), stack.propagate(h, filters), rtol=0.1, atol=0.1)


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path):
    """A folder that cannot be made, and no other to fall back on: kernels compile anew, and work."""
    code = (
        "import torch; from fastgtn import RelationStack\n"
        "s = RelationStack.from_edges({('n', 'r', 'n'): torch.tensor([[0], [1]])}, {'n': 2})\n"
        "print(s.propagate(torch.ones(2, 1, 1), torch.ones(1, 2)).flatten().tolist())\n"
    )
    environment = {
        "PATH": "/usr/bin",
        "NUMBA_CACHE_DIR": "/dev/null/nowhere",
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[1.0, 2.0]", done.stderr
