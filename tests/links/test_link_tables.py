"""Links from tables: which rows are links, what an archive remembers, and what is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data.tables import build
from fastgtn.data.tables.config import parsed_condition
from fastgtn.errors import InputError
from fastgtn.links.folder import load_link_task
from fastgtn.links.settings import LinkSettings

TOML = """
[graph]
name = "films"
[nodes.user]
table = "users.csv"
id = "user"
[nodes.film]
table = "films.csv"
id = "film"
[nodes.genre]
sql = "SELECT DISTINCT genre FROM 'films.csv'"
id = "genre"
[relations.ratings]
table = "ratings.csv"
source = { type = "user", column = "user" }
target = { type = "film", column = "film" }
[relations.is]
table = "films.csv"
source = { type = "film", column = "film" }
target = { type = "genre", column = "genre" }
[task]
"""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / "users.csv").write_text("user\n" + "".join(f"u{u}\n" for u in range(20)))
    genres = ("drama", "crime")
    (tmp_path / "films.csv").write_text("film,genre\n" + "".join(f"f{f},{genres[f % 2]}\n" for f in range(12)))
    rows = [(u, f, 1 + (3 * u + f) % 5, 100 * f + u) for u in range(20) for f in range(12)]
    text = "".join(f"u{u},f{f},{rating},{moment}\n" for u, f, rating, moment in rows)
    (tmp_path / "ratings.csv").write_text("user,film,rating,moment\n" + text)
    return tmp_path


def told(tables: Path, *lines: str) -> Path:
    (tables / "graph.toml").write_text(TOML + "\n".join(lines))
    return tables / "graph.toml"


def test_a_table_says_which_relation_is_predicted_and_which_rows_are_links(tables: Path) -> None:
    graph, task = build(told(tables, 'link = "ratings"', 'positive = "rating >= 4"', 'negatives = "degree"'))
    assert task is None
    assert graph.meta["link_task"] == {"relation": "user-ratings-film", "split": "random", "negatives": "degree"}
    expected = sum(1 + (3 * u + f) % 5 >= 4 for u in range(20) for f in range(12))
    assert graph["user", "ratings", "film"].edge_index.size(1) == expected


def test_a_time_column_splits_links_by_time(tables: Path) -> None:
    path = told(tables, 'link = "ratings"', 'positive = "rating >= 3"', 'time = "moment"')
    CliRunner().invoke(app, ["data", "build", str(path), "--out", str(tables / "t.npz")], catch_exceptions=False)
    task = load_link_task(LinkSettings(str(tables / "t.npz")))
    assert task.is_timed
    name = ("user", "ratings", "film")
    assert task.graph[name].time.max() < task.test_graph[name].time.max() < task.graph_at("use")[name].time.max()
    assert not load_link_task(LinkSettings(str(tables / "t.npz"), split="random")).is_timed


def test_train_needs_no_more_words(tables: Path) -> None:
    path = told(tables, 'link = "ratings"', 'positive = "rating >= 3"')
    for words in (
        ["data", "build", str(path), "--out", str(tables / "films.npz")],
        ["train", "--graph", str(tables / "films.npz"), "--task", "link", "--out", str(tables / "run"), "--json"],
    ):
        answer = CliRunner().invoke(app, words, catch_exceptions=False)
        assert answer.exit_code == 0
    assert json.loads(answer.stdout)["runs"][0]["relation"] == "user-ratings-film"
    named = load_link_task(LinkSettings(str(tables / "films.npz"), "is"))  # another relation than the told one
    assert named.relation.name == "is"


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("rating >= 4", ("rating", ">=", "4")),
        ("kind = 'bought'", ("kind", "==", "bought")),
        ("unit price<2.5", ("unit price", "<", "2.5")),
        ("a != b", ("a", "!=", "b")),
    ],
)
def test_conditions(condition: str, parts: tuple[str, str, str]) -> None:
    assert parsed_condition(condition) == parts


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['link = "rating"'], 'task.link names the relation "rating"; did you mean "ratings"'),
        (['link = "ratings"', 'positive = "rating"'], "a condition is a column, a comparison and a value"),
        (['link = "ratings"', 'positive = "rating >= 9"'], "no row has rating >= 9"),
        (['link = "ratings"', 'positive = "rating >= high"'], "cannot be compared with high"),
        (['link = "ratings"', 'positive = "stars >= 4"'], "stars"),
        (['link = "ratings"', 'negative = "uniform"'], r'\[task\] has no key "negative"; did you mean "negatives"'),
        (['link = "ratings"', "[link_task]"], r'a link task is a section \[task\] with the key "link"'),
    ],
)
def test_wrong_link_tasks_are_refused(tables: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(told(tables, *lines))
