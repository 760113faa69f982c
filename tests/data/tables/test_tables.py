"""Tables become the graph that their rows say, the same from every source, and mistakes are named."""

import hashlib
import importlib.util
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastgtn.data import archive, tables
from fastgtn.errors import InputError

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_graph"
GRAPH = """
[graph]
name = "shops"
reverse = true
[nodes.user]
table = "users.csv"
id = "id"
features = ["age", "town"]
[nodes.shop]
table = "shops.csv"
id = "id"
[relations.visits]
table = "visits.csv"
source = { type = "user", column = "user" }
target = { type = "shop", column = "shop" }
weight = "times"
[task]
target = "user"
label = "segment"
split = "part"
"""
USERS = "id,age,town,segment,part\n9,30,Rome,b,train\n10,50,Oslo,a,test\n2,40,Rome,b,val\n77,40,,,\n"
SHOPS = "id\ns2\ns1\n"
VISITS = "user,shop,times\n10,s1,2\n9,s2,1\n10,s1,0.5\n"


def write(folder: Path, *, graph: str = GRAPH, users: str = USERS, shops: str = SHOPS, visits: str = VISITS) -> Path:
    for name, text in (("users.csv", users), ("shops.csv", shops), ("visits.csv", visits), ("graph.toml", graph)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "graph.toml"


def dense(x: torch.Tensor) -> torch.Tensor:
    return x.to_dense() if x.layout != torch.strided else x


def features(folder: Path, column: str, spec: str, values: list[str]) -> tuple[torch.Tensor, list[str]]:
    """The features made from one CSV column of these values."""
    rows = "".join(f'{i},"{value}"\n' for i, value in enumerate(values))
    (folder / "t.csv").write_text(f"id,{column}\n{rows}", encoding="utf-8")
    (folder / "graph.toml").write_text(f'[nodes.t]\ntable = "t.csv"\nid = "id"\nfeatures = {spec}\n')
    graph, task = tables.build(folder / "graph.toml")
    assert task is None
    return dense(graph["t"].x), graph.meta["features"]["t"]


def test_nodes_are_sorted_by_id_and_edges_join_them(tmp_path: Path) -> None:
    graph, task = tables.build(write(tmp_path))
    assert graph["user"].node_id.tolist() == [2, 9, 10, 77]
    assert graph["shop"].node_id.tolist() == ["s1", "s2"]
    visits = graph["user", "visits", "shop"]
    assert visits.edge_index.tolist() == [[1, 2], [1, 0]]
    assert visits.edge_weight.tolist() == [1, 2.5]  # the two rows of (10, s1) are one edge
    reverse = graph["shop", "rev_visits", "user"]
    assert reverse.edge_index.tolist() == [[1, 0], [1, 2]]
    assert "x" not in graph["shop"]
    assert task is not None
    assert (task.target, task.class_names) == ("user", ("a", "b"))
    assert (task.train.nodes.tolist(), task.val.nodes.tolist(), task.test_nodes.tolist()) == ([1], [0], [2])


def test_numbers_are_standardised_and_categories_one_hot(tmp_path: Path) -> None:
    graph, _ = tables.build(write(tmp_path))
    x = dense(graph["user"].x)
    assert graph.meta["features"] == {"user": ["age", "town=Oslo", "town=Rome"]}
    torch.testing.assert_close(x[:, 0], torch.tensor([0, -1, 1, 0]) * 2**0.5)
    assert x[:, 1:].tolist() == [[0, 1], [0, 1], [1, 0], [0, 0]]  # an empty category is a row of zeros


def test_raw_numbers_and_constant_columns(tmp_path: Path) -> None:
    raw = '{ n = { kind = "number", standardize = false } }'
    assert features(tmp_path, "n", raw, ["3", "4.5"])[0].tolist() == [[3], [4.5]]
    assert features(tmp_path, "n", '["n"]', ["7", "7"])[0].tolist() == [[0], [0]]


def test_numbers_as_categories_sort_as_numbers(tmp_path: Path) -> None:
    x, names = features(tmp_path, "n", '{ n = "category" }', ["10", "9", "10"])
    assert names == ["n=9", "n=10"]
    assert x.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_text_is_a_bag_of_words(tmp_path: Path) -> None:
    values = ["The cat, the DOG!", "a dog är här today", "cat är här; no unique", ""]
    x, names = features(tmp_path, "t", '["t"]', values)
    assert names == ["t=cat", "t=dog", "t=här", "t=är"]  # words of two rows at least, also beyond ASCII
    assert x.tolist() == [[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0]]
    few = '{ t = { kind = "text", min_count = 1, max_words = 2 } }'
    assert features(tmp_path, "t", few, ["b a", "b c", "b c"])[1] == ["t=b", "t=c"]
    assert features(tmp_path, "t", few, ["x x y", "z"])[1] == ["t=x", "t=y"]  # ties go by the alphabet
    assert features(tmp_path, "t", few, ["x x y", "z"])[0].tolist() == [[2, 1], [0, 0]]


def test_lists_are_multi_hot_and_vectors_stay(tmp_path: Path) -> None:
    x, names = features(tmp_path, "l", '{ l = "list" }', ["b| a", "", "a|a"])
    assert names == ["l=a", "l=b"]
    assert x.tolist() == [[1, 1], [0, 0], [1, 0]]
    x, names = features(tmp_path, "v", '{ v = "vector" }', ["1|2.5", "3|4"])
    assert x.tolist() == [[1, 2.5], [3, 4]]


def test_list_columns_of_parquet(tmp_path: Path) -> None:
    duckdb.sql(
        "SELECT * FROM (VALUES (1, ['x', 'y'], [0.5, 1], true), (2, NULL, [2, 3], false)) t(id, tags, v, ok)"
    ).write_parquet(str(tmp_path / "t.parquet"))
    (tmp_path / "graph.toml").write_text('[nodes.t]\ntable = "t.parquet"\nid = "id"\nfeatures = ["tags", "v", "ok"]\n')
    graph, _ = tables.build(tmp_path / "graph.toml")
    assert graph.meta["features"]["t"] == ["tags=x", "tags=y", "v=0", "v=1", "ok=false", "ok=true"]
    assert dense(graph["t"].x).tolist() == [[1, 1, 0.5, 1, 0, 1], [0, 0, 2, 3, 1, 0]]


def test_wide_features_are_sparse(tmp_path: Path) -> None:
    values = [f"town{i}" for i in range(20)]
    rows = "".join(f"{i},{value}\n" for i, value in enumerate(values))
    (tmp_path / "t.csv").write_text("id,town\n" + rows)
    (tmp_path / "graph.toml").write_text('[nodes.t]\ntable = "t.csv"\nid = "id"\nfeatures = ["town"]\n')
    assert tables.build(tmp_path / "graph.toml")[0]["t"].x.is_sparse_csr


def test_several_labels(tmp_path: Path) -> None:
    users = USERS.replace("b,train", "b|a,train").replace(",a,test", ",c,test")
    _, task = tables.build(write(tmp_path, users=users, graph=GRAPH.replace("split =", 'labels = "multi"\nsplit =')))
    assert task is not None
    assert (task.kind, task.class_names) == ("multi", ("a", "b", "c"))
    assert task.train.labels.tolist() == [[1, 1, 0]]


def fractions(folder: Path, num_users: int, split: str) -> Any:
    rows = "".join(f"{i},1,Rome,{'abc'[i % 3] if i % 10 else ''}\n" for i in range(num_users))
    graph = GRAPH.split("[relations")[0]
    task = '[task]\ntarget = "user"\nlabel = "segment"\nsplit = ' + split
    return tables.build(write(folder, users="id,age,town,segment\n" + rows, graph=graph + task))[1]


def test_fractions_are_stratified_and_repeat_by_seed(tmp_path: Path) -> None:
    split = "{ train = 0.3, val = 0.2, test = 0.5, seed = 1 }"
    task, again = fractions(tmp_path, 200, split), fractions(tmp_path, 200, split)
    other = fractions(tmp_path, 200, split.replace("seed = 1", "seed = 2"))
    assert (len(task.train), len(task.val), len(task.test_nodes)) == (54, 36, 90)  # of 180 labelled
    assert torch.bincount(task.train.labels).tolist() == [18, 18, 18]
    assert torch.equal(task.train.nodes, again.train.nodes)
    assert not torch.equal(task.train.nodes, other.train.nodes)


def test_ids_keep_leading_zeros_and_take_each_other_s_type(tmp_path: Path) -> None:
    users = USERS.replace("\n9,", "\n09,")
    graph, _ = tables.build(write(tmp_path, users=users, visits=VISITS.replace("9,s2", "09,s2")))
    assert graph["user"].node_id.tolist() == ["09", "10", "2", "77"]
    assert graph["user", "visits", "shop"].edge_index.tolist() == [[0, 1], [1, 0]]


def test_sql_is_relative_to_the_toml_and_names_may_be_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "it's [a] folder*"
    folder.mkdir()
    sql = 'sql = """SELECT id, age + 1 AS age, town, segment, part FROM \'users.csv\' WHERE age < 60; """'
    path = write(folder, graph=GRAPH.replace('table = "users.csv"', sql))
    monkeypatch.chdir("/")
    assert tables.build(path)[0]["user"].num_nodes == 4


def test_example_is_the_same_from_csv_parquet_and_sqlite_bit_for_bit(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    spec = importlib.util.spec_from_file_location("other_formats", EXAMPLE / "other_formats.py")
    assert spec is not None
    assert spec.loader is not None
    other_formats = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other_formats)
    other_formats.convert(tmp_path, tmp_path)
    digests = set()
    for name in ("graph", "graph-parquet", "graph-sqlite"):
        graph, task = tables.build(tmp_path / f"{name}.toml")
        archive.write(tmp_path / f"{name}.npz", graph, task, meta=graph.meta)
        digests.add(hashlib.sha256((tmp_path / f"{name}.npz").read_bytes()).hexdigest())
    assert len(digests) == 1
    assert graph["user"].num_nodes == 60


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    def shuffled(text: str) -> str:
        header, *rows = text.splitlines()
        return "\n".join([header, *rows[::-1]]) + "\n"

    one, _ = tables.build(write(tmp_path))
    two, _ = tables.build(write(tmp_path, users=shuffled(USERS), visits=shuffled(VISITS)))
    assert torch.equal(dense(one["user"].x), dense(two["user"].x))
    for edge_type in one.edge_types:
        assert torch.equal(one[edge_type].edge_index, two[edge_type].edge_index)


def test_the_archive_keeps_ids_and_feature_names(tmp_path: Path) -> None:
    graph, task = tables.build(write(tmp_path))
    archive.write(tmp_path / "g.npz", graph, task, meta=graph.meta)
    stored, _ = archive.read(tmp_path / "g.npz")
    assert np.array_equal(stored["shop"].node_id, graph["shop"].node_id)
    assert stored.meta["features"] == graph.meta["features"]


def sqlite(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "d.sqlite") as database:
        for statement in statements:
            database.execute(statement)


def test_sqlite_columns_must_agree_with_themselves(tmp_path: Path) -> None:
    sqlite(tmp_path, "CREATE TABLE t (id, v)", "INSERT INTO t VALUES (1, 1), ('x', 2.5)")
    (tmp_path / "graph.toml").write_text('[nodes.t]\ndatabase = "d.sqlite"\ntable = "t"\nid = "id"\n')
    with pytest.raises(InputError, match='column "id" holds both text and numbers'):
        tables.build(tmp_path / "graph.toml")


def test_mixed_id_types_are_named_and_can_be_converted(tmp_path: Path) -> None:
    sqlite(tmp_path, "CREATE TABLE visits (user, shop, times)", "INSERT INTO visits VALUES ('10', 's1', 1)")
    graph = GRAPH.replace('table = "visits.csv"', 'database = "d.sqlite"\ntable = "visits"')
    with pytest.raises(InputError, match=r'holds text but the ids of "user" are whole numbers; .*id_type = "text"'):
        tables.build(write(tmp_path, graph=graph))
    for id_type, ids in (("text", ["10", "2", "77", "9"]), ("integer", [2, 9, 10, 77])):
        converted = graph.replace('id = "id"\nfeatures', f'id = "id"\nid_type = "{id_type}"\nfeatures')
        built, _ = tables.build(write(tmp_path, graph=converted))
        assert built["user"].node_id.tolist() == ids
        assert built["user", "visits", "shop"].edge_index.tolist() == [[ids.index(type(ids[0])(10))], [0]]


BAD_TABLES = {
    "missing column": ({"users": USERS.replace("age", "years")}, 'has no column "age"; valid names are: id, '),
    "near column": ({"users": USERS.replace("town", "twon")}, 'no column "town"; did you mean "twon"'),
    "unknown id": (
        {"visits": VISITS + "11,s1,1\n"},
        r"not in \"user\" in 1 of 4 rows, such as '11' in row 4",
    ),
    "unknown text id": ({"visits": VISITS + "x,s1,1\n"}, "'x' in row 4, which is not an id of \"user\""),
    "duplicate id": ({"users": USERS + "9,1,Rome,a,test\n"}, "1 duplicate ids, such as 9; keep one row per node"),
    "missing id": ({"users": USERS + ",1,Rome,a,test\n"}, "empty in 1 of 5 rows; every row needs an id"),
    "missing end": ({"visits": VISITS + ",s1,1\n"}, "empty in 1 of 4 rows"),
    "no rows": ({"shops": "id\n"}, "shops.csv has no rows"),
    "no edges": ({"visits": "user,shop,times\n"}, "visits.csv has no rows"),
    "infinite": ({"users": USERS.replace("30", "inf")}, "1 infinite values"),
    "no number": ({"users": USERS.replace("30", "").replace("50", "").replace("40", "")}, "has no value in any row"),
    "text for a number": (
        {"users": USERS.replace("30", "old"), "graph": GRAPH.replace('["age", "town"]', '{ age = "number" }')},
        "holds text, not numbers, such as 'old'.$",
    ),
    "comma for a point": (
        {"users": USERS.replace("30", '"3,5"'), "graph": GRAPH.replace('["age", "town"]', '{ age = "number" }')},
        r"such as '3,5'\. Write decimal commas as points",
    ),
    "weight": ({"visits": VISITS + "9,s1,-1\n"}, "1 weights that are not positive"),
    "weight missing": ({"visits": VISITS + "9,s1,\n"}, "1 empty or NaN"),
    "split name": ({"users": USERS.replace("train", "tran")}, 'holds "tran"; did you mean "train"'),
    "no labels": ({"users": "id,age,town,segment,part\n9,3,Rome,,train\n10,5,Oslo,,test\n"}, "is empty in every row"),
    "unlabelled split": ({"users": USERS.replace("40,,,", "40,,,test")}, "1 nodes of the test split have no label"),
    "fraction as label": (
        {
            "users": USERS.replace(",b,", ",0.5,").replace(",a,", ",1,"),
            "graph": GRAPH.replace("split =", 'labels = "single"\nsplit ='),
        },
        "holds fractions, which cannot be classes",
    ),
    "no training": ({"users": USERS.replace("train", "test")}, "train split is empty"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_named(case: str, tmp_path: Path) -> None:
    changes, message = BAD_TABLES[case]
    with pytest.raises(InputError, match=message) as error:
        tables.build(write(tmp_path, **changes))
    assert "\n" not in str(error.value)


BAD_GRAPHS = {
    "missing file": ('table = "users.csv"', 'table = "user.csv"', "there is no file"),
    "other file": ('table = "users.csv"', 'table = "graph.toml"', r"must end in \.csv"),
    "unknown type": ('type = "user"', 'type = "usr"', 'node type "usr", which has no section; did you mean "user"'),
    "unknown target": ('target = "user"', 'target = "client"', "task.target names the node type"),
    "unknown key": ("features =", "feature =", r'\[nodes.user\] has no key "feature"; did you mean "features"'),
    "unknown section": ("[graph]", "[graphs]", 'has no key "graphs"; did you mean "graph"'),
    "unknown end": ('column = "shop"', 'colum = "shop"', '"colum"; did you mean "column"'),
    "unknown fraction": ('"part"', "{ train = 0.5, val = 0.2, test = 0.3, sead = 1 }", '"sead"; did you mean "seed"'),
    "fractions": ('"part"', "{ train = 0.9, val = 0.2, test = 0.3 }", "add up to one or less"),
    "split seed": ('"part"', "{ train = 0.5, val = 0.2, test = 0.3, seed = -1 }", "greater than or equal to 0, got -1"),
    "no id": ('table = "shops.csv"\nid = "id"', 'table = "shops.csv"', r'\[nodes.shop\] needs the key "id"'),
    "table and sql": ('table = "shops.csv"', 'table = "shops.csv"\nsql = "SELECT 1"', "either table .* or sql"),
    "kind": ('["age", "town"]', '{ age = "numbr" }', r"\[nodes\.user\.features\.age\]: Input should be 'number'"),
    "broken TOML": ("[graph]", "[graph", "not readable TOML"),
    "two statements": ('table = "shops.csv"', 'sql = "SELECT 1 AS id; SELECT 2"', "one SELECT statement"),
    "not a select": ('table = "shops.csv"', "sql = \"COPY (SELECT 1) TO 'x.csv'\"", "one SELECT statement"),
    "broken sql": ('table = "shops.csv"', 'sql = "SELEC 1"', "the query cannot be read"),
    "missing table": ('table = "shops.csv"', 'sql = "SELECT * FROM nowhere"', "the query cannot be read"),
    "missing database": ('table = "shops.csv"', 'table = "t"\ndatabase = "no.sqlite"', "there is no database"),
    "lists as ids": ('table = "shops.csv"', 'sql = "SELECT [1] AS id"', "holds lists; ids are"),
    "label as feature": ('["age", "town"]', '["age", "segment"]', "the model would read the answer from it"),
    "reverse name": ("[relations.visits]", "[relations.rev_visits]", None),
}


@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_bad_graph_files_are_named(case: str, tmp_path: Path) -> None:
    old, new, message = BAD_GRAPHS[case]
    assert old in GRAPH
    path = write(tmp_path, graph=GRAPH.replace(old, new, 1))
    if message is None:  # a name is only taken when the relation it reverses is there too
        tables.build(path)
        second = GRAPH[GRAPH.index("[relations") : GRAPH.index("[task]")].replace("visits]", "rev_visits]")
        path, message = write(tmp_path, graph=GRAPH + second), "the name of the reverse that is added to another one"
    with pytest.raises(InputError, match=message) as error:
        tables.build(path)
    assert "\n" not in str(error.value)


def test_one_column_may_name_both_ends_of_different_types(tmp_path: Path) -> None:
    """Users and their accounts share their ids."""
    graph = GRAPH.replace('type = "shop", column = "shop"', 'type = "shop", column = "user"')
    built, _ = tables.build(write(tmp_path, graph=graph, shops="id\n9\n10\n"))
    assert built["user", "visits", "shop"].edge_index.tolist() == [[1, 2], [0, 1]]


def test_one_column_for_both_ends_of_one_type_is_refused(tmp_path: Path) -> None:
    graph = GRAPH.replace('type = "shop", column = "shop"', 'type = "user", column = "user"')
    with pytest.raises(InputError, match=r'visits takes source and target from the same column "user".*to itself'):
        tables.build(write(tmp_path, graph=graph))


def test_odd_types_and_folders(tmp_path: Path) -> None:
    for value, message in (("{'a': 1}", "has the type struct"), ("'x'::BLOB", None), ("DATE '2020-02-03'", None)):
        graph = f'[nodes.t]\nsql = """SELECT 1 AS id, {value} AS v"""\nid = "id"\nfeatures = ["v"]\n'
        (tmp_path / "graph.toml").write_text(graph)
        if message is None:
            names = tables.build(tmp_path / "graph.toml")[0].meta["features"]["t"]
            assert names == ["v=x"] or names[:2] == ["v=age", "v=year"]
            continue
        with pytest.raises(InputError, match=message):
            tables.build(tmp_path / "graph.toml")
    (tmp_path / "a, b").mkdir()
    (tmp_path / "a, b" / "t.csv").write_text("id\n1\n")
    (tmp_path / "a, b" / "graph.toml").write_text("[nodes.t]\nsql = \"FROM 't.csv'\"\nid = 'id'\n")
    assert tables.build(tmp_path / "a, b" / "graph.toml")[0]["t"].num_nodes == 1


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "shops.csv").write_bytes("id\nKöln\n".encode("latin1"))
    with pytest.raises(InputError, match=r"shops\.csv cannot be read .*(unicode|utf-8)"):
        tables.build(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1,50", "n/a", "1.234,5"], r'numbers with a decimal comma, such as "1,50"\. .*replace\(price'),
        (["31.05.2024", "", "1.6.2024 12:30"], r'dates such as "31\.05\.2024": .*"n" = .*format = "%d\.%m\.%Y"'),
        (["2024/5/31"], r'format = "%Y/%m/%d"'),
    ],
)
def test_numbers_and_dates_in_other_notations_are_named(tmp_path: Path, values: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        features(tmp_path, "n", '["n"]', values)


def test_versions_and_pairs_of_numbers_are_categories(tmp_path: Path) -> None:
    assert features(tmp_path, "n", '["n"]', ["1.2.3", "1.2.4", "2,5,7"])[0].size(1) == 3


def test_a_column_of_names_is_not_a_feature(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="looks like a name, not a feature"):
        features(tmp_path, "n", '["n"]', [f"Anna {i}" for i in range(300)])


def test_vectors_of_different_lengths_and_rare_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lengths range from 1 to 2"):
        features(tmp_path, "v", '{ v = "vector" }', ["1", "1|2"])
    with pytest.raises(InputError, match="must be lists of numbers"):
        features(tmp_path, "v", '{ v = "vector" }', ["a|b", "1|2"])
    with pytest.raises(InputError, match="no item that 2 rows share"):
        features(tmp_path, "t", '{ t = "text" }', ["a b", "c d"])


def test_missing_graph_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        tables.build(tmp_path / "graph.toml")


@pytest.mark.parametrize("source", ['table = "t.parquet"', "sql = \"SELECT * FROM 't.parquet'\""])
def test_a_column_name_that_is_no_text_is_refused(tmp_path: Path, source: str) -> None:
    pq.write_table(pa.table({"id": ["x", "y"], "name": [1, 2]}), tmp_path / "t.parquet", store_schema=False)
    damaged = (tmp_path / "t.parquet").read_bytes().replace(b"name", b"na\xff\xfe")
    (tmp_path / "t.parquet").write_bytes(damaged)
    (tmp_path / "graph.toml").write_text(f'[nodes.t]\n{source}\nid = "id"\n')
    with pytest.raises(InputError, match=r"cannot be read .a name or a text in it is not valid UTF-8"):
        tables.build(tmp_path / "graph.toml")
