"""Shares of meta-paths against an oracle that enumerates all sequences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn.errors import InputError
from fastgtn.explain import rank_metapaths
from fastgtn.nn import GTN, FastGTN, NodeClassifier, NonLocalOptions
from fastgtn.relations import RelationStack
from fastgtn.relations.paths import search as path_search
from tests.explain.oracle import mean_shares, path_operators, split_matrices
from tests.graphs import random_filters, random_stack, stacks


def fast_gtn(stack, filters, **options):
    K, C, _ = filters.shape
    model = FastGTN(2, 2, stack.relations, dropout=0.0, path_length=K, num_channels=C, **options).double()
    model.hop_filters()[0].fix(filters)
    return model


def gtn(stack, filters, **options):
    K, C, _ = filters.shape
    model = GTN(2, 2, stack.relations, dropout=0.0, path_length=K, num_channels=C, **options).double()
    model.hop_filters()[0].fix(filters)
    return model


def assert_equals_oracle(model, raw, stack, filters, target, **options):
    ranking = rank_metapaths(model, stack, target, top=10_000, **options)
    parts = split_matrices(raw, stack)
    rows = torch.tensor(stack.nodes_of(target))
    if "nodes" in options:
        rows = rows[options["nodes"]]
    channels = [mean_shares(path_operators(parts, filters[:, c]), rows) for c in range(filters.size(1))]
    paths = {p for shares in channels for p in shares}
    expected = {p: [shares.get(p, 0.0) for shares in channels] for p in paths}
    places = {relation: t for t, relation in enumerate(stack.relations)}
    found = {tuple(places[r] for r in ranked.path.relations): ranked for ranked in ranking}
    assert found.keys() == expected.keys() - {()}
    for steps, ranked in found.items():
        assert ranked.channels == pytest.approx(expected[steps], abs=1e-10)
        assert ranked.weight == pytest.approx(sum(expected[steps]) / len(channels), abs=1e-10)
    assert ranking.empty_channels == pytest.approx(expected.get((), [0.0] * len(channels)), abs=1e-10)
    if paths:
        assert ranking.listed_weight == pytest.approx(1, abs=1e-10)
    weights = [ranked.weight for ranked in ranking]
    assert weights == sorted(weights, reverse=True)
    return ranking


@settings(max_examples=40, deadline=None)
@given(raw=stacks().filter(len), K=st.integers(1, 3), seed=st.integers(0, 99))
def test_fast_gtn_on_a_normalised_stack(raw, K, seed):
    stack = raw.row_normalized("self")
    filters = random_filters(K, 2, len(stack), seed=seed)
    assert_equals_oracle(fast_gtn(stack, filters), raw, stack, filters, "t0")


@settings(max_examples=40, deadline=None)
@given(stack=stacks(identity=True), K=st.integers(1, 3), seed=st.integers(0, 99))
def test_gtn_on_raw_adjacency(stack, K, seed):
    filters = random_filters(K, 2, len(stack), seed=seed)
    assert_equals_oracle(gtn(stack, filters), stack, stack, filters, "t0")


@settings(max_examples=40, deadline=None)
@given(stack=stacks(identity=False), K=st.integers(1, 3), seed=st.integers(0, 99))
def test_gtn_without_identity(stack, K, seed):
    filters = random_filters(K, 1, len(stack), seed=seed)
    assert_equals_oracle(gtn(stack, filters), stack, stack, filters, "t0")


@settings(max_examples=20, deadline=None)
@given(raw=stacks().filter(len), seed=st.integers(0, 99))
def test_chosen_nodes(raw, seed):
    stack = raw.row_normalized("self")
    filters = random_filters(2, 2, len(stack), seed=seed)
    assert_equals_oracle(fast_gtn(stack, filters), raw, stack, filters, "t0", nodes=[0])


@pytest.mark.parametrize("limit", ["_MOST_BOUNDS", "_MOST_MASS", None])  # one bound for all lengths; one by one
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), top=st.integers(1, 12), normalized=st.booleans(), between=st.booleans())
def test_the_top_paths_are_those_of_the_whole_list(limit, seed, top, normalized, between):
    stack = random_stack(seed, num_types=3, num_relations=6, max_edges=12)
    stack = stack.row_normalized("self") if normalized else stack
    filters = random_filters(4, 2, len(stack), seed=seed)
    model = fast_gtn(stack, filters)
    with pytest.MonkeyPatch.context() as patch:
        if limit:
            patch.setattr(path_search, limit, 0)
        every = list(rank_metapaths(model, stack, "t0", top=10_000))
        few = rank_metapaths(model, stack, "t0", top=top, between_targets=between)
    wanted = [ranked for ranked in every if not between or ranked.path.types[-1] == "t0"][:top]
    assert [ranked.weight for ranked in few] == pytest.approx([ranked.weight for ranked in wanted], abs=1e-14)
    assert [ranked.rank for ranked in few] == list(range(1, len(wanted) + 1))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), top=st.integers(1, 5), effort=st.integers(0, 8))
def test_a_search_that_breaks_off_says_how_far_it_is_proved(seed, top, effort):
    stack = random_stack(seed, num_types=2, num_relations=6, max_edges=12)
    model = gtn(stack, random_filters(4, 2, len(stack), seed=seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_search, "_LARGEST_BATCH", 1)
        some = rank_metapaths(model, stack, "t0", top=top, effort=effort)
    every = rank_metapaths(model, stack, "t0", top=10_000, effort=None)
    assert every.caveat is None
    for ranked in some:
        assert ranked.weight == pytest.approx(every[ranked.name].weight, abs=1e-14)
    proved = [ranked.weight for ranked in every][: some.num_certain]
    assert [ranked.weight for ranked in some][: some.num_certain] == pytest.approx(proved, abs=1e-14)
    listed = {ranked.name for ranked in some}
    not_listed = [ranked.weight for ranked in every if ranked.name not in listed]
    least = max(some.unseen, min((ranked.weight for ranked in some), default=0.0))
    assert max(not_listed, default=0.0) <= least + 1e-14
    assert (some.caveat is None) == (some.num_certain == len(some))


def test_very_many_paths_of_nearly_the_same_weight_do_not_take_for_ever():
    stack = random_stack(0, num_types=1, num_relations=30, max_nodes=40, max_edges=200)
    torch.manual_seed(0)
    ranking = rank_metapaths(GTN(2, 2, stack.relations, dropout=0.0, path_length=6), stack, "t0", top=20, effort=50)
    assert len(ranking) == 20
    assert ranking.unseen > ranking.paths[-1].weight
    assert "not listed has a weight of" in ranking.caveat
    assert ranking.to_dict()["certain"] == ranking.num_certain < 20


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), identity=st.booleans(), between=st.booleans())
def test_the_plain_rule_multiplies_filter_weights(seed, identity, between):
    stack = random_stack(seed, num_types=2, num_relations=4, identity=identity)
    filters = random_filters(3, 2, len(stack), seed=seed)
    ranking = rank_metapaths(gtn(stack, filters), stack, "t0", rule="plain", top=10_000, between_targets=between)
    everything = rank_metapaths(gtn(stack, filters), stack, "t0", top=10_000, between_targets=between)
    for ranked in ranking:
        steps = [stack.relations.index(r) for r in ranked.path.relations]
        assert ranked.plain_weight == pytest.approx(largest_product(filters, steps, identity), abs=1e-12)
    plain = [ranked.plain_weight for ranked in ranking]
    assert plain == sorted(plain, reverse=True)
    by_name = {ranked.name: ranked.plain_weight for ranked in everything if ranked.plain_weight}
    assert by_name.items() <= {ranked.name: ranked.plain_weight for ranked in ranking}.items()
    top = rank_metapaths(gtn(stack, filters), stack, "t0", rule="plain", top=3, between_targets=between)
    assert [ranked.plain_weight for ranked in top] == pytest.approx(plain[:3])


def largest_product(filters, steps, identity):
    """All ways to pad the path with the identity, one by one."""
    K, C, T = filters.shape
    total = 0.0
    for c in range(C):
        places = torch.combinations(torch.arange(K), len(steps)).tolist() if steps else [[]]
        products = []
        for taken in places:
            sequence = [T - 1] * K
            for k, step in zip(taken, steps, strict=True):
                sequence[k] = step
            if identity or len(steps) == K:
                products.append(float(torch.stack([filters[k, c, t] for k, t in enumerate(sequence)]).prod()))
        total += max(products, default=0.0)
    return total / C


def academic_stack(identity=True):
    """Three authors, two papers, one venue; author 2 has no paper."""
    edges = {
        ("paper", "PA", "author"): torch.tensor([[0, 0, 1], [0, 1, 1]]),
        ("author", "AP", "paper"): torch.tensor([[0, 1, 1], [0, 0, 1]]),
        ("venue", "VP", "paper"): torch.tensor([[0, 0], [0, 1]]),
    }
    return RelationStack.from_edges(edges, {"author": 3, "paper": 2, "venue": 1}, identity=identity)


def test_steps_that_cannot_start_are_merged_away():
    stack = academic_stack().row_normalized()
    ranking = rank_metapaths(fast_gtn(stack, torch.full((2, 1, 4), 0.25)), stack, "author")
    # a quarter of the mass moves at each hop: PA from authors, AP or VP from papers; author 2 always stays
    share = {"AP": 2 / 3 * (1 / 4 * 2 / 4 + 3 / 4 * 1 / 4), "APA": 2 / 3 / 16, "APV": 2 / 3 / 16}
    assert {ranked.name: ranked.weight for ranked in ranking} == pytest.approx(share)
    assert ranking.empty_weight == pytest.approx(1 - sum(share.values()))
    assert ranking["APV"].plain_weight == pytest.approx(1 / 16)
    assert [
        ranked.name
        for ranked in rank_metapaths(
            fast_gtn(stack, torch.full((2, 1, 4), 0.25)), stack, "author", between_targets=True
        )
    ] == ["APA"]


def test_nodes_without_any_walk_have_no_shares():
    stack = academic_stack(identity=False)
    ranking = rank_metapaths(gtn(stack, torch.full((2, 1, 3), 1 / 3), gamma=1.0), stack, "author")
    assert (ranking.num_nodes, ranking.num_without) == (2, 1)
    # author 0 has paper 0 with two authors and a venue, author 1 both papers
    assert ranking["APA"].weight == pytest.approx((2 / 3 + 3 / 5) / 2)
    assert ranking.own_share == pytest.approx((0.5 + 0.5 + 1) / 3)


def test_one_channel_and_one_layer_can_be_asked_for():
    stack = random_stack(3, num_types=2, num_relations=4).row_normalized()
    filters = random_filters(2, 2, len(stack))
    model = FastGTN(2, 2, stack.relations, dropout=0.0, path_length=2, num_channels=2, num_layers=2).double()
    model.hop_filters()[1].fix(filters)
    both = rank_metapaths(NodeClassifier(model, 3), stack, "t0", layer=1)
    for c in range(2):
        one = rank_metapaths(model, stack, "t0", layer=1, channel=c)
        expected = {ranked.name: ranked.channels[c] for ranked in both}
        assert {ranked.name: ranked.weight for ranked in one} == pytest.approx(expected)


def test_own_share_is_gamma():
    stack = academic_stack()
    filters = torch.full((1, 1, 4), 0.25)
    normalized = stack.row_normalized()
    assert rank_metapaths(fast_gtn(normalized, filters, gamma=0.3), normalized, "author").own_share == 0.3
    # one filter of GTN: γ beside the degrees 1/4 + papers/4
    expected = (3 / (3 + 0.5) + 3 / (3 + 0.75) + 3 / (3 + 0.25)) / 3
    assert rank_metapaths(gtn(stack, filters, gamma=3), stack, "author").own_share == pytest.approx(expected)


def test_homogeneous_graphs_have_shares_of_hop_counts():
    edges = {("node", "edge", "node"): torch.tensor([[0, 1, 2], [1, 2, 0]])}
    stack = RelationStack.from_edges(edges, {"node": 3}).row_normalized()
    ranking = rank_metapaths(fast_gtn(stack, torch.tensor([[[0.2, 0.8]], [[0.5, 0.5]]])), stack, "node")
    expected = {"1 hop": 0.2 * 0.5 + 0.8 * 0.5, "2 hops": 0.1}
    assert {ranked.name: ranked.weight for ranked in ranking} == pytest.approx(expected)
    assert ranking.empty_weight == pytest.approx(0.4)


def test_non_local_steps_are_steps_of_their_own():
    stack = academic_stack().row_normalized()
    model = FastGTN(
        4, 4, stack.relations, dropout=0.0, path_length=2, num_channels=2, non_local=NonLocalOptions(neighbors=2)
    )
    x = torch.randn(stack.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="depend on features"):
        rank_metapaths(model, stack, "author")
    ranking = rank_metapaths(model, stack, "author", features=x, top=1000)
    assert ranking.listed_weight == pytest.approx(1)
    assert model.training
    assert any("~" in ranked.name for ranked in ranking)
    # the first hop is non-local in both channels with its own filter weight, the second stays with the identity
    alpha = model.hop_filters()[0]().detach()
    model.hop_filters()[0].fix(torch.eye(5)[[3, 4]][:, None].expand(2, 2, 5))
    only = rank_metapaths(model, stack, "author", features=x, top=1000)
    assert {ranked.name[:2] for ranked in only} == {"A~"}
    assert sum(ranked.weight for ranked in only) == pytest.approx(1)
    assert alpha.shape == (2, 2, 5)


def test_mistakes_are_named():
    stack = academic_stack().row_normalized()
    model = fast_gtn(stack, torch.full((2, 1, 4), 0.25))
    with pytest.raises(InputError, match='did you mean "author"'):
        rank_metapaths(model, stack, "autor")
    with pytest.raises(InputError, match="channel must lie in 0 … 0, but got 1"):
        rank_metapaths(model, stack, "author", channel=1)
    with pytest.raises(InputError, match="top must be at least 1"):
        rank_metapaths(model, stack, "author", top=0)
    with pytest.raises(InputError, match="layer must lie in 0 … 0, but got 2"):
        rank_metapaths(model, stack, "author", layer=2)
    with pytest.raises(InputError, match="numbers of author nodes, 0 … 2"):
        rank_metapaths(model, stack, "author", nodes=[3])
    with pytest.raises(InputError, match="no nodes of type author"):
        rank_metapaths(model, stack, "author", nodes=[])
    with pytest.raises(InputError, match="built for the relations"):
        rank_metapaths(model, academic_stack(identity=False), "author")
    model.hop_filters()[0].fix(-torch.ones(2, 1, 4))
    with pytest.raises(InputError, match="filters ≥ 0"):
        rank_metapaths(model, stack, "author")
    with pytest.raises(InputError, match="only GTN and FastGTN learn meta-paths, but the model is a Linear"):
        rank_metapaths(torch.nn.Linear(2, 2), stack, "author")
