"""What the commands print and write about links: names of paths and nodes, scores, and messages."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError, nearest
from fastgtn.links import load_links


def run(*words: object) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("output")
    graph = make_planted_links(users=60, items=40, seed=0)
    names = [f"thing {number}" for number in range(40)]
    names[3] = names[4] = "twin"
    graph["item"].node_name = np.array(names)
    archive.write(place / "shop.npz", graph, None)
    run("train", "--graph", place / "shop.npz", "--task", "link", "--link", "buys", "--out", place / "run")
    return place


def test_tables_show_the_relations_in_the_names_of_paths(folder: Path) -> None:
    task = ("--graph", folder / "shop.npz", "--task", "link", "--link", "buys")
    assert "U[viewed_0]I" in run("screen", *task)
    small = ("--model", "fast_gtn", "--set", "model.hidden=8", "--set", "fit.epochs=1")
    assert "[viewed_" in run("train", *task, *small, "--out", folder / "encoders")
    assert "[viewed_" in run("explain", folder / "encoders")


def test_the_table_of_new_partners_is_written_into_the_run_and_has_log_odds(folder: Path) -> None:
    assert "links.csv" in run("predict", folder / "run", "--top", "3")
    rows = list(csv.DictReader((folder / "run" / "links.csv").open()))
    assert len(rows) == 3 * 60
    first = json.loads(run("explain", folder / "run", "--link", rows[0]["user"], rows[0]["item"], "--json"))
    assert float(rows[0]["log_odds"]) == pytest.approx(first["logit"], abs=1e-4)
    with pytest.raises(InputError, match="already exists"):
        CliRunner().invoke(app, ["predict", str(folder / "run"), "--top", "3"], catch_exceptions=False)
    run("report", folder / "run", "--out", folder / "page.html")
    page = (folder / "page.html").read_text()
    assert f"{first['logit']:+z.2f}" in page
    assert "they are not probabilities" in page


def test_a_node_is_found_by_its_id_or_by_a_name_that_only_it_has(folder: Path) -> None:
    by_id = run("explain", folder / "run", "--link", "u3", "i7")
    assert run("explain", folder / "run", "--link", "u3", "thing 7") == by_id
    twins = '2 item nodes have the name "twin": give the id of one of them, such as i3, i4'
    for name, message in (("twin", twins), ("?", r'no item node "\?"; use an id of the graph, such as "i0"')):
        with pytest.raises(InputError, match=message):
            CliRunner().invoke(app, ["explain", str(folder / "run"), "--link", "u3", name], catch_exceptions=False)


def test_a_wrong_name_among_very_many_is_not_answered_with_all_of_them() -> None:
    hint = nearest("x", (str(number) for number in range(5000)))
    assert hint == "valid names are, for example: 0, 1, 10, 100, 1000, 1001, 1002, 1003, 1004, 1005"
    assert nearest("4998!", (str(number) for number in range(5000))) == 'did you mean "4998"?'


def test_popularity_between_nodes_of_one_type_is_that_of_both_ends(folder: Path) -> None:
    assert "popularity of the item" in run("explain", folder / "run", "--link", "u3", "i7")
    graph = make_planted_links(users=60, items=40, seed=0)
    pairs = np.random.default_rng(0).integers(60, size=(2, 200))
    graph["user", "knows", "user"].edge_index = graph["user", "buys", "item"].edge_index.new_tensor(pairs)
    archive.write(folder / "friends.npz", graph, None)
    task = ("--graph", folder / "friends.npz", "--task", "link", "--link", "knows")
    run("train", *task, "--out", folder / "friends")
    assert "popularity of both ends" in run("explain", folder / "friends", "--link", "u3", "u7")
    hidden = load_links(folder / "friends").explain(3, 7)
    assert hidden.popularity == load_links(folder / "friends").explain(7, 3).popularity


def test_a_graph_without_a_link_task_says_which_relations_there_are(folder: Path) -> None:
    words = ["train", "--graph", str(folder / "shop.npz"), "--task", "link"]
    with pytest.raises(InputError, match=r"with --link \(visits, sells, likes, marks, viewed_0, viewed_1, buys\)"):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_lists_of_another_length_are_scored(folder: Path) -> None:
    scored = json.loads(run("evaluate", folder / "run", "--at", "5", "--json"))
    result = load_links(folder / "run")
    best, hidden = result.recommend(top=5, stage="test"), result.task.test.links
    recalls = []
    for source in np.unique(hidden[0]):
        mine = hidden[1][hidden[0] == source]
        recalls.append(np.isin(mine, best.targets[source]).mean())
    assert scored["recall@5"] == pytest.approx(np.mean(recalls))
    assert "recall@20" not in scored
    assert "NDCG@5" in run("evaluate", folder / "run", "--at", "5")


def test_a_known_link_is_said_to_be_hidden_from_its_reasons(folder: Path) -> None:
    graph = archive.read(folder / "shop.npz")[0]
    user, item = graph["user", "buys", "item"].edge_index[:, 0].tolist()
    words = ("explain", folder / "run", "--link", f"u{user}", f"i{item}")
    assert "this link is in the graph; it was hidden" in run(*words)
    found = json.loads(run(*words, "--json"))
    assert (found["source"], found["target"], found["is_known"]) == (f"u{user}", f"i{item}", True)
    new = next(csv.DictReader((folder / "run" / "links.csv").open()))
    assert "hidden" not in run("explain", folder / "run", "--link", new["user"], new["item"])


def test_a_node_is_not_explained_as_its_own_partner(folder: Path) -> None:
    with pytest.raises(InputError, match="a user is not its own partner: give two different nodes"):
        CliRunner().invoke(app, ["explain", str(folder / "friends"), "--link", "u3", "u3"], catch_exceptions=False)


def test_a_model_without_metapaths_says_so(folder: Path) -> None:
    task = ("--graph", folder / "shop.npz", "--link", "buys", "--set", "model.hidden=8", "--set", "fit.epochs=1")
    run("train", *task, "--model", "gcn", "--out", folder / "gcn")
    assert "paths   none: only FastGTN and GTN" in run("explain", folder / "gcn")
    assert "AUC lost without" in run("explain", folder / "encoders")
