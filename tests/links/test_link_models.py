"""Joined paths against dense products, scores that add up, and rankings against brute force."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from torch_geometric.data import HeteroData
from torch_geometric.nn.kge import ComplEx, DistMult, KGEModel, RotatE, TransE
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links import LinkResult, LinkTask, fit_links, load_links
from fastgtn.links import recommend as recommending
from fastgtn.links.folder import LinkSettings, save
from fastgtn.links.joined import ranked
from fastgtn.links.joined.explain import explain_link, strongest
from fastgtn.links.joined.logistic import fit_logistic
from fastgtn.links.joined.model import LinkModel, fit_models
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.ranked import rank_models
from fastgtn.links.joined.shapes import SHAPES, scales_of
from fastgtn.links.joined.supervision import describe, held_out, popularity_of
from fastgtn.links.metrics import LinkTally, average_precision, first_link_rank, rank_all, roc_auc
from fastgtn.links.negatives import Negatives
from fastgtn.links.rivals import RIVALS
from fastgtn.links.rivals.knowledge import all_tails
from fastgtn.links.task import Pairs
from fastgtn.relations import Relation, RelationStack
from fastgtn.training.team import exchange

BUYS = Relation("user", "buys", "item")


@pytest.fixture(scope="module")
def result() -> LinkResult:
    return fit_links(LinkTask.from_graph(make_planted_links(users=120, items=80, seed=0), "buys"))


def dense(paths: JoinedPaths, word: tuple[int, ...]) -> np.ndarray:
    product = np.eye(paths.matrices[word[0]].shape[0])
    for t in word:
        product = product @ paths.matrices[t].toarray()
    return product


def test_matrices_are_those_of_the_relation_stack() -> None:
    graph = make_planted_links(users=20, items=15)
    graph["user", "likes", "tag"].edge_weight = torch.rand(graph["user", "likes", "tag"].edge_index.size(1)) + 0.1
    paths = JoinedPaths.of(graph, BUYS, longest=2)
    likes = graph["user", "likes", "tag"]
    likes.edge_weight = torch.log1p(likes.edge_weight)  # joined paths read the logarithm of weights
    stack = RelationStack.from_hetero(graph, identity=False, dtype=torch.float64).symmetrically_normalized("zero")
    for relation in stack.relations:
        rows, cols = stack.nodes_of(relation.target), stack.nodes_of(relation.source)
        expected = stack[str(relation)].to_dense()[rows.start : rows.stop, cols.start : cols.stop]
        found = paths.matrices[paths.relations.index(relation)].toarray()
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-12)


def test_scores_of_pairs_are_entries_of_the_product() -> None:
    paths = JoinedPaths.of(make_planted_links(users=30, items=20), BUYS, longest=4)
    assert {len(word) for word in paths.words} == {1, 2, 3, 4}
    u, i = (a.ravel() for a in np.meshgrid(np.arange(30), np.arange(20), indexing="ij"))
    scores = paths.scores(u, i)
    weights = np.random.default_rng(0).normal(size=len(paths))
    total = sum(w * dense(paths, word) for w, word in zip(weights, paths.words, strict=True))
    for column, word in enumerate(paths.words):
        np.testing.assert_allclose(scores[:, column].reshape(30, 20), dense(paths, word), atol=1e-12)
    np.testing.assert_allclose(paths.rows(np.arange(30), weights), total, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("one_type", [False, True])
def test_shapes_of_rows_are_those_of_pairs_and_parts_add_up(one_type: bool) -> None:
    rng = np.random.default_rng(0)
    graph, relation = make_planted_links(users=25, items=18), BUYS
    if one_type:
        graph, relation = HeteroData(), Relation("d", "with", "d")
        graph["d"].num_nodes, graph["c"].num_nodes = 20, 8
        graph["d", "with", "d"].edge_index = torch.from_numpy(rng.integers(20, size=(2, 60)))
        graph["c", "of", "d"].edge_index = torch.stack([torch.randint(8, (50,)), torch.randint(20, (50,))])
    paths = JoinedPaths.of(graph, relation, longest=3)
    sizes = [int(graph[kind].num_nodes or 0) for kind in (relation.source, relation.target)]
    u, i = (a.ravel() for a in np.meshgrid(*map(np.arange, sizes), indexing="ij"))
    scores, ends = paths.scores(u, i), paths.ends(u, i)
    scales = scales_of(scores, ends)
    weights = rng.normal(size=(len(paths), len(SHAPES)))
    model = LinkModel(relation, paths.words, tuple(paths.names()), weights, scales, 0.3, -1.0, 0.1)
    popularity = rng.random(sizes[1])
    logits = model.logits(describe(Pairs(u, i, np.zeros(len(u))), paths, popularity)).reshape(sizes)
    np.testing.assert_allclose(model.rows(paths, popularity, np.arange(sizes[0])), logits, rtol=1e-4, atol=1e-4)
    s, n = scores[:, 0], ends[:, 0]
    by_hand = [s, np.log1p(s / s[s > 0].mean()), s > 0, np.log1p(s * n / (s * n)[s > 0].mean())]
    np.testing.assert_allclose(model.path_parts(scores, ends)[:, 0], weights[0] @ np.array(by_hand, float), atol=1e-10)
    reasons = explain_link(model, paths, popularity, 3, 5)
    assert reasons.logit == pytest.approx(logits[3, 5], abs=1e-10)
    assert LinkModel.from_json(json.loads(json.dumps(model.to_json()))).logits(
        describe(Pairs(u, i, np.zeros(len(u))), paths, popularity)
    ) == pytest.approx(logits.ravel(), abs=1e-12)


def test_many_models_are_ranked_as_one_at_a_time(result: LinkResult, monkeypatch: pytest.MonkeyPatch) -> None:
    task = result.task
    train = held_out(task, longest=3, seed=0)
    models = [model for model in fit_models(train, [0, 3, 2]) if model.ridge == 1e-2]
    assert {len(model.words) for model in models} == {0, 1, 2, 3}
    paths = JoinedPaths.of(task.graph, task.relation, words=models[-1].words)
    popularity, links, known = popularity_of(task, task.train), task.val.links, task.known_rows("val")
    monkeypatch.setattr(ranked, "MOST_STRENGTHS", 2_000)  # several blocks of sources
    for model, found in zip(models, rank_models(models, paths, popularity, links, known), strict=True):
        own = replace(paths, words=model.words)
        alone = rank_all(partial(model.rows, own, popularity), links, known).scores()
        assert found == pytest.approx(alone, rel=1e-6), model.names
    assert rank_models([], paths, popularity, links, known) == []


def test_the_direct_step_is_not_among_the_paths() -> None:
    graph = make_planted_links(users=30, items=20)
    names = JoinedPaths.of(graph, BUYS, longest=1).names()
    assert len(names) == 2  # viewed_0 and viewed_1
    assert not any("buys" in name for name in names)


def test_parts_of_a_score_add_up_and_instances_are_the_strongest(result: LinkResult) -> None:
    paths, _ = result.paths_at("use")
    unknown = np.argwhere(~result.task.known_rows("use").toarray())
    for source, target in unknown[[3, 400, 2000]].tolist():
        reasons = result.explain(source, target, instances=1000)
        parts = reasons.bias + reasons.popularity + sum(r.contribution for r in reasons.reasons)
        assert abs(parts - reasons.logit) < 1e-10
        assert abs(result.predict(np.array([source]), np.array([target]))[0] - reasons.logit) < 1e-10
        for reason in reasons.reasons:
            shares = [instance.share for instance in reason.instances]
            assert shares == sorted(shares, reverse=True)
            assert not shares or abs(sum(shares) - 1) < 1e-9  # all instances together are the whole path
    word = result.model.words[0]
    scores = paths.scores(*np.nonzero(dense(paths, word)), (word,))[:, 0]
    source, target = (axis[int(scores.argmax())] for axis in np.nonzero(dense(paths, word)))
    best = strongest(paths, word, source, target, top=1)[0]
    product = np.prod([paths.matrices[t][a, b] for t, a, b in zip(word, best.nodes, best.nodes[1:], strict=False)])
    assert product / dense(paths, word)[source, target] == pytest.approx(best.share)


def test_recommendations_equal_a_full_sort(result: LinkResult, monkeypatch: pytest.MonkeyPatch) -> None:
    task = result.task
    u, i = (a.ravel() for a in np.meshgrid(np.arange(task.num_sources), np.arange(task.num_targets), indexing="ij"))
    scores = result.predict(u, i).reshape(task.num_sources, -1)
    scores[task.known_rows("use").nonzero()] = -np.inf
    monkeypatch.setattr(recommending, "BLOCK_NUMBERS", 1000)  # several blocks
    found = result.recommend(top=7)
    expected = -np.sort(-scores, axis=1)[:, :7]
    np.testing.assert_allclose(found.logits, expected, rtol=1e-4, atol=1e-4)
    known = set(map(tuple, task.links_at("use").T.tolist()))  # the links of all three splits
    assert len(known) == task.train.shape[1] + task.val.links.shape[1] + task.test.links.shape[1]
    assert not any((int(s), int(t)) in known for s, row in enumerate(found.targets) for t in row)


@pytest.mark.parametrize("path", ["USI", "UTI", "USUI"])
def test_the_planted_path_comes_first(path: str) -> None:
    for seed in range(3):
        task = LinkTask.from_graph(make_planted_links(path, seed=seed), "buys", seed=seed)
        first = fit_links(task, seed=seed).metapaths(1)[0]
        assert "".join(kind[0].upper() for kind in first.types) == path
        assert first.p_value <= 0.05


def test_a_path_that_joins_other_pairs_has_a_negative_weight() -> None:
    """Users are linked to what no friend has: the path over friends speaks against a link."""
    rng = np.random.default_rng(0)
    graph = HeteroData()
    graph["u"].num_nodes, graph["i"].num_nodes, graph["g"].num_nodes = 60, 40, 4
    groups, kinds = rng.integers(4, size=60), rng.integers(4, size=40)
    u, i = np.nonzero((groups[:, None] != kinds) & (rng.random((60, 40)) < 0.3))
    graph["u", "buys", "i"].edge_index = torch.from_numpy(np.stack([u, i]))
    graph["u", "in", "g"].edge_index = torch.from_numpy(np.stack([np.arange(60), groups]))
    graph["g", "of", "i"].edge_index = torch.from_numpy(np.stack([kinds, np.arange(40)]))
    paths = {path.name: path for path in fit_links(LinkTask.from_graph(graph, "buys")).metapaths()}
    assert paths["UGI"].weight < 0
    assert paths["UGI"].auc < 0.5


def test_links_by_chance_are_said_to_be_chance() -> None:
    task = LinkTask.from_graph(make_planted_links(noise=1.0, seed=4), "buys")
    fitted = fit_links(task)
    assert "shows only popularity" in fitted.verdict or "scores the same" in fitted.verdict, fitted.verdict


def test_logistic_regression_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) * [1, 100, 0.01]
    y = (x @ [1, 0.01, -50] + rng.logistic(size=400) > 0).astype(float)
    ours = fit_logistic(x, y, ridge=1e-2)
    scale = x.std(0)
    other = LogisticRegression(C=1 / (1e-2 * 400), tol=1e-10, max_iter=10_000).fit(x / scale, y)
    np.testing.assert_allclose(ours.weights * scale, other.coef_[0], rtol=1e-4)


def test_metrics_equal_scikit_learn_and_a_small_example() -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(5, size=200).astype(float), rng.integers(2, size=200).astype(float)
    assert roc_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores))
    source = np.array([0, 0, 0, 1, 1, 2])
    assert first_link_rank(np.array([3, 2, 1, 5, 4, 1.0]), np.array([0, 1, 1, 1, 0, 0]), source) == 0.75


def test_ranking_counts_every_target_that_is_not_known() -> None:
    rows = np.array([[9.0, 1, 5, 5, 0], [1, 2, 3, 4, 5]])
    known = sp.csr_matrix(np.array([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool))
    links = np.array([[0, 0, 1], [3, 1, 0]])
    tally = rank_all(lambda sources: rows[sources], links, known, at=2)
    found = tally.scores()
    # source 0: target 0 is known; the list is 2, 3, 1, 4, so the links 3 and 1 have the places 2 and 3
    # filtered: link 3 is tied with target 2 (rank 1.5), and link 1 is behind target 2 alone (rank 2, without link 3)
    assert found["recall@2"] == 0.25
    assert found["ndcg@2"] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)) / 2)
    assert found["hits@2"] == 0.5
    assert found["filtered_mrr"] == pytest.approx((1 / 1.5 + 1 / 2 + 1 / 5) / 3)
    with pytest.raises(InputError, match="have at least 1 target, but got 0"):
        rank_all(lambda sources: rows[sources], links, known, at=0)


def test_tallies_of_parts_give_the_same_bits_as_the_whole() -> None:
    rng = np.random.default_rng(0)
    rows, known = rng.normal(size=(30, 50)), sp.csr_matrix(rng.random((30, 50)) < 0.1)
    links = np.argwhere((rng.random((30, 50)) < 0.1) & ~known.toarray()).T
    labels, sources = torch.from_numpy(rng.integers(2, size=90)), torch.from_numpy(rng.integers(9, size=90))
    logits = torch.from_numpy(rng.normal(size=90))
    whole = LinkTally.of_pairs(logits, labels, sources) + rank_all(lambda s: rows[s], links, known, at=7)
    count = len(np.unique(links[0]))
    parts = [rank_all(lambda s: rows[s], links, known, at=7, part=part) for part in (slice(20, count), slice(0, 20))]
    for part in (slice(50, 90), slice(0, 50)):
        parts.append(LinkTally.of_pairs(logits[part], labels[part], sources[part]))
    assert sum(parts[1:], parts[0]).scores() == whole.scores()
    assert "ndcg@7" in whole.scores()
    assert exchange.decode(exchange.encode(whole)).scores() == whole.scores()  # between processes


@pytest.mark.parametrize("name", ["popularity", "common_neighbors", "adamic_adar"])
def test_rivals_score_pairs_as_they_score_rows(result: LinkResult, name: str) -> None:
    rival = RIVALS[name][1](result.task, 0)
    pairs = result.task.test
    rows = rival.rows(np.arange(result.task.num_sources), "test")
    np.testing.assert_allclose(rival.pairs(pairs, "test"), rows[pairs.source, pairs.target])
    assert 0 <= rival.evaluate(result.task, "val")["recall@20"] <= 1


@pytest.mark.parametrize("kind", [TransE, DistMult, ComplEx, RotatE])
def test_embeddings_score_all_tails_as_they_score_triples(kind: type[KGEModel]) -> None:
    model, heads, tails = kind(30, 3, hidden_channels=8), torch.arange(5), torch.arange(12, 30)
    triples = [model(heads, torch.full_like(heads, 2), torch.full_like(heads, int(tail))) for tail in tails]
    torch.testing.assert_close(all_tails(model, heads, 2, tails), torch.stack(triples, 1))


def test_a_saved_model_answers_the_same(result: LinkResult, tmp_path: Path) -> None:
    graph = make_planted_links(users=120, items=80, seed=0)
    archive.write(tmp_path / "shop.npz", graph, None)
    save(result, LinkSettings(str(tmp_path / "shop.npz"), "buys"), tmp_path / "run")
    loaded = load_links(tmp_path / "run")
    pairs = result.task.test
    np.testing.assert_allclose(loaded.predict(pairs.source, pairs.target), result.predict(pairs.source, pairs.target))
    assert loaded.facts() == result.facts()
    (tmp_path / "run" / "link.json").write_text('{"format_version": 3, "settings": {}}')
    with pytest.raises(InputError, match="is damaged"):
        load_links(tmp_path / "run")


def test_the_commands_train_explain_and_recommend(tmp_path: Path) -> None:
    graph = make_planted_links(users=80, items=60, seed=0)
    archive.write(tmp_path / "shop.npz", graph, None)

    def run(*words: object) -> str:
        answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.output

    out = tmp_path / "run"
    text = run("train", "--graph", tmp_path / "shop.npz", "--task", "link", "--link", "buys", "--out", out)
    assert "recall@20" in text
    assert "USI" in text
    assert "beyond popularity alone" in run("explain", out)
    assert "log-odds" in run("explain", out, "--link", "u3", "i7")
    run("predict", out, "--top", 3, "--out", tmp_path / "links.csv")
    assert len((tmp_path / "links.csv").read_text().splitlines()) == 1 + 3 * 80
    assert "recall@20" in run("evaluate", out)
    screened = json.loads(run("screen", "--graph", tmp_path / "shop.npz", "--task", "link", "--link", "buys", "--json"))
    assert screened["paths"][0]["name"] == "USI"
    with pytest.raises(InputError, match='no task "lnk"; did you mean "link"'):
        CliRunner().invoke(app, ["train", "--task", "lnk"], catch_exceptions=False)
    with pytest.raises(InputError, match='no user node "x"; use an id of the graph'):
        CliRunner().invoke(app, ["explain", str(out), "--link", "x", "i7"], catch_exceptions=False)


def test_the_benchmark_puts_rivals_beside(tmp_path: Path) -> None:
    archive.write(tmp_path / "shop.npz", make_planted_links(users=60, items=40, seed=0), None)
    words = ["bench", "links", "--graph", str(tmp_path / "shop.npz"), "--link", "buys", "--runs", "2"]
    answer = CliRunner().invoke(app, [*words, "--models", "popularity", "--json"], catch_exceptions=False)
    found = json.loads(answer.stdout)["test"]["shop"]
    assert set(found) == {"joined meta-paths", "Popularity"}
    assert found["joined meta-paths"]["roc_auc"]["mean"] > found["Popularity"]["roc_auc"]["mean"]
    with pytest.raises(InputError, match='no link predictor "popular"; did you mean "popularity"'):
        CliRunner().invoke(app, [*words, "--models", "popular"], catch_exceptions=False)
    with pytest.raises(
        InputError, match="--link can only be used with --graph; --only chooses among the graphs of the docs"
    ):
        CliRunner().invoke(app, ["bench", "links", "--link", "buys"], catch_exceptions=False)


def test_negative_weights_are_refused() -> None:
    graph: HeteroData = make_planted_links(users=20, items=15)
    graph["user", "likes", "tag"].edge_weight = -torch.ones(graph["user", "likes", "tag"].edge_index.size(1))
    with pytest.raises(InputError, match="has negative weights"):
        JoinedPaths.of(graph, BUYS)


def test_pairs_without_direction_have_one_score() -> None:
    rng = np.random.default_rng(0)
    graph = HeteroData()
    graph["d"].num_nodes, graph["c"].num_nodes = 40, 15
    graph["d", "with", "d"].edge_index = torch.from_numpy(rng.integers(40, size=(2, 150)))
    graph["c", "treats", "d"].edge_index = torch.from_numpy(
        np.stack([rng.integers(15, size=90), rng.integers(40, size=90)])
    )
    result = fit_links(LinkTask.from_graph(graph, "with"), longest=3)
    model = result.model
    words = JoinedPaths.of(result.task.graph, result.task.relation, longest=3).words[:4]
    names = tuple(f"path {number}" for number in range(len(words)))
    weights, scales = rng.normal(size=(len(words), len(SHAPES))), np.full((len(words), 2), 0.3)
    forced = replace(model, words=words, names=names, weights=weights, scales=scales, popularity=0.7)
    result = replace(result, model=forced)
    u, v = (a.ravel() for a in np.meshgrid(np.arange(40), np.arange(40), indexing="ij"))
    scores = result.predict(u, v).reshape(40, 40)
    np.testing.assert_allclose(scores, scores.T, atol=1e-12)
    np.testing.assert_allclose(result.rows()(np.arange(40)), scores, rtol=1e-4, atol=1e-4)
    reasons = result.explain(3, 8)
    total = reasons.bias + reasons.popularity + sum(reason.contribution for reason in reasons.reasons)
    assert abs(total - reasons.logit) < 1e-10
    negatives = Negatives.of(graph, result.task.relation, result.task.train, kind="uniform")
    drawn = negatives.like(np.tile(result.task.train, 20), seed=0)
    assert (drawn[0] != drawn[1]).all()
