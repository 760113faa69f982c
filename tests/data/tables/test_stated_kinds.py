"""`fastgtn data build --kinds` writes the inferred kinds into graph.toml, and the graph stays the same."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive, tables
from fastgtn.errors import InputError

GRAPH = """# shops and their visitors
[graph]
reverse = true
[nodes.user]          # people
table = "users.csv"
id = "id"
features = [
  "age",   # [years]
  "home town",
]
[nodes.shop]
features = { size = { kind = "number", fill = 0 }, since = "date" }
table = "shops.csv"
id = "id"
[relations.visits]
table = "visits.csv"
source = { type = "user", column = "user" }
target = { type = "shop", column = "shop" }
features = ["paid", "how"]
[task]
target = "user"
label = "kind"
split = { train = 0.5, val = 0.25, test = 0.25 }
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    (tmp_path / "users.csv").write_text(
        "id,age,home town,kind\n" + "".join(f"{i},{20 + i},{'ab'[i % 2]},{'xy'[i % 2]}\n" for i in range(12))
    )
    (tmp_path / "shops.csv").write_text("id,size,since\n1,3.5,2024-01-01\n2,,2023-05-01\n")
    (tmp_path / "visits.csv").write_text("user,shop,paid,how\n" + "".join(f"{i},1,{i}.5,card\n" for i in range(12)))
    (tmp_path / "graph.toml").write_text(GRAPH)
    return tmp_path / "graph.toml"


@pytest.mark.filterwarnings("ignore")
def test_kinds_are_written_and_the_graph_stays_the_same(toml: Path) -> None:
    out = toml.parent / "g.npz"
    answer = CliRunner().invoke(app, ["data", "build", str(toml), "--kinds", "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    assert "kinds   the kinds of 6 columns are now in" in answer.stdout
    text = toml.read_text()
    assert text.startswith("# shops and their visitors\n[graph]\nreverse = true\n[nodes.user]          # people\n")
    assert '"home town" = "category"  # text, 2 values\n' in text
    values = tomllib.loads(text)
    assert values["nodes"]["user"]["features"] == {"age": "number", "home town": "category"}
    assert values["nodes"]["shop"]["features"] == {"size": {"kind": "number", "fill": 0}, "since": "date"}
    assert values["relations"]["visits"]["features"] == {"paid": "number", "how": "category"}
    assert values["task"] == tomllib.loads(GRAPH)["task"]
    before = archive.read(out)[0]
    again, _ = tables.build(toml)
    assert again["user"].x.equal(before["user"].x)
    CliRunner().invoke(app, ["data", "build", str(toml), "--kinds", "--force", "--out", str(out)])
    assert tomllib.loads(toml.read_text()) == values  # once stated, nothing changes


@pytest.mark.filterwarnings("ignore")
def test_a_layout_that_cannot_be_edited_is_left_alone(toml: Path) -> None:
    unusual = GRAPH.replace("[nodes.shop]\n", "").replace("[graph]\n", "[graph]\n", 1)
    shop = 'nodes.shop = { table = "shops.csv", id = "id", features = ["size"] }\n'
    toml.write_text(
        shop
        + unusual.replace('features = { size = { kind = "number", fill = 0 }, since = "date" }\n', "").replace(
            'table = "shops.csv"\nid = "id"\n', ""
        )
    )
    before = toml.read_text()
    answer = CliRunner().invoke(app, ["data", "build", str(toml), "--kinds", "--out", str(toml.parent / "g.npz")])
    assert isinstance(answer.exception, InputError)
    assert "copy them from the printed table" in str(answer.exception)
    assert toml.read_text() == before


def test_kinds_are_not_inferred_with_like(toml: Path) -> None:
    command = ["data", "build", str(toml), "--kinds", "--like", "x.npz", "--out", str(toml.parent / "g.npz")]
    answer = CliRunner().invoke(app, command)
    assert "--kinds and --like cannot be combined" in str(answer.exception)
