"""The commands of link models with encoders: train, evaluate, explain, predict; new nodes; config files."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links import load_links
from fastgtn.links.settings import LinkSettings


def run(*words: str) -> str:
    answer = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("links")
    archive.write(place / "shop.npz", make_planted_links(users=60, items=40, seed=0), None)
    words = ["train", "--graph", str(place / "shop.npz"), "--task", "link", "--link", "buys", "--model", "fast_gtn"]
    small = ["--set", "model.hidden=8", "--set", "fit.epochs=2", "--set", "model.decoder=distmult"]
    run(*words, *small, "--runs", "2", "--out", str(place / "run"))
    return place


def test_a_run_of_encoders_is_evaluated_explained_and_used(folder: Path) -> None:
    stored = json.loads((folder / "run" / "result.json").read_text())
    scored = json.loads(run("evaluate", str(folder / "run"), "--seed", "1", "--json"))
    assert scored["roc_auc"] == pytest.approx(stored["runs"][1]["test"]["roc_auc"])
    assert scored["filtered_mrr"] == pytest.approx(stored["runs"][1]["test"]["filtered_mrr"])
    val = json.loads(run("evaluate", str(folder / "run"), "--split", "val", "--json"))
    assert val["ndcg@20"] == pytest.approx(stored["runs"][0]["val"]["ndcg@20"])
    with pytest.raises(InputError, match="a link model is scored"):
        CliRunner().invoke(app, ["evaluate", str(folder / "run"), "--split", "train"], catch_exceptions=False)
    paths = json.loads(run("explain", str(folder / "run"), "--json"))
    assert paths["decoder"] == "distmult"
    assert any(path["name"] == "US·SI" for path in paths["paths"])
    reasons = json.loads(run("explain", str(folder / "run"), "--link", "u3", "i7", "--json"))
    total = reasons["bias"] + reasons["popularity"] + sum(path["contribution"] for path in reasons["paths"])
    assert total == pytest.approx(reasons["logit"], abs=1e-10)
    assert "US·SI" in run("explain", str(folder / "run"), "--link", "u3", "i7", "--top", "400")
    with pytest.raises(InputError, match=r"--node is a question about nodes, .* explain one pair with --link"):
        CliRunner().invoke(app, ["explain", str(folder / "run"), "--node", "u3"], catch_exceptions=False)
    run("predict", str(folder / "run"), "--top", "3", "--out", str(folder / "best.csv"))
    assert len((folder / "best.csv").read_text().splitlines()) == 1 + 60 * 3


def test_the_page_of_a_link_run_shows_paths_and_recommendations(folder: Path, tmp_path: Path) -> None:
    graph = make_planted_links(users=60, items=40, seed=0)
    graph["item"].node_name = np.array([f"<b>thing {number}" for number in range(40)])
    archive.write(tmp_path / "named.npz", graph, None)
    run(
        "train",
        "--graph",
        str(tmp_path / "named.npz"),
        "--task",
        "link",
        "--link",
        "buys",
        "--out",
        str(tmp_path / "a"),
    )
    for trained, name in ((tmp_path / "a", "USI"), (folder / "run", "US·SI")):
        said = json.loads(run("report", str(trained), "--out", str(tmp_path / "page.html"), "--force", "--json"))
        page = (tmp_path / "page.html").read_text()
        assert said["bytes"] == len(page.encode())
        titles = ("test NDCG@20", "test filtered MRR")
        for words in ("Joined meta-paths", name, "Recommendations", "Screening", "test links", "u0", *titles):
            assert words in page
        assert "<b>thing" not in page  # names are text
    assert "mean and deviation over 2 seeds" in page
    assert "the chosen epoch" in page
    with pytest.raises(InputError, match="shows one run"):
        CliRunner().invoke(app, ["report", str(folder / "run"), str(tmp_path / "a")], catch_exceptions=False)


def test_known_links_of_every_split_are_not_recommended(folder: Path) -> None:
    run("predict", str(folder / "run"), "--top", "40", "--out", str(folder / "all.csv"))
    pairs = {tuple(line.split(",")[::2][:2]) for line in (folder / "all.csv").read_text().replace('"', "").splitlines()}
    links = make_planted_links(users=60, items=40, seed=0)["user", "buys", "item"].edge_index.T.tolist()
    assert not pairs & {(f"u{u}", f"i{i}") for u, i in links}
    assert len(pairs) - 1 == 60 * 40 - len({tuple(pair) for pair in links})


def with_newcomer(reordered: bool = False) -> HeteroData:
    """The same shop with a new user, who visits shop 0 and has bought nothing."""
    old, new = make_planted_links(users=60, items=40, seed=0), HeteroData()
    for node_type in reversed(old.node_types) if reordered else old.node_types:
        new[node_type].num_nodes = old[node_type].num_nodes + (node_type == "user")
        new[node_type].node_id = np.append(old[node_type].node_id, ["u60"] * (node_type == "user"))
    for edge_type in reversed(old.edge_types) if reordered else old.edge_types:
        new[edge_type].edge_index = old[edge_type].edge_index
    visits = new["user", "visits", "shop"]
    visits.edge_index = torch.cat([visits.edge_index, torch.tensor([[60], [0]])], 1)
    return new


@pytest.mark.parametrize("model", ["joined_paths", "fast_gtn"])
def test_new_nodes_are_recommended_to_by_their_edges(folder: Path, tmp_path: Path, model: str) -> None:
    trained = folder / "run"
    if model == "joined_paths":
        trained = tmp_path / "joined"
        words = ["train", "--graph", str(folder / "shop.npz"), "--task", "link", "--link", "buys"]
        run(*words, "--out", str(trained))
    archive.write(tmp_path / "new.npz", with_newcomer(), None)
    run("predict", str(trained), "--graph", str(tmp_path / "new.npz"), "--top", "5", "--out", str(tmp_path / "new.csv"))
    assert (tmp_path / "new.csv").read_text().count("u60") == 5
    with _noted(model):
        found = load_links(trained, graph=with_newcomer(), hides=False)
    with _noted(model):
        other = load_links(trained, graph=with_newcomer(reordered=True), hides=False)
    np.testing.assert_allclose(found.rows()(np.array([60, 3])), other.rows()(np.array([60, 3])), rtol=1e-4, atol=1e-5)
    sold = found.task.graph_at("use")["shop", "sells", "item"].edge_index
    mine = sold[1][sold[0] == 0].numpy()
    if model == "joined_paths":
        logits = found.predict(np.full(40, 60), np.arange(40))
        assert logits[mine].mean() > np.delete(logits, mine).mean()


def _noted(model: str) -> AbstractContextManager[object]:
    """Encoders warn about nodes without an embedding; the joined paths need none."""
    return pytest.warns(UserWarning, match="not seen in training") if model == "fast_gtn" else nullcontext()


def test_a_graph_of_other_types_is_refused(folder: Path) -> None:
    graph = with_newcomer()
    del graph["tag", "marks", "item"]
    with pytest.raises(InputError, match=r"missing \['tag-marks-item'\]"):
        load_links(folder / "run", graph=graph, hides=False)


def test_damaged_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run" / "seed-0", tmp_path / "seed-0")
    (tmp_path / "seed-0" / "encoders.json").write_text('{"config": {}}')
    with pytest.raises(InputError, match=r"encoders\.json"):
        load_links(tmp_path / "seed-0")
    shutil.copy(folder / "run" / "seed-0" / "encoders.json", tmp_path / "seed-0")
    (tmp_path / "seed-0" / "model.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_links(tmp_path / "seed-0")


def test_a_config_file_with_a_link_section_is_trained(folder: Path, tmp_path: Path) -> None:
    settings = LinkSettings.of(
        {
            "dataset": str(folder / "shop.npz"),
            "link": {"relation": "buys", "negatives": "degree"},
            "model": {"name": "gcn", "hidden": 4, "decoder": "mlp"},
            "fit": {"epochs": 1},
        }
    )
    (tmp_path / "link.toml").write_text(settings.to_toml())
    assert LinkSettings.from_toml(tmp_path / "link.toml") == settings
    answer = json.loads(run("train", str(tmp_path / "link.toml"), "--out", str(tmp_path / "run"), "--json"))
    assert answer["runs"][0]["model"] == "gcn"
    assert answer["runs"][0]["negatives"] == "degree"


@pytest.mark.parametrize("model", ["joined_paths", "gcn"])
def test_the_metric_that_chooses_can_be_set(folder: Path, tmp_path: Path, model: str) -> None:
    words = ["train", "--graph", str(folder / "shop.npz"), "--task", "link", "--link", "buys", "--json"]
    words += [] if model == "joined_paths" else ["--model", model, "--set", "model.hidden=4", "--set", "fit.epochs=2"]
    for metric in ("average_precision", "recall@20"):
        out = tmp_path / metric.replace("@", "")
        found = json.loads(run(*words, "--set", f"fit.select_by={metric}", "--out", str(out)))["runs"][0]
        assert found["learned"]["metric"] == metric
        assert load_links(out).score == found["val"][metric]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"link": {"relatoin": "buys"}}, 'no config key "link.relatoin"; did you mean "relation"'),
        ({"link": {"longest": 9}}, "link.longest must be"),
        ({"link": {"split": "tim"}}, 'no split "tim"; did you mean "time"'),
        ({"fit": {"epochs": 3}}, "the joined meta-path model has no key fit.epochs"),
        ({"fit": {"select_by": "ndcg"}}, 'no metric "ndcg" for links; did you mean "ndcg@20"'),
        ({"fit": {"select_by": "last"}}, "needs epochs, which joined meta-paths do not have"),
        ({"model": {"name": "fastgtn"}}, 'no model "fastgtn"'),
        ({"link": 3}, "link must be a section with keys, but got link = 3"),
        ({"model": [1]}, "model must be a section"),
        ({"fit": 0.5}, "fit must be a section"),
        ({"fit": {"seed": "x"}}, "fit.seed must be a whole number"),
        ({"link": {"negatives": 0.5}}, 'no way to draw negatives "0.5"'),
        ({"link": {"relation": 4}}, "link.relation must be the name of a relation"),
    ],
)
def test_wrong_link_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LinkSettings.of({"dataset": "shop", **values})
    with pytest.raises(InputError, match="a link task needs a graph"):
        LinkSettings.of({})


@pytest.mark.parametrize("embedded", [3, {"user": 5}, {"user": ["u0"]}, {"user": [f"u{k}" for k in range(99)]}, {}])
def test_changed_facts_of_encoders_are_named(folder: Path, tmp_path: Path, embedded: object) -> None:
    seed = Path(shutil.copytree(folder / "run" / "seed-0", tmp_path / "seed-0"))
    facts = json.loads((seed / "encoders.json").read_text())
    (seed / "encoders.json").write_text(json.dumps(facts | {"embedded": embedded}))
    with pytest.raises(InputError, match="is missing or damaged"):
        load_links(tmp_path)


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(folder: Path, tmp_path: Path) -> None:
    words = ["train", "--graph", str(folder / "shop.npz"), "--task", "link", "--link", "buys", "--model", "fast_gtn"]
    words += ["--set", "model.hidden=8", "--set", "fit.epochs=3", "--set", "batch.size=64", "--json"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    torchrun += ["--rdzv-endpoint", "127.0.0.1:0", "-m", "fastgtn"]
    alone = json.loads(run(*words, "--out", str(tmp_path / "one")))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    told = subprocess.run(
        [*torchrun, *words, "--out", str(tmp_path / "two")], env=environment, stdout=subprocess.PIPE, check=True
    )
    together = json.loads(told.stdout)
    for name, value in alone["test"].items():
        assert together["test"][name]["mean"] == pytest.approx(value["mean"], abs=1e-3), name
