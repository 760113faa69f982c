"""Rows whose meta-path features are computed once give the same logits and gradients as hops over edges."""

import warnings

import pytest
import torch
from graphs import randn, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn import GTN, FastGTN, Features, InputError, NodeClassifier, NonLocalOptions, RelationStack
from fastgtn.models import unrolling
from fastgtn.models.features import FeatureBlock
from fastgtn.models.unrolling import Unrolling

EMPTY_ROWS = ["self", "zero", "raw"]


def seen_by_types(stack: RelationStack, seed: int = 0) -> Features:
    """Each node type has features of another width; those of every second type are sparse."""
    blocks = []
    for number, name in enumerate(stack.node_types):
        nodes = stack.nodes_of(name)
        x = randn(len(nodes), 2 + number, seed=seed + number)
        if number % 2:
            x = x * (x > 0)
        matrix = Features.of(x.to_sparse_csr() if number % 2 else x).blocks[0].matrix
        blocks.append(FeatureBlock(name, torch.arange(nodes.start, nodes.stop), None, matrix, x.size(1)))
    return Features(tuple(blocks), stack.num_nodes)


def prepared(stack: RelationStack, empty_rows: str) -> RelationStack:
    return stack if empty_rows == "raw" else stack.row_normalized(empty_rows)


def both_ways(backbone, stack, features, rows, **options):
    """Logits of some rows, and the gradients of every parameter, by hops and unrolled."""
    model = NodeClassifier(backbone, 3).double()
    hops = backbone.plan(stack, rows)
    unrolled = Unrolling.of(backbone, stack, rows, features).compute(**options)
    for graph in (hops, unrolled):
        logits = model(features.select(graph.inputs), graph)
        probe = randn(*logits.shape, seed=9)
        yield logits, torch.autograd.grad((logits * probe).sum(), list(model.parameters()))


def assert_same(backbone, stack, features, rows, **options):
    (logits, gradients), (unrolled, unrolled_gradients) = both_ways(backbone, stack, features, rows, **options)
    torch.testing.assert_close(unrolled, logits, rtol=1e-10, atol=1e-10)
    for gradient, other in zip(gradients, unrolled_gradients, strict=True):
        torch.testing.assert_close(other, gradient, rtol=1e-10, atol=1e-10)


def some_rows(stack: RelationStack, seed: int) -> torch.Tensor:
    count = 1 + seed % stack.num_nodes
    return torch.randperm(stack.num_nodes, generator=torch.Generator().manual_seed(seed))[:count]


@settings(max_examples=150, deadline=None)
@given(stacks(), st.integers(1, 4), st.sampled_from(EMPTY_ROWS), st.booleans(), st.integers(0, 1000))
def test_fast_gtn_is_the_same_on_any_graph(stack, K, empty_rows, by_types, seed):
    """Isolated nodes, nodes of the right type without edges, empty relations, one node, weights, no identity."""
    if not len(stack):
        return
    stack = prepared(stack, empty_rows)
    features = seen_by_types(stack) if by_types else Features.of(randn(stack.num_nodes, 3))
    torch.manual_seed(seed)
    model = FastGTN(features, 4, stack.relations, path_length=K, gamma=0.3, bias=seed % 2 == 0, activation="tanh")
    assert_same(model, stack, features, some_rows(stack, seed))


@settings(max_examples=150, deadline=None)
@given(stacks(), st.integers(1, 4), st.sampled_from(EMPTY_ROWS), st.booleans(), st.integers(0, 1000))
def test_gtn_is_the_same_on_any_graph(stack, K, empty_rows, by_types, seed):
    """The degrees of GTN unroll alike, with and without identity, for one filter too."""
    if not len(stack):
        return
    stack = prepared(stack, empty_rows)
    features = seen_by_types(stack) if by_types else Features.of(randn(stack.num_nodes, 3))
    torch.manual_seed(seed)
    gamma = [0.0, 0.4, 1.0][seed % 3]
    model = GTN(features, 4, stack.relations, path_length=K, gamma=gamma, bias=seed % 2 == 0, activation="tanh")
    assert_same(model, stack, features, some_rows(stack, seed))
