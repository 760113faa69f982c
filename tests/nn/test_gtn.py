"""Implicit GTN, explicit GTN and the dense formula of the paper are one function."""

import pytest
import torch
from graphs import randn, random_filters, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense, gtn, learned_graph

from fastgtn import GTN, FastGTN, InputError, RelationStack
from fastgtn.nn.gtn import convolve
from fastgtn.relations import RelationMatrix


def explicit(stack, filters, z, gamma):
    """The convolution on the written-out learned graphs, with the D^-1 of the paper."""
    product = stack.mix(filters[0])
    for hop in filters[1:]:
        product = product.compose(stack.mix(hop)).row_normalized("zero")
    out = []
    for c in range(filters.size(1)):
        matrix: RelationMatrix = product[c]
        total = (matrix @ torch.ones_like(z[:, :1])) + gamma
        out.append((matrix @ z + gamma * z) / torch.where(total > 0, total, 1))
    return torch.stack(out, 1)


@settings(max_examples=60, deadline=None)
@given(stacks(), st.integers(1, 4), st.sampled_from([0.0, 0.3, 1.0]))
def test_implicit_explicit_and_dense_gtn_are_equal(stack, K, gamma):
    """Raw weighted matrices, with and without identity, values and gradients (float64, 1e-10)."""
    if not len(stack):
        return
    filters = random_filters(K, 2, len(stack)).requires_grad_()
    z = randn(stack.num_nodes, 3).requires_grad_()
    wide = z[:, None].expand(-1, 2, -1)
    results = [
        convolve(wide, stack.hops(K), filters, gamma),
        explicit(stack, filters, z, gamma),
        gtn(dense(stack), filters, z, gamma),
    ]
    probe = randn(*results[0].shape, seed=1)
    gradients = [torch.autograd.grad((out * probe).sum(), (z, filters)) for out in results]
    for out, gradient in zip(results[1:], gradients[1:], strict=True):
        torch.testing.assert_close(results[0], out, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(gradients[0], gradient, rtol=1e-9, atol=1e-9)


def uneven_stack(dtype: torch.dtype) -> RelationStack:
    """One node with 200 neighbours, many with one, weights from 1e-3 to 1e3."""
    g = torch.Generator().manual_seed(0)
    hub = torch.stack([torch.arange(1, 201), torch.zeros(200, dtype=torch.int64)])
    chain = torch.stack([torch.arange(300), (torch.arange(300) + 1) % 300])
    weight = 10 ** (6 * torch.rand(500, generator=g, dtype=torch.float64) - 3)
    edges = {("n", "hub", "n"): (hub, weight[:200]), ("n", "chain", "n"): (chain, weight[200:])}
    return RelationStack.from_edges(edges, {"n": 300}, dtype=dtype)


@pytest.mark.parametrize("K", [2, 5, 12])
@pytest.mark.parametrize("factor", [1.0, 1e6, 1e-6])
def test_long_paths_on_mixed_degrees_stay_in_range(K, factor):
    """float32 features against the float64 oracle; path counts run far beyond float32."""
    stack = uneven_stack(torch.float64)
    z, filters = randn(300, 4), random_filters(K, 2, 3)
    oracle = gtn(dense(stack), filters, z, 1.0)
    edges = stack.operator.edges[0]
    scaled = stack.with_channels(stack.operator)  # same numbers, weights multiplied: rows are normalised anyway
    raw = type(edges)(edges.segments, edges.values * factor)
    scaled = RelationStack(
        stack.node_types,
        stack.node_counts,
        stack.relations[:2],
        type(stack.operator)(300, 300, 2, (raw,), None),
    )
    without = filters[..., :2] / filters[..., :2].sum(-1, keepdim=True)
    expected = gtn(dense(stack)[:2], without, z, 1.0)
    wide = z.float()[:, None].expand(-1, 2, -1)
    out = convolve(wide, scaled.to(torch.float32).hops(K), without.float(), 1.0)
    torch.testing.assert_close(out.double(), expected, rtol=2e-4, atol=2e-4)
    out = convolve(wide, stack.to(torch.float32).hops(K), filters.float(), 1.0)
    torch.testing.assert_close(out.double(), oracle, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("aggregate", ["concat", "mean", "sum", "none"])
@pytest.mark.parametrize("encoder", ["linear", "relu"])
def test_fast_gtn_from_gtn_is_the_same_function(K, layers, aggregate, encoder):
    """On the same row-normalised stack, γ converted; values and gradients of the features."""
    stack = random_stack(7, num_types=2, num_relations=3, max_edges=12).row_normalized()
    options = {"path_length": K, "num_layers": layers, "aggregate": aggregate, "encoder": encoder}
    model = GTN(5, 4, stack.relations, dropout=0.0, **options, encoder_features=6, bias=True, gamma=0.7).double()
    with torch.no_grad():
        for bias in model.biases:
            bias.normal_()
    fast = FastGTN.from_gtn(model)
    x = randn(stack.num_nodes, 5).requires_grad_()
    mine, theirs = fast(x, stack), model(x, stack)
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(*(torch.autograd.grad(o.square().sum(), x) for o in (mine, theirs)))


def test_learned_graphs_are_the_graphs_of_the_paper():
    stack = random_stack(5, num_types=2, num_relations=3, max_edges=12)
    model = GTN(4, 4, stack.relations, dropout=0.0, path_length=3).double()
    graphs = model.learned_graphs(stack)
    oracle = learned_graph(dense(stack), model.filters())
    torch.testing.assert_close(dense(graphs), oracle)
    some = model.learned_graphs(stack, top=2)
    for c in range(2):
        kept = some[c].to_dense()
        for mine, whole in zip(kept, oracle[c], strict=True):
            values, places = whole.topk(2)
            torch.testing.assert_close(mine[places], values)
            assert (mine > 0).sum() == (values > 0).sum()
    exported = some.to_hetero()
    assert exported.num_nodes == stack.num_nodes
    assert all(name.startswith("channel") for _, name, _ in exported.edge_types)
    with pytest.raises(InputError, match=r"top=n for the n largest"):
        model.learned_graphs(stack, max_memory=100)
    with pytest.raises(InputError, match="a smaller top"):
        model.learned_graphs(stack, top=5, max_memory=100)
    with pytest.raises(InputError, match="top must be at least 1"):
        model.learned_graphs(stack, top=0)


def test_learned_graphs_carry_gradients_to_the_filters():
    stack = random_stack(5, num_types=1, num_relations=2, max_edges=12)
    model = GTN(4, 4, stack.relations, dropout=0.0, path_length=2).double()
    weights = randn(2, stack.num_nodes, stack.num_nodes)
    (dense(model.learned_graphs(stack)) * weights).sum().backward()
    mine = model.filters.logits.grad.clone()
    model.zero_grad()
    (learned_graph(dense(stack), model.filters()) * weights).sum().backward()
    torch.testing.assert_close(mine, model.filters.logits.grad)


def test_gtn_without_identity_has_no_short_paths():
    """0 → 1 → 2: with two hops and no identity, node 2 hears node 0 alone, and node 1 nothing."""
    edges = {("n", "next", "n"): torch.tensor([[0, 1], [1, 2]])}
    stack = RelationStack.from_edges(edges, {"n": 3}, identity=False)
    model = GTN(
        3,
        3,
        stack.relations,
        dropout=0.0,
        path_length=2,
        num_channels=1,
        gamma=0.0,
        aggregate="none",
        activation="none",
    )
    graph = model.learned_graphs(stack)[0].to_dense()
    assert graph.tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    with torch.no_grad():
        model.input.weights[0].copy_(torch.eye(3))
    torch.testing.assert_close(model(torch.eye(3), stack), graph)


def test_negative_weights_are_refused():
    stack = RelationStack.from_edges({("n", "r", "n"): (torch.tensor([[0], [1]]), torch.tensor([-2.0]))}, {"n": 2})
    model = GTN(1, 2, stack.relations, dropout=0.0)
    with pytest.raises(InputError, match="GTN divides by degrees"):
        model(torch.ones(2, 1), stack)
    with pytest.raises(InputError, match="GTN divides by degrees"):
        model.learned_graphs(stack)


def extreme_stack(low: float, high: float) -> RelationStack:
    """A ring and its chords, with weights of very different sizes."""
    nodes = torch.arange(12)
    ring, chords = torch.stack([nodes, (nodes + 1) % 12]), torch.stack([nodes, (nodes * 5 + 2) % 12])
    g = torch.Generator().manual_seed(0)
    weight = 10 ** (low + (high - low) * torch.rand(24, generator=g, dtype=torch.float64))
    edges = {("n", "ring", "n"): (ring, weight[:12]), ("n", "chords", "n"): (chords, weight[12:])}
    return RelationStack.from_edges(edges, {"n": 12}, dtype=torch.float64)


@pytest.mark.parametrize(("low", "high"), [(30, 30), (-30, -30), (-30, 30), (-10, 10)])
@pytest.mark.parametrize("K", [2, 4])
def test_extreme_weights_give_the_oracle_s_answer(low, high, K):
    stack = extreme_stack(low, high)
    z, filters = randn(12, 3), random_filters(K, 2, 3)
    out = convolve(z.float()[:, None].expand(-1, 2, -1), stack.to(torch.float32).hops(K), filters.float(), 1.0)
    torch.testing.assert_close(out.double(), gtn(dense(stack), filters, z, 1.0), rtol=2e-4, atol=2e-4)


def test_paths_beyond_the_range_of_numbers_are_refused():
    """Two nodes with edges of weight 1e30, and two that have only themselves: after 20 hops, 1e600 against 1."""
    pair = {("n", "pair", "n"): (torch.tensor([[0, 1], [1, 0]]), torch.full((2,), 1e30, dtype=torch.float64))}
    stack = RelationStack.from_edges(pair, {"n": 4}, dtype=torch.float64)
    with pytest.raises(InputError, match=r"paths of 20 hops differ by more than .* rescale the edge weights"):
        convolve(randn(4, 1, 3), stack.hops(20), random_filters(20, 1, 2), 1.0)
    z, filters = randn(12, 1, 3), random_filters(20, 1, 3)
    ordinary = extreme_stack(-1, 1)
    out = convolve(z, ordinary.hops(20), filters, 1.0)
    torch.testing.assert_close(out, gtn(dense(ordinary), filters, z[:, 0], 1.0), rtol=1e-9, atol=1e-9)
