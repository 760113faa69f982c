"""Computing only the rows that matter gives the rows of the full computation."""

import pytest
import torch
from graphs import randn, random_filters, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn import InputError
from fastgtn.relations import Relation


@settings(max_examples=60, deadline=None)
@given(stacks(identity=True), st.integers(1, 3), st.sampled_from([None, "self", "zero"]), st.integers(0, 100))
def test_pruned_rows_equal_full_rows(stack, K, normalize, seed):
    stack = stack if normalize is None else stack.row_normalized(normalize)
    rows = torch.randperm(stack.num_nodes, generator=torch.Generator().manual_seed(seed))[:2]
    filters = random_filters(K, 2, len(stack)).requires_grad_()
    full = h = randn(stack.num_nodes, 2, 3).requires_grad_()
    for hop in filters.flip(0):
        full = stack.propagate(full, hop)
    plan = stack.hops(K, rows)
    pruned = h[plan.inputs]
    for operator, hop in zip(reversed(plan.operators), filters.flip(0), strict=True):
        pruned = operator.apply(pruned, hop)
    assert torch.equal(plan.inputs[: len(rows)], rows)
    torch.testing.assert_close(pruned, full[rows])
    probe = randn(*pruned.shape, seed=2)
    mine, theirs = (torch.autograd.grad((o * probe).sum(), (h, filters)) for o in (pruned, full[rows]))
    torch.testing.assert_close(mine, theirs)


def test_only_the_reachable_rows_are_computed():
    stack = random_stack(8, num_types=1, num_relations=1, max_nodes=6, max_edges=3)
    plan = stack.hops(1, torch.tensor([0]))
    reachable = {0, *stack["r0"].to_dense()[0].nonzero().flatten().tolist()}
    assert set(plan.inputs.tolist()) == reachable
    assert repr(plan).startswith("Hops(1 hops, rows 1 ←")


def test_bad_rows_are_refused():
    stack = random_stack(8)
    with pytest.raises(InputError, match="nodes must lie in"):
        stack.hops(1, torch.tensor([999]))
    with pytest.raises(InputError, match=r"built for the relations \(a-b-c\).*missing: a-b-c; not expected: t"):
        stack.hops(1).require_relations([Relation("a", "b", "c")])
    with pytest.raises(InputError, match="the same in another order"):
        stack.hops(1).require_relations(stack.relations[::-1])
