"""Learned encoders of links: parts that add up, links that hide themselves, batches and processes that agree."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.config import Config
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links import LinkTask
from fastgtn.links.edges import Array, hidden_from
from fastgtn.links.learned.graphs import LinkGraphs
from fastgtn.links.learned.model import LinkPredictor
from fastgtn.links.learned.options import encoder_config
from fastgtn.links.learned.parts import end_parts, pair_parts
from fastgtn.links.learned.passes import LinkBatches, WholeLinks
from fastgtn.links.learned.result import LearnedLinks, fit_encoders
from fastgtn.links.reverses import both_directions
from fastgtn.nn import Features
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import PathNames
from fastgtn.training.build import build_stack
from fastgtn.training.team import ALONE, Team

SMALL = {"model": {"hidden": 8}, "fit": {"epochs": 3}}


@pytest.fixture(scope="module")
def task() -> LinkTask:
    return LinkTask.from_graph(make_planted_links(users=60, items=40, seed=0), "buys")


@pytest.fixture(scope="module")
def trained(task: LinkTask) -> LearnedLinks:
    return fit_encoders(task, "fast_gtn", SMALL)


@pytest.mark.parametrize(("model", "normalize"), [("fast_gtn", "symmetric"), ("gtn", "row")])
def test_the_config_of_an_encoder_says_how_edges_are_divided(model: str, normalize: str) -> None:
    graph = encoder_config(model, {})[0].graph
    assert (graph.normalize, graph.empty_rows) == (normalize, "zero")


def model_on(task: LinkTask, config: Config, *, decoder: str = "dot", shared: bool = False) -> tuple:
    graphs = LinkGraphs.of(task, config)
    inputs = graphs.stages["val"]
    torch.manual_seed(0)
    model = LinkPredictor.build(
        config.model,
        inputs.features,
        inputs.raw.relations,
        decoder=decoder,  # type: ignore[arg-type]
        is_shared=shared,
    )
    return graphs, model.eval()


def fixed(name: str, **model: object) -> Config:
    given = {"path_length": 2, "num_channels": 2, "hidden": 6, **model}
    return encoder_config(name, {"model": given})[0]


@pytest.mark.parametrize(
    ("name", "options", "decoder", "shared"),
    [
        ("fast_gtn", {}, "dot", False),
        ("fast_gtn", {"activation": "relu", "aggregate": "concat", "bias": True}, "distmult", False),
        ("fast_gtn", {"activation": "elu", "aggregate": "sum", "encoder": "relu"}, "dot", True),
        ("gtn", {"activation": "relu"}, "distmult", False),
    ],
)
def test_a_score_is_the_sum_over_pairs_of_metapaths(name: str, options: dict, decoder: str, shared: bool) -> None:
    graph = make_planted_links(users=30, items=20, seed=1)
    graph["user"].x = torch.randn(30, 5, dtype=torch.float64)
    both, reverses = both_directions(graph)
    config = fixed(name, **options)
    raw = RelationStack.from_hetero(both, dtype=torch.float64)
    stack = raw.symmetrically_normalized("zero") if name == "fast_gtn" else raw
    features = Features.from_hetero(both)
    torch.manual_seed(0)
    model = LinkPredictor.build(
        config.model,
        features,
        stack.relations,
        decoder=decoder,  # type: ignore[arg-type]
        is_shared=shared,
    )
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        z, y = (encoder(features, stack) for encoder in (model.backbone.source, model.backbone.target))
    users, items = torch.tensor([0, 3, 17, 29]), torch.tensor([5, 0, 19, 7])
    start = [stack.nodes_of(t).start for t in ("user", "item")]
    expected = model.decoder(z[users + start[0]], y[items + start[1]]).detach()
    ends = [
        end_parts(encoder, stack, features, kind, nodes)
        for encoder, kind, nodes in (
            (model.backbone.source, "user", users),
            (model.backbone.target, "item", items[[1, 0, 3, 2]].sort().values),
        )
    ]
    ends[1] = ends[1].at(torch.searchsorted(items.sort().values, items))
    found = pair_parts(model, ends[0], ends[1], reverses, PathNames(stack.node_types, stack.relations))
    torch.testing.assert_close(ends[0].values.sum(0), z[users + start[0]].detach(), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.values.sum(0) + found.others, expected, atol=1e-10, rtol=0)
    assert "US·SI" in found.names
    assert len(set(found.names)) == len(found.names)


def test_explained_log_odds_are_the_predicted_ones(trained: LearnedLinks) -> None:
    known = trained.task.known_rows("use").toarray()
    source, target = np.argwhere(~known)[7]
    reasons = trained.explain(int(source), int(target))
    total = reasons.bias + reasons.popularity + sum(reason.contribution for reason in reasons.reasons)
    assert abs(total - reasons.logit) < 1e-10
    assert trained.predict([source], [target])[0] == pytest.approx(reasons.logit, abs=1e-5)
    assert trained.metapaths(3)[0].contribution > 0
    walked = [reason for reason in reasons.reasons if reason.instances]
    assert all(i.nodes[0] == source and i.nodes[-1] == target for reason in walked for i in reason.instances)


def test_a_known_link_is_not_explained_by_itself(trained: LearnedLinks) -> None:
    source, target = trained.task.train[:, 0]
    pair = np.array([[source], [target]])
    hidden = hidden_from(trained.task.graph_at("use"), trained.task.relation, pair)
    graphs = LinkGraphs.of(LinkTask.for_use(hidden, trained.task.relation), trained.config)
    other = LearnedLinks(
        graphs.task, trained.config, trained.options, trained.model, graphs, trained.screening, {}, {}, {}
    )
    assert trained.explain(int(source), int(target)).logit == pytest.approx(
        other.predict([source], [target])[0], abs=1e-5
    )


@pytest.mark.parametrize("decoder", ["dot", "distmult", "mlp"])
def test_recommendations_equal_a_full_sort(task: LinkTask, decoder: str) -> None:
    found = fit_encoders(task, "fast_gtn", {"model": {"hidden": 8, "decoder": decoder}, "fit": {"epochs": 1}})
    u, i = (a.ravel() for a in np.meshgrid(np.arange(task.num_sources), np.arange(task.num_targets), indexing="ij"))
    scores = found.predict(u, i).reshape(task.num_sources, -1)
    scores[task.known_rows("use").nonzero()] = -np.inf
    best = found.recommend(top=7)
    np.testing.assert_allclose(best.logits, -np.sort(-scores, axis=1)[:, :7], rtol=1e-4, atol=1e-5)
    taken = np.take_along_axis(scores, best.targets, 1)
    np.testing.assert_allclose(taken, best.logits, rtol=1e-4, atol=1e-5)


def dense(stack: RelationStack) -> list[torch.Tensor]:
    return [stack[t].to_dense() for t in range(len(stack) - 1)]


def test_hiding_in_a_stack_equals_hiding_in_the_graph(task: LinkTask) -> None:
    config = fixed("fast_gtn")
    graphs = LinkGraphs.of(task, config)
    links = task.train[:, ::7]
    hidden = build_stack(both_directions(hidden_from(task.graph, task.relation, links))[0], config.graph)
    for a, b in zip(dense(graphs.without(links).raw), dense(hidden), strict=True):
        assert a.equal(b)
    for stage, graph in (("val", task.graph), ("test", task.test_graph), ("use", task.graph_at("use"))):
        expected = build_stack(both_directions(graph)[0], config.graph)
        for a, b in zip(dense(graphs.stages[stage].raw), dense(expected), strict=True):  # type: ignore[index]
            assert a.equal(b)


def scores_of_first_step(passes: WholeLinks | LinkBatches, model: LinkPredictor) -> tuple[torch.Tensor, torch.Tensor]:
    step = next(iter(passes.steps(0)))
    return step.logits(model).detach(), step.labels


@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_of_whole_neighbourhoods_equals_the_graph_without_its_links(task: LinkTask, shared: bool) -> None:
    config = encoder_config(
        "fast_gtn",
        {"model": {"path_length": 2, "num_channels": 2, "hidden": 6}, "batch": {"size": 40, "fanouts": ["all"]}},
    )[0]
    graphs, model = model_on(task, config, shared=shared)
    passes = LinkBatches(graphs, model, config, ALONE)
    found, labels = scores_of_first_step(passes, model)
    links = _links_of_first_batch(passes)
    inputs = graphs.without(links)
    plans, shift = graphs.plan_ends(model.backbone, inputs)
    rest = np.array([p for p in task.train.T.tolist() if p not in links.T.tolist()]).T
    pairs, _, _ = passes._with_negatives(links, 0, 0)
    z = plans[0].logits(model.backbone.source)
    y = z[shift:] if len(plans) == 1 else plans[1].logits(model.backbone.target)
    expected = model.decode(z[pairs.source], y[pairs.target], graphs.popularity(rest)[pairs.target])
    torch.testing.assert_close(found, expected.detach(), atol=1e-5, rtol=1e-5)
    assert int(labels[:, 0].sum()) == links.shape[1] == 40


def _links_of_first_batch(passes: LinkBatches) -> Array:
    from fastgtn.training.batches import shuffled

    train = passes.graphs.task.train
    return train[:, np.sort(shuffled(train.shape[1], passes.options.size, passes.config.fit.seed, 0)[0].numpy())]


@pytest.mark.parametrize("size", [0, 64])
def test_parts_of_two_processes_add_up_to_one_step(task: LinkTask, size: int) -> None:
    config = encoder_config(
        "fast_gtn", {"model": {"path_length": 1, "num_channels": 1, "hidden": 4}, "batch": {"size": size}}
    )[0]
    graphs, model = model_on(task, config)
    kind = LinkBatches if size else WholeLinks
    whole = next(iter(kind(graphs, model, config, ALONE).steps(0)))
    parts = [next(iter(kind(graphs, model, config, Team(rank, 2)).steps(0))) for rank in range(2)]
    loss = task.loss(whole.logits(model), whole.labels)
    total = sum(task.loss(part.logits(model), part.labels) * part.share for part in parts)
    torch.testing.assert_close(total, loss)
    both = torch.cat([part.logits(model) for part in parts])
    torch.testing.assert_close(both, whole.logits(model))


@pytest.mark.parametrize("settings", [{}, {"batch": {"size": 300}}], ids=["full", "batches"])
def test_edges_by_chance_cannot_be_predicted(settings: dict) -> None:
    """The only information is the edge itself: a model that scores above one half has seen what it predicts."""
    aucs = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        graph = HeteroData()
        graph["u"].num_nodes = graph["i"].num_nodes = 100
        every = rng.permutation(100 * 100)[:1000]
        edges = torch.from_numpy(np.stack([every // 100, every % 100]))
        graph["u", "buys", "i"].edge_index, graph["i", "sold_to", "u"].edge_index = edges, edges.flip(0)
        given = {"model": {"hidden": 16}, "fit": {"epochs": 6}, **settings}
        chance = LinkTask.from_graph(graph, "buys", seed=seed)
        found = fit_encoders(chance, "fast_gtn", given, seed=seed)
        aucs.append(found.test["roc_auc"])
        assert "only popularity" in found.verdict or "the same" in found.verdict or found.val["roc_auc"] < 0.65
    assert abs(np.mean(aucs) - 0.5) < 0.08, aucs  # three tests of 100 links each


@pytest.mark.parametrize("name", ["gtn", "rgcn", "gcn", "hgt", "mlp"])
def test_other_encoders_are_trained_the_same_way(task: LinkTask, name: str) -> None:
    found = fit_encoders(task, name, SMALL)
    assert {"roc_auc", "average_precision", "mrr", "recall@20", "ndcg@20", "hits@20", "filtered_mrr"} <= set(found.test)
    assert len(found.history) == 3
    assert found.history[0]["val_ndcg@20"] >= 0
    assert found.recommend([0], top=2).targets.shape == (1, 2)


def test_filters_start_from_the_halves_of_the_screened_paths() -> None:
    found = fit_encoders(LinkTask.from_graph(make_planted_links(seed=2), "buys"), "fast_gtn", {"fit": {"epochs": 1}})
    filters = [encoder.hop_filters()[0]().detach() for encoder in found.model.backbone.encoders]
    relations = found.model.backbone.source.relations
    for alpha, name in zip(filters, ("rev_visits", "sells"), strict=True):
        first = alpha[0, 0]  # the first hop of the first channel
        assert relations[int(first.argmax())].name == name
        assert float(first.max()) > 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"decoder": "dots"}}, "model.decoder cannot be 'dots'; did you mean \"dot\""),
        ({"model": {"ends": "both"}}, "model.ends cannot be 'both'"),
        ({"fit": {"select_by": "macro_f1"}}, "does not apply to links"),
        ({"model": {"hiden": 3}}, 'no config key "model.hiden"'),
    ],
)
def test_wrong_settings_are_refused(task: LinkTask, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_encoders(task, "fast_gtn", settings)


def test_a_decoder_without_inner_products_cannot_be_explained(task: LinkTask) -> None:
    found = fit_encoders(task, "fast_gtn", {"model": {"hidden": 4, "decoder": "mlp"}, "fit": {"epochs": 1}})
    with pytest.raises(InputError, match="is a score a sum over pairs of meta-paths"):
        found.explain(0, 1)
    assert found.metapaths() == []
    assert found.facts()["decoder"] == "mlp"


def test_the_scaling_of_features_is_stored_with_an_encoder() -> None:
    """Another graph, whose own numbers have no long tail, is then read as the graph of the training was."""
    graph = make_planted_links(users=100, items=40, seed=0)
    graph["user"].x = torch.rand(100, 2, generator=torch.Generator().manual_seed(0))
    graph["user"].x[0, 0] = 1e6
    found = fit_encoders(LinkTask.from_graph(graph, "buys"), "fast_gtn", SMALL)
    graph["user"].x[0, 0] = 0.5
    again = LinkGraphs.of(LinkTask.from_graph(graph, "buys"), found.config).stages["use"].features
    assert {block.key: block.scaling for block in again.blocks}["user"] == "log"
