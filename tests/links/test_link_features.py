"""Features as nodes of joined meta-paths, and links that are hidden as a split by time hides them."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_new_items
from fastgtn.errors import InputError
from fastgtn.links import LinkTask, fit_links
from fastgtn.links.joined.features import STRONGEST, feature_entries, with_features
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.joined.supervision import held_out_parts
from fastgtn.links.learned.options import encoder_config
from fastgtn.links.learned.train import settle
from fastgtn.links.reverses import both_directions
from fastgtn.relations import Relation

BUYS = Relation("user", "buys", "item")


def test_entries_are_what_differs_from_the_usual() -> None:
    words = np.array([[0, 2.0], [0, 0], [3, 0], [0, 0]])  # rarely above 0: as they are
    age = np.array([10.0, 20, 30, 40])  # never 0: above or below the mean
    same = np.full(4, 7.0)
    x = np.column_stack([words, age, same, np.array([0, -1.0, 0, 0])])
    found = feature_entries(sp.csr_matrix(x)).toarray()
    z = (age - age.mean()) / age.std()
    expected = np.zeros((4, 10))
    expected[0, 1], expected[2, 0], expected[1, 5 + 4] = 1, 1, 1
    expected[:, 2], expected[:, 5 + 2] = z.clip(min=0), (-z).clip(min=0)
    np.testing.assert_allclose(found, expected)
    many = feature_entries(sp.csr_matrix(np.random.default_rng(0).normal(size=(6, 100))))
    assert (np.bincount(many.row) == STRONGEST).all()


def test_a_path_through_features_is_a_product_of_matrices_and_keeps_the_numbers_of_relations() -> None:
    graph = make_new_items(users=30, items=25)
    plain, paths = (JoinedPaths.of(graph, BUYS, longest=3, features=wanted) for wanted in (False, True))
    assert paths.relations[: len(plain.relations)] == plain.relations
    assert set(paths.names()) == {"UIUI", "UI#I"}
    word = paths.words[paths.names().index("UI#I")]
    dense = np.eye(30)
    for t in word:
        dense = dense @ paths.matrices[t].toarray()
    u, i = (a.ravel() for a in np.meshgrid(np.arange(30), np.arange(25), indexing="ij"))
    np.testing.assert_allclose(paths.scores(u, i, (word,))[:, 0].reshape(30, 25), dense, atol=1e-12)
    del graph["item"].x
    with pytest.raises(InputError, match="paths through features, but the nodes of this graph have none"):
        JoinedPaths.of(graph, BUYS, words=(word,))


def test_features_that_cannot_be_read_are_refused() -> None:
    graph = make_new_items(users=30, items=25)
    for wrong, message in ((torch.full((25, 2), torch.nan), "NaN or infinite"), (torch.ones(24, 2), "but got")):
        graph["item"].x = wrong
        with pytest.raises(InputError, match=message):
            with_features(*both_directions(graph), ("user", "item"))


def test_links_to_new_items_are_found_by_their_features() -> None:
    graph = make_new_items(users=150, items=160, kinds=5)
    task = LinkTask.from_graph(graph, "buys", by="time")
    assert task.cold_share > 0.2
    result = fit_links(task)
    assert result.reads_features
    assert not result.notes()
    del graph["item"].x
    blind = fit_links(LinkTask.from_graph(graph, "buys", by="time"))
    assert result.test["ndcg@20"] > blind.test["ndcg@20"]
    known = set(task.links_at("test")[1].tolist())
    links = task.test.links
    new = links[:, [int(item) not in known for item in links[1]]]
    assert new.shape[1] >= 10
    other = np.random.default_rng(0).permutation(new[1])
    right, chance = (result.predict(new[0], items, stage="test").mean() for items in (new[1], other))
    assert right > chance + 0.5


def test_with_a_split_by_time_the_latest_links_are_hidden_and_all_that_came_later() -> None:
    graph = make_new_items(users=150, items=160, kinds=5)
    rng = np.random.default_rng(1)
    views = graph["user", "views", "item"]
    views.edge_index = torch.from_numpy(np.stack([rng.integers(150, size=400), rng.integers(160, size=400)]))
    views.time = torch.from_numpy(rng.random(400))
    task = LinkTask.from_graph(graph, "buys", by="time")
    store = graph["user", "buys", "item"]
    time = dict(zip(map(tuple, store.edge_index.T.tolist()), store.time.tolist(), strict=True))
    parts = held_out_parts(task, longest=3, seed=0)
    assert len(parts) == 4
    before = np.inf
    for part in parts:
        hidden = [time[tuple(pair)] for pair in part.pairs.links.T.tolist()]
        assert max(hidden) <= before
        before = min(hidden)
        for relation, times in (("buys", time.values()), ("views", views.time.tolist())):
            number = part.paths.relations.index(Relation("user", relation, "item"))
            known = sum(moment < before for moment in times)
            assert part.paths.matrices[number].nnz <= known
        bought = part.paths.matrices[part.paths.relations.index(BUYS)].tocoo()
        assert max(time[u, i] for i, u in zip(bought.row.tolist(), bought.col.tolist(), strict=True)) < before


def test_encoders_start_from_paths_without_features() -> None:
    task = LinkTask.from_graph(make_new_items(users=150, items=160, kinds=5), "buys")
    _, screening, start = settle(task, encoder_config("fast_gtn", {})[0], longest=4, seed=0)
    assert not any("#" in path.name for path in screening.paths)
    assert all("#" not in step.source + step.target for half in start.source for step in half)


def test_a_run_explains_through_named_features(tmp_path: Path) -> None:
    graph = make_new_items(users=150, items=160, kinds=5)
    names = {"item": [f"word {number}" for number in range(40)]}
    archive.write(tmp_path / "shop.npz", graph, None, meta={"features": names})

    def run(*words: object) -> str:
        answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.output

    out = tmp_path / "run"
    given = ("--graph", tmp_path / "shop.npz", "--task", "link", "--link", "buys", "--split", "time", "--out", out)
    assert "UI#I" in run("train", *given)
    source, target = LinkTask.from_graph(graph, "buys", by="time").test.links[:, -1]
    reasons = json.loads(run("explain", out, "--link", f"u{source}", f"i{target}", "--json"))
    total = reasons["bias"] + reasons["popularity"] + sum(path["contribution"] for path in reasons["paths"])
    assert abs(total - reasons["logit"]) < 1e-10
    (through,) = [path for path in reasons["paths"] if path["name"] == "UI#I"]
    assert through["instances"][0]["nodes"][2][0] == "#item"
    assert through["instances"][0]["nodes"][2][1].startswith("word ")
    run("report", out, "--out", tmp_path / "page.html")
    assert "word " in (tmp_path / "page.html").read_text()
