"""Splits hide what must be hidden, negatives are no links, and nothing of a link leaks into its description."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links import LinkTask, Pairs, fit_links
from fastgtn.links.edges import contains, hidden_from, pair_keys
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.supervision import held_out, held_out_parts
from fastgtn.links.learned.graphs import LinkGraphs
from fastgtn.links.learned.options import encoder_config
from fastgtn.links.negatives import NegativeKind, Negatives
from fastgtn.links.reverses import both_directions
from fastgtn.relations import Relation


def keys(graph: HeteroData, relation: tuple[str, str, str], *, flipped: bool = False) -> set[tuple[int, int]]:
    pairs = graph[relation].edge_index.flip(0) if flipped else graph[relation].edge_index
    return set(map(tuple, pairs.T.tolist()))


def links_of(pairs: Pairs) -> set[tuple[int, int]]:
    return {(int(u), int(i)) for u, i, y in zip(pairs.source, pairs.target, pairs.labels, strict=True) if y}


@pytest.fixture
def graph() -> HeteroData:
    made = make_planted_links(users=60, items=40, seed=1)
    made["item", "bought_by", "user"].edge_index = made["user", "buys", "item"].edge_index.flip(0)
    return made


def test_validation_and_test_links_are_hidden_in_both_directions(graph: HeteroData) -> None:
    task = LinkTask.from_graph(graph, "buys", seed=3)
    hidden = links_of(task.val) | links_of(task.test)
    for name, flipped in ((("user", "buys", "item"), False), (("item", "bought_by", "user"), True)):
        assert not keys(task.graph, name, flipped=flipped) & hidden
        assert keys(task.test_graph, name, flipped=flipped) & links_of(task.val) == links_of(task.val)
        assert not keys(task.test_graph, name, flipped=flipped) & links_of(task.test)
    every = keys(graph, ("user", "buys", "item"))
    assert set(map(tuple, task.train.T.tolist())) | hidden == every
    assert keys(graph, ("item", "bought_by", "user"), flipped=True) == every  # the given graph is left as it was


def test_another_relation_between_the_same_types_is_no_reverse(graph: HeteroData) -> None:
    task = LinkTask.from_graph(graph, "buys", seed=3)
    assert keys(task.graph, ("user", "viewed_0", "item")) == keys(graph, ("user", "viewed_0", "item"))


def test_results_say_when_given_pairs_or_new_nodes_limit_the_scores(graph: HeteroData) -> None:
    drawn = LinkTask.from_graph(graph, "buys", seed=3)
    assert (drawn.cold_share, fit_links(drawn, longest=2).notes()) == (0.0, [])
    given = LinkTask.from_pairs(drawn.test_graph, "buys", test=drawn.test)
    assert fit_links(given, longest=2).notes()[0].startswith("The graph stores the test pairs")
    graph["item"].x = torch.eye(40)
    edges = graph["user", "buys", "item"].edge_index
    graph["user", "buys", "item"].time = (edges[1] >= 30).double()  # the last items came after all others
    del graph["item", "bought_by", "user"]
    cold = LinkTask.from_graph(graph, "buys", by="time", val=0.2)
    users, items = (set(side.tolist()) for side in cold.train)
    assert cold.cold_share == pytest.approx(np.mean([u not in users or i not in items for u, i in links_of(cold.val)]))
    assert cold.cold_share > 0.05
    (note,) = fit_links(cold, longest=2).notes()
    assert "no chosen meta-path leads through features" in note
    assert fit_links(cold, longest=2).facts()["notes"] == [note]


@pytest.mark.parametrize(("kind", "metric"), [("uniform", "ndcg@20"), ("degree", "ndcg@20"), ("two_hop", "roc_auc")])
def test_the_ranking_chooses_unless_links_are_compared_with_near_nodes(
    graph: HeteroData, kind: NegativeKind, metric: str
) -> None:
    drawn = LinkTask.from_graph(graph, "buys", negatives=kind)
    given = LinkTask.from_pairs(drawn.test_graph, "buys", test=drawn.test, negatives=kind)
    assert (drawn.select_by, given.select_by) == (metric, metric)


@pytest.mark.parametrize("kind", ["uniform", "degree", "two_hop"])
def test_negatives_are_no_links_and_follow_the_seed(graph: HeteroData, kind: str) -> None:
    relation = Relation("user", "buys", "item")
    links = graph[relation].edge_index.numpy()
    negatives = Negatives.of(graph, relation, links, kind=kind)  # type: ignore[arg-type]
    drawn = negatives.like(links, seed=5)
    assert not contains(np.sort(pair_keys(links, 40)), pair_keys(drawn, 40)).any()
    assert drawn.shape[1] > 0.9 * links.shape[1]
    np.testing.assert_array_equal(drawn, negatives.like(links, seed=5))
    assert (drawn != negatives.like(links, seed=6)).any()


def test_two_hop_negatives_lie_at_two_hops() -> None:
    graph = HeteroData()
    graph["u"].num_nodes, graph["i"].num_nodes = 3, 5
    graph["u", "knows", "u"].edge_index = torch.tensor([[0, 1], [1, 0]])
    graph["u", "buys", "i"].edge_index = torch.tensor([[0, 1, 1, 2], [0, 1, 2, 4]])
    links = graph["u", "buys", "i"].edge_index.numpy()
    drawn = Negatives.of(graph, Relation("u", "buys", "i"), links, kind="two_hop").like(
        links[:, :1].repeat(50, 1), seed=0
    )
    assert set(drawn[1].tolist()) == {1, 2}  # what the friend of user 0 buys


def test_a_split_by_time_keeps_the_latest_links_for_the_test(graph: HeteroData) -> None:
    del graph["item", "bought_by", "user"]
    store = graph["user", "buys", "item"]
    store.time = torch.arange(store.edge_index.size(1)).flip(0).double()
    task = LinkTask.from_graph(graph, "buys", by="time")
    time = {tuple(pair): float(t) for pair, t in zip(store.edge_index.T.tolist(), store.time, strict=True)}
    latest = min(time[pair] for pair in links_of(task.test))
    assert latest > max(time[pair] for pair in links_of(task.val))
    assert min(time[pair] for pair in links_of(task.val)) > max(time[tuple(pair)] for pair in task.train.T.tolist())


def test_a_link_is_never_described_by_a_graph_that_holds_it(graph: HeteroData) -> None:
    task = LinkTask.from_graph(graph, "buys", seed=0)
    parts = held_out_parts(task, longest=3, seed=0)
    both, reverses = both_directions(task.graph)
    step = reverses[Relation("user", "buys", "item")]
    for described in parts:
        matrix = described.paths.matrices[list(both.edge_types).index(tuple(step))]
        assert matrix.nnz
        assert not np.asarray(matrix[tuple(described.pairs.links)]).any()
    hidden = np.concatenate([described.pairs.links for described in parts], axis=1)
    assert len(parts) == 4
    assert len(np.unique(pair_keys(hidden, task.num_targets))) == hidden.shape[1]  # each link is hidden once
    assert held_out(task, longest=3, seed=0).scores.shape == (
        sum(map(len, (p.pairs for p in parts))),
        len(parts[0].paths),
    )


def test_a_graph_whose_only_information_is_the_edge_itself_gives_chance() -> None:
    """Edges drawn by chance: whoever scores above one half has seen the edge that it predicts."""
    aucs = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        graph = HeteroData()
        graph["u"].num_nodes = graph["i"].num_nodes = 150
        every = rng.permutation(150 * 150)[:1500]
        edges = torch.from_numpy(np.stack([every // 150, every % 150]))
        graph["u", "buys", "i"].edge_index, graph["i", "sold_to", "u"].edge_index = edges, edges.flip(0)
        aucs.append(fit_links(LinkTask.from_graph(graph, "buys", seed=seed), seed=seed).test["roc_auc"])
    assert abs(np.mean(aucs) - 0.5) < 0.06, aucs  # four tests of 150 links each


def test_links_between_nodes_of_one_type_are_pairs_without_direction() -> None:
    rng = np.random.default_rng(0)
    graph = HeteroData()
    graph["n"].num_nodes = 50
    one_way = torch.from_numpy(rng.integers(50, size=(2, 200)))
    graph["n", "joins", "n"].edge_index = torch.cat([one_way, one_way.flip(0)], 1)
    task = LinkTask.from_graph(graph, "joins")
    hidden = links_of(task.val) | links_of(task.test)
    left = keys(task.graph, ("n", "joins", "n"))
    assert not left & (hidden | {(b, a) for a, b in hidden})
    assert all(a < b for a, b in hidden)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relation": "bys"}, 'no relation "bys"; did you mean "buys"'),
        ({"relation": ("user", "buys", "shop")}, "no relation"),
        ({"val": 0.6, "test": 0.6}, "must be positive shares below 1"),
        ({"by": "time"}, "needs the time of every edge"),
        ({"negatives": "hard"}, 'must be "uniform", "degree" or "two_hop"'),
    ],
)
def test_refusals(graph: HeteroData, options: dict[str, object], message: str) -> None:
    values = {"relation": "buys"} | options
    with pytest.raises(InputError, match=message):
        LinkTask.from_graph(graph, **values)  # type: ignore[arg-type]


def test_given_pairs_are_checked(graph: HeteroData) -> None:
    for pairs, message in (
        (Pairs(np.array([0, 60]), np.array([0, 1]), np.array([1.0, 0.0])), "must lie in 0 … 59"),
        (Pairs(np.array([0, 1]), np.array([0, 1]), np.array([0.0, 0.0])), "must be 0 and 1, and some"),
    ):
        with pytest.raises(InputError, match=message):
            LinkTask.from_pairs(graph, "buys", test=pairs)


def test_hidden_edges_take_their_weights_with_them(graph: HeteroData) -> None:
    store = graph["user", "buys", "item"]
    store.edge_weight = torch.rand(store.edge_index.size(1))
    kept = hidden_from(graph, Relation("user", "buys", "item"), store.edge_index[:, :5].numpy())
    left = kept["user", "buys", "item"]
    assert left.edge_weight.equal(store.edge_weight[5:])
    assert JoinedPaths.of(kept, Relation("user", "buys", "item"), longest=2).words


def test_a_split_by_time_hides_later_edges_of_all_relations(graph: HeteroData) -> None:
    count = graph["user", "buys", "item"].edge_index.size(1)
    graph["user", "buys", "item"].time = torch.arange(count, dtype=torch.float64)
    views = graph["user", "viewed_0", "item"].edge_index.size(1)
    graph["user", "viewed_0", "item"].time = torch.linspace(0, count, views, dtype=torch.float64)
    graph["user", "viewed_0", "item"].time[3] = torch.nan
    task = LinkTask.from_graph(graph, "buys", by="time")
    first = [count - task.test.links.shape[1] - task.val.links.shape[1], count - task.test.links.shape[1]]
    for stage, moment in zip(("val", "test"), first, strict=True):
        left = task.graph_at(stage)["user", "viewed_0", "item"].time  # type: ignore[arg-type]
        assert float(left[~left.isnan()].max()) < moment
        assert left.isnan().sum() == 1  # an edge without a time is always there
    assert task.graph_at("use")["user", "viewed_0", "item"].edge_index.size(1) == views
    assert task.train.shape[1] == task.graph["user", "buys", "item"].edge_index.size(1)
    config = encoder_config("fast_gtn", {"model": {"path_length": 1, "num_channels": 1}})[0]
    stages = LinkGraphs.of(task, config).stages
    for stage in ("val", "test"):
        number = stages[stage].raw.relations.index(Relation("user", "viewed_0", "item"))  # type: ignore[index]
        stored = stages[stage].raw[number].coordinates()[0]  # type: ignore[index]
        assert len(stored) == task.graph_at(stage)["user", "viewed_0", "item"].edge_index.size(1)  # type: ignore[arg-type]
    graph["user", "buys", "item"].time[0] = torch.nan
    with pytest.raises(InputError, match="are NaN"):
        LinkTask.from_graph(graph, "buys", by="time")
    with pytest.raises(InputError, match='by "random" or by "time"'):
        LinkTask.from_graph(graph, "buys", by="date")  # type: ignore[arg-type]


def test_moments_of_single_nodes_are_refused_unless_the_split_sets_one_for_all(graph: HeteroData) -> None:
    test = LinkTask.from_graph(graph, "buys").test
    graph["user", "buys", "item"].time = torch.arange(graph["user", "buys", "item"].edge_index.size(1)).double()
    graph["user"].as_of = torch.full((60,), 5.0)
    for make in (lambda: LinkTask.from_graph(graph, "buys"), lambda: LinkTask.from_pairs(graph, "buys", test=test)):
        with pytest.raises(InputError, match=r'nodes of type "user" have as_of.*split the links by time'):
            make()
    assert LinkTask.from_graph(graph, "buys", by="time").is_timed
    assert LinkTask.for_use(graph, "buys").num_sources == 60  # all that is known today


@pytest.mark.parametrize("is_flipped", [False, True])
def test_a_relation_that_holds_the_hidden_links_is_named(is_flipped: bool) -> None:
    graph = make_planted_links(users=60, items=40, seed=0)
    buys = graph["user", "buys", "item"].edge_index
    others = torch.from_numpy(np.random.default_rng(0).integers(40, size=(2, 2 * buys.size(1))))
    rated = torch.cat([buys, others], 1).unique(dim=1)  # less than half of the ratings are purchases
    name = ("item", "rated_by", "user") if is_flipped else ("user", "rated", "item")
    assert not any("holds the hidden links" in note for note in fit_links(LinkTask.from_graph(graph, "buys")).notes())
    graph[name].edge_index = rated.flip(0) if is_flipped else rated
    notes = fit_links(LinkTask.from_graph(graph, "buys")).notes()
    assert any(f'The relation "{"-".join(name)}" holds the hidden links too' in note for note in notes)
