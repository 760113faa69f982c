"""New rows are scored with what was fitted on the training tables: nothing is fitted again, nothing moves silently."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.data import archive, tables
from fastgtn.errors import InputError
from fastgtn.runs import Result, load_run, train

GRAPH = """
[graph]
name = "fraud"
[nodes.customer]
table = "customers.csv"
id = "id"
features = ["country", "amount", "since"]
[nodes.device]
table = "devices.csv"
id = "id"
features = ["age"]
[relations.used_by]
table = "uses.csv"
source = { type = "device", column = "device" }
target = { type = "customer", column = "customer" }
[task]
target = "customer"
label = "fraud"
split = "part"
"""
Rows = list[dict[str, str]]


def customers() -> Rows:
    draw = np.random.default_rng(0)
    rows = []
    for i in range(60):
        country = ["SE", "NO", "DK"][i % 3]
        amount, day = draw.lognormal(3, 1), draw.integers(1, 28)
        part = ["train", "val", "test"][i // 20]
        rows.append(
            {
                "id": str(i),
                "country": country,
                "amount": f"{amount:.2f}" if i % 7 else "",
                "since": f"2024-{1 + i % 12:02}-{day:02}",
                "fraud": "yes" if i % 4 == 0 else "no",
                "part": part,
            }
        )
    return rows


def write(folder: Path, rows: Rows, *, graph: str = GRAPH) -> Path:
    """The customers with one device each, which is as old as its number."""
    folder.mkdir(exist_ok=True)
    devices = [{"id": f"d{row['id']}", "age": str(int(row["id"]) % 9)} for row in rows]
    uses = [{"device": f"d{row['id']}", "customer": row["id"]} for row in rows]
    for name, table in (("customers", rows), ("devices", devices), ("uses", uses)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    (folder / "graph.toml").write_text(graph)
    return folder / "graph.toml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("fraud")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph, task = tables.build(write(folder / "tables", customers()))
    archive.write(folder / "fraud.npz", graph, task, meta=graph.meta)
    values = {"dataset": str(folder / "fraud.npz"), "model": {"num_channels": 2}, "fit": {"epochs": 5}}
    train(Config.of(values), out=folder / "run")
    return load_run(folder / "run")


def scores(run: Result, toml: Path) -> dict[str, float]:
    graph, task = tables.build(toml, like=run.schema.table_encoding())
    return by_id(run.predict(graph, task=task))


def by_id(table: pa.Table) -> dict[str, float]:
    return dict(zip(map(str, table["node"].to_pylist()), table["p_yes"].to_pylist(), strict=True))


def in_training(run: Result) -> dict[str, float]:
    return by_id(run.predict())


def test_the_training_tables_score_the_same_when_built_again(trained: Result, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing about the tables of the training is worth a note
        again = scores(trained, write(tmp_path, customers()))
    assert again == in_training(trained)


@pytest.mark.parametrize("row", [0, 7, 31])
def test_a_training_row_alone_scores_to_the_bit_as_in_training(trained: Result, tmp_path: Path, row: int) -> None:
    alone = scores(trained, write(tmp_path, [customers()[row]]))
    assert alone == {str(row): in_training(trained)[str(row)]}


def test_a_renamed_country_moves_only_its_customers(trained: Result, tmp_path: Path) -> None:
    rows = [row | {"country": row["country"].replace("NO", "Norway")} for row in customers()]
    with pytest.warns(UserWarning, match=r'"country": 20 of 60 rows have a value .* does not know, such as "Norway"'):
        after = scores(trained, write(tmp_path, rows))
    before = in_training(trained)
    moved = {i for i in before if before[i] != after[i]}
    assert moved == {row["id"] for row in rows if row["country"] == "Norway"}


def test_amounts_times_ten_are_larger_amounts(trained: Result, tmp_path: Path) -> None:
    rows = [row | {"amount": str(10 * float(row["amount"])) if row["amount"] else ""} for row in customers()]
    note = r'"amount": \d+ of 60 rows have a number more than 8 standard deviations .* Check the unit'
    with pytest.warns(UserWarning, match=note):
        after = scores(trained, write(tmp_path, rows))
    before = in_training(trained)
    moved = {row["id"] for row in rows if before[row["id"]] != after[row["id"]]}
    assert moved == {row["id"] for row in rows if row["amount"]}


def test_five_new_customers_without_labels(trained: Result, tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k not in ("fraud", "part")} for row in customers()[:5]]
    rows = [row | {"id": str(100 + int(row["id"]))} for row in rows]
    path = write(tmp_path, rows)
    out = tmp_path / "scored.csv"
    command = ["predict", str(trained.folder), "--tables", str(path), "--out", str(out)]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    with out.open() as file:
        found = {row["node"]: float(row["p_yes"]) for row in csv.DictReader(file)}
    assert found.keys() == {"100", "101", "102", "103", "104"}
    assert found == pytest.approx(scores(trained, path), abs=1e-6)


def test_new_rows_are_in_no_drawn_split(trained: Result, tmp_path: Path) -> None:
    drawn = GRAPH.replace('split = "part"', "split = { train = 0.5, val = 0.2, test = 0.3 }")
    splits = []
    for graph in (drawn, GRAPH):
        out = tmp_path / f"{len(splits)}.csv"
        path = write(tmp_path, customers(), graph=graph)
        command = ["predict", str(trained.folder), "--tables", str(path), "--out", str(out)]
        answer = CliRunner().invoke(app, command)
        assert answer.exit_code == 0, answer.output
        with out.open() as file:
            splits.append({row["split"] for row in csv.DictReader(file)})
    assert splits == [{"none"}, {"train", "val", "test"}]


def test_a_graph_with_another_encoding_is_refused(trained: Result, tmp_path: Path) -> None:
    rows = [row | {"country": row["country"].replace("NO", "Norway")} for row in customers()]
    other, task = tables.build(write(tmp_path, rows))
    message = r'"customer.country" has 3 values .*new: Norway; not there: NO.*data build graph.toml --like RUN'
    with pytest.raises(InputError, match=message):
        trained.predict(other, task=task)
    few, task = tables.build(write(tmp_path, customers()[:30]))
    with pytest.raises(InputError, match=r'"customer.amount" has fill .* instead of'):
        trained.predict(few, task=task)


def test_names_are_compared_where_a_graph_has_no_encoding(trained: Result) -> None:
    graph, task = archive.read(trained.config.dataset)
    del graph.encoding
    assert trained.predict(graph, task=task).num_rows == 60
    graph.meta["features"]["customer"] = ["b", *graph.meta["features"]["customer"][1:]]
    with pytest.raises(InputError, match=r'"customer" lacks the feature country=DK; .* unexpected feature b'):
        trained.predict(graph, task=task)


def test_build_like_a_run_and_like_an_archive(trained: Result, tmp_path: Path) -> None:
    path = write(tmp_path / "new", customers()[:9])
    built = []
    for like in (trained.folder, trained.config.dataset):
        out = tmp_path / f"{len(built)}.npz"
        answer = CliRunner().invoke(app, ["data", "build", str(path), "--like", str(like), "--out", str(out)])
        assert answer.exit_code == 0, answer.output
        built.append(out.read_bytes())
    assert built[0] == built[1]
    graph, task = archive.read(tmp_path / "0.npz")
    assert task is not None
    assert task.class_names == ("no", "yes")
    known = in_training(trained)
    assert by_id(trained.predict(graph, task=task)) == {row["id"]: known[row["id"]] for row in customers()[:9]}


def test_one_of_graph_and_tables(trained: Result, tmp_path: Path) -> None:
    command = ["predict", str(trained.folder), "--tables", "a.toml", "--graph", "b.npz", "-o", str(tmp_path / "x.csv")]
    answer = CliRunner().invoke(app, command)
    assert isinstance(answer.exception, InputError)
    assert "cannot be combined" in str(answer.exception)
