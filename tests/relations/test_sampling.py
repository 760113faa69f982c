"""A batch is an honest part of the graph, drawn as the algorithm says, from the seed alone."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from graphs import randn, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn import GTN, FastGTN
from fastgtn.relations import IDENTITY, Batch, LayerSampler, NeighborSampler, RelationStack, derived_seed

Edge = tuple[int, int, int, float]


def edges_of(stack: RelationStack, nodes: Tensor | None = None) -> Counter[Edge]:
    """How often each (row, relation, column, weight) is stored, in the node numbers of the full graph."""
    (stored,) = stack.operator.edges
    nodes = torch.arange(stack.num_nodes) if nodes is None else nodes
    rows, cols = nodes[stored.segments.edge_rows()], nodes[stored.segments.col.long()]
    return Counter(
        zip(
            rows.tolist(), stored.segments.edge_relations().tolist(), cols.tolist(), stored.values.tolist(), strict=True
        )
    )


def assert_part_of(batch: Batch, stack: RelationStack, targets: Tensor) -> None:
    """Distinct nodes in their types' blocks, real edges, the targets where they were asked for."""
    assert batch.nodes.unique().numel() == batch.nodes.numel() == batch.stack.num_nodes
    assert batch.nodes[batch.targets].equal(targets)
    assert (batch.stack.node_types, batch.stack.relations) == (stack.node_types, stack.relations)
    for node_type in stack.node_types:
        mine, here = stack.nodes_of(node_type), batch.stack.nodes_of(node_type)
        assert all(node in mine for node in batch.nodes[here.start : here.stop].tolist())
    assert edges_of(batch.stack, batch.nodes) <= edges_of(stack)
    segments = batch.stack.operator.edges[0].segments
    assert (segments.seg_ptr.diff() > 0).all()
    key = segments.segment_rows * segments.num_relations + segments.relation
    assert (key.diff() > 0).all()


def some_targets(stack: RelationStack, seed: int, most: int = 4) -> Tensor:
    return torch.randperm(stack.num_nodes, generator=torch.Generator().manual_seed(seed))[:most]


def in_star(degree: int) -> RelationStack:
    """One node with edges of two relations from all others."""
    ones = torch.zeros(degree, dtype=torch.int64)
    first = torch.stack([torch.arange(degree), ones])
    return RelationStack.from_edges(
        {("leaf", "a", "hub"): first[:, : degree // 2], ("leaf", "b", "hub"): first[:, degree // 2 :]},
        {"leaf": degree, "hub": 1},
        dtype=torch.float64,
    )


@given(stacks(), st.integers(0, 99), st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_neighbour_batches_are_parts_of_the_graph(stack, seed, fanouts, per_relation):
    targets = some_targets(stack, seed)
    batch = NeighborSampler(stack, fanouts, per_relation=per_relation).sample(targets, seed)
    assert_part_of(batch, stack, targets)
    if stack.has_identity:
        position = stack.relations.index(IDENTITY)
        assert batch.stack[position].to_dense().equal(torch.eye(batch.stack.num_nodes, dtype=torch.float64))


@given(stacks(), st.integers(0, 99), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_layer_batches_hold_all_edges_between_their_nodes(stack, seed, budget, depth):
    targets = some_targets(stack, seed)
    batch = LayerSampler(stack, budget, depth).sample(targets, seed)
    assert_part_of(batch, stack, targets)
    inside = set(batch.nodes.tolist())
    between = {edge: n for edge, n in edges_of(stack).items() if edge[0] in inside and edge[2] in inside}
    assert edges_of(batch.stack, batch.nodes) == Counter(between)


@given(stacks(), st.integers(0, 99), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_no_limit_gives_the_exact_neighbourhood(stack, seed, hops):
    targets = some_targets(stack, seed, most=2)
    batch = NeighborSampler(stack, [None] * hops).sample(targets, seed)
    reached, wanted = set(targets.tolist()), Counter()
    for _ in range(hops):
        wanted = Counter({edge: n for edge, n in edges_of(stack).items() if edge[0] in reached})
        reached |= {col for _, _, col, _ in wanted}
    assert set(batch.nodes.tolist()) == reached
    assert edges_of(batch.stack, batch.nodes) == wanted


@pytest.mark.parametrize("kind", [FastGTN, GTN])
@pytest.mark.parametrize("layers", [1, 2])
def test_no_limit_gives_the_logits_and_gradients_of_the_full_graph(kind, layers):
    raw = random_stack(5, num_types=3, num_relations=5, max_nodes=12, max_edges=30)
    targets, x = some_targets(raw, 1, most=3), randn(raw.num_nodes, 6)
    torch.manual_seed(0)
    extra = {"num_layers": layers} if kind is FastGTN else {"num_layers": 1}
    model = kind(6, 4, raw.relations, dropout=0.0, path_length=2, num_channels=2, **extra).double()
    prepared = (lambda stack: stack.row_normalized()) if kind is FastGTN else (lambda stack: stack)
    batch = NeighborSampler(raw, [None] * model.num_hops).sample(targets, 0)
    small = prepared(batch.stack)
    probe = randn(3, model.out_features if hasattr(model, "out_features") else 4)

    def run(out: Tensor) -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        (out * probe).sum().backward()
        return out, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    full, full_grads = run(model(x, prepared(raw))[targets])
    for out in (
        lambda: model(x[batch.nodes], small)[batch.targets],
        lambda: model(
            x[batch.nodes][small.hops(model.num_hops, batch.targets).inputs], small.hops(model.num_hops, batch.targets)
        ),
    ):
        sampled, grads = run(out())
        torch.testing.assert_close(sampled, full, rtol=0, atol=1e-12)
        for mine, theirs in zip(grads, full_grads, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("degree", "fanout"), [(12, 3), (100, 40), (7, 6)])
def test_every_edge_is_drawn_equally_often(degree, fanout):
    stack, turns = in_star(degree), 3000
    sampler, hub = NeighborSampler(stack, [fanout]), torch.tensor([degree])
    counts = torch.zeros(degree)
    for seed in range(turns):
        batch = sampler.sample(hub, seed)
        assert batch.stack.num_edges == fanout
        counts[batch.nodes[batch.nodes < degree]] += 1
    share = fanout / degree
    spread = (turns * share * (1 - share)) ** 0.5
    assert ((counts - turns * share).abs() < 4.5 * spread).all()
    # draws without replacement: the counts of one turn sum to the fan-out, which makes chi² a little smaller
    chi_square = float(((counts - turns * share) ** 2).sum() / spread**2) * (degree - 1) / degree
    assert abs(chi_square - (degree - 1)) < 5 * (2 * (degree - 1)) ** 0.5


def test_pairs_of_edges_are_drawn_as_often_as_they_should():
    stack, turns = in_star(6), 4000
    sampler, pairs = NeighborSampler(stack, [2]), Counter()
    for seed in range(turns):
        batch = sampler.sample(torch.tensor([6]), seed)
        pairs[tuple(batch.nodes[batch.nodes < 6].tolist())] += 1
    expected = turns / 15
    assert len(pairs) == 15
    assert all(abs(n - expected) < 4.5 * expected**0.5 for n in pairs.values())


def test_later_hops_also_draw_for_the_targets():
    """Both hops draw 3 of 12 edges for the hub, independently: an edge is there with 1 − (9/12)²."""
    stack, turns = in_star(12), 3000
    sampler = NeighborSampler(stack, [3, 3])
    total = sum(sampler.sample(torch.tensor([12]), seed).stack.num_edges for seed in range(turns))
    assert abs(total / turns - 12 * (1 - 0.75**2)) < 0.1


@pytest.mark.parametrize("fanouts", [[3, 2], [2, 2, 1], [4, 5], [5, 1]])
def test_draws_that_together_are_as_many_as_a_row_has_edges_are_united_too(fanouts):
    stack = in_star(5)
    for seed in range(40):
        assert_part_of(NeighborSampler(stack, fanouts).sample(torch.tensor([5]), seed), stack, torch.tensor([5]))


def test_a_fan_out_per_relation_counts_each_relation():
    batch = NeighborSampler(in_star(20), [3], per_relation=True).sample(torch.tensor([20]), 0)
    assert batch.stack.operator.edges[0].segments.seg_ptr.diff().tolist() == [3, 3]


def layer_reference(stack: RelationStack, target: int, budgets: list[int], seed: int) -> set[int]:
    """One step of the layer-wise sampler, draw by draw."""
    generator = torch.Generator().manual_seed(seed)
    gathered, score = {target}, torch.zeros(stack.num_nodes, dtype=torch.float64)

    def hand_out(node: int) -> None:
        for t, relation in enumerate(stack.relations):
            if relation != IDENTITY:
                row = (stack[t].to_dense()[node] > 0).double()
                score.add_(row / row.sum().clamp(min=1))

    hand_out(target)
    for node_type, budget in zip(stack.node_types, budgets, strict=True):
        here = [j for j in stack.nodes_of(node_type) if score[j] > 0 and j not in gathered]
        new = []
        for _ in range(min(budget, len(here))):
            left = [j for j in here if j not in new]
            new.append(left[int(torch.multinomial(score[left] ** 2, 1, generator=generator))])
        gathered |= set(new)
        for node in new:
            hand_out(node)
    return gathered


def test_the_layer_sampler_draws_as_the_algorithm_says():
    edges = {
        ("b", "x", "a"): torch.tensor([[0, 1, 2, 0], [0, 0, 0, 1]]),
        ("a", "y", "a"): torch.tensor([[1, 2, 3, 3], [0, 0, 0, 1]]),
        ("b", "z", "a"): torch.tensor([[0, 3, 4, 4, 2], [0, 0, 1, 2, 3]]),
    }
    stack = RelationStack.from_edges(edges, {"a": 4, "b": 5}, dtype=torch.float64)
    sampler, turns = LayerSampler(stack, {"a": 1, "b": 2}, 1), 3000
    mine = Counter(frozenset(sampler.sample(torch.tensor([0]), seed).nodes.tolist()) for seed in range(turns))
    theirs = Counter(frozenset(layer_reference(stack, 0, [1, 2], seed)) for seed in range(turns))
    assert len(theirs) > 10
    for outcome in mine.keys() | theirs.keys():
        mean = (mine[outcome] + theirs[outcome]) / 2
        assert abs(mine[outcome] - theirs[outcome]) < 4.5 * (2 * mean) ** 0.5 + 3


def test_the_layer_sampler_goes_deeper_and_keeps_to_its_budgets():
    chain = torch.stack([torch.arange(1, 9), torch.arange(8)])
    stack = RelationStack.from_edges({("n", "next", "n"): chain}, {"n": 9, "unused": 2})
    for depth in (1, 3):
        batch = LayerSampler(stack, {"n": 5}, depth).sample(torch.tensor([0]), 0)
        assert batch.nodes.tolist() == list(range(depth + 1))


@pytest.mark.parametrize("kind", ["neighbour", "layer"])
def test_the_seed_alone_decides(kind):
    stack = random_stack(3, num_types=3, num_relations=6, max_nodes=60, max_edges=400)
    sampler = NeighborSampler(stack, [3, 2]) if kind == "neighbour" else LayerSampler(stack, 4, 2)
    jobs = [(some_targets(stack, n, most=5), n) for n in range(24)]

    def drawn(job: tuple[Tensor, int]) -> tuple[list[int], Counter[Edge]]:
        batch = sampler.sample(*job)
        return batch.nodes.tolist(), edges_of(batch.stack, batch.nodes)

    torch.manual_seed(0)
    one_after_the_other = [drawn(job) for job in jobs]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(drawn, reversed(jobs))) == one_after_the_other[::-1]
    targets = jobs[0][0]
    assert len({tuple(drawn((targets, seed))[0]) for seed in range(8)}) > 1
    assert drawn((targets, -1)) == drawn((targets, 2**64 - 1))  # any whole number is a seed


def test_close_numbers_give_unrelated_seeds():
    seeds = {derived_seed(seed, epoch, batch) for seed in range(5) for epoch in range(5) for batch in range(5)}
    assert len(seeds) == 125
    assert derived_seed(1, 2, 3) == derived_seed(1, 2, 3)


@pytest.mark.parametrize("make", [lambda s: NeighborSampler(s, [2]), lambda s: LayerSampler(s, 2, 2)])
def test_graphs_with_next_to_nothing(make):
    alone = RelationStack.from_edges({}, {"n": 1})
    batch = make(alone).sample(torch.tensor([0]), 0)
    assert batch.nodes.tolist() == batch.targets.tolist() == [0]
    assert batch.stack.num_edges == 0
    empty = RelationStack.from_edges({("n", "r", "n"): torch.empty(2, 0, dtype=torch.int64)}, {"n": 3, "m": 0})
    batch = make(empty).sample(torch.tensor([2, 1]), 0)
    assert batch.nodes.tolist() == [2, 1]
    assert batch.stack.row_normalized()["r"].to_dense().equal(torch.eye(2))
    assert make(empty).sample(torch.empty(0, dtype=torch.int64), 0).stack.num_nodes == 0


def test_an_error_leaves_no_numbers_behind(monkeypatch):
    sampler, hub = NeighborSampler(in_star(5), [2]), torch.tensor([5])
    expected = sampler.sample(hub, 0).nodes.tolist()
    with monkeypatch.context() as patch:
        patch.setattr("fastgtn.relations.sampling.batch.cut", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sampler.sample(hub, 1)
    assert sampler.sample(hub, 0).nodes.tolist() == expected


def test_refusals():
    stack = in_star(5)
    with pytest.raises(InputError, match="fanouts is empty"):
        NeighborSampler(stack, [])
    for wrong in (0, -2, 1.5, True):
        with pytest.raises(InputError, match="whole number of at least 1, or None"):
            NeighborSampler(stack, [3, wrong])
    sampler = NeighborSampler(stack, [3])
    with pytest.raises(InputError, match="must lie in 0 … 5"):
        sampler.sample(torch.tensor([6]), 0)
    with pytest.raises(InputError, match="must be distinct"):
        sampler.sample(torch.tensor([1, 1]), 0)
    with pytest.raises(InputError, match='node type "lea"; did you mean "leaf"'):
        LayerSampler(stack, {"lea": 3}, 2)
    with pytest.raises(InputError, match="at least 0"):
        LayerSampler(stack, {"leaf": -1}, 2)
    with pytest.raises(InputError, match="all budgets are 0"):
        LayerSampler(stack, 0, 2)
    with pytest.raises(InputError, match="depth is the number of sampling steps"):
        LayerSampler(stack, 3, 0)
    with pytest.raises(InputError, match="sample first, then join"):
        NeighborSampler(stack.join(replace(stack)), [3])
