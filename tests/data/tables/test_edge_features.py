"""Columns of edge tables become features of the nodes at both ends, or relations of their own."""

import warnings
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import tables
from fastgtn.errors import InputError

GRAPH = """
[nodes.user]
table = "users.csv"
id = "id"
[nodes.shop]
table = "shops.csv"
id = "id"
[relations.paid]
table = "paid.csv"
source = { type = "user", column = "user" }
target = { type = "shop", column = "shop" }
"""
PAID = "user,shop,amount,how,day\n1,a,10,card,2024-01-01\n1,b,30,cash,2024-01-03\n1,a,20,card,2024-01-02\n2,b,5,card,\n"


def build(folder: Path, more: str, *, paid: str = PAID, like: tables.Encoding | None = None) -> HeteroData:
    (folder / "users.csv").write_text("id\n1\n2\n3\n")
    (folder / "shops.csv").write_text("id\na\nb\n")
    (folder / "paid.csv").write_text(paid)
    (folder / "graph.toml").write_text(GRAPH + more)
    return tables.build(folder / "graph.toml", like=like)[0]


def raw(graph: HeteroData, node_type: str) -> dict[str, list[float]]:
    """The summaries before they were standardised, rounded."""
    encoding = tables.Encoding.from_json(graph.encoding, where="g")
    columns = graph[node_type].x.to_dense().double().T
    found, start = {}, 0
    for column in encoding.nodes[node_type].columns:
        encoder = column.encoder
        assert encoder.kind == "number"
        found[column.column] = (columns[start] * encoder.deviation + encoder.mean).round(decimals=3).tolist()
        start += len(column.names)
    return found


def test_rows_are_summarised_at_both_ends(tmp_path: Path) -> None:
    graph = build(tmp_path, 'features = ["amount", "how", "day"]\ntime = "day"\n')
    user, shop = raw(graph, "user"), raw(graph, "shop")
    assert user["paid.count"] == [3, 1, 0]
    assert user["paid.amount.sum"] == [60, 5, 0]
    assert user["paid.amount.mean"] == [20, 5, 12.5]  # the third has no row: the median, and a mark
    assert (user["paid.amount.min"][:2], user["paid.amount.max"][:2]) == ([10, 5], [30, 5])
    assert user["paid.amount.last"][0] == 30  # of the third of January
    assert (user["paid.how=card"], user["paid.how=cash"]) == ([2, 1, 0], [1, 0, 0])
    assert user["paid.day.days_since_last"][0] == 0
    assert user["paid.day.days_since_first"][0] == 2
    assert shop["paid.amount.sum"] == [30, 35]
    names = graph.meta["features"]["user"]
    assert "paid.amount.mean=missing" in names  # users without a row are marked
    assert graph["user", "paid", "shop"].edge_index.tolist() == [[0, 0, 1], [0, 1, 1]]


def test_a_single_column_of_dates_says_which_row_is_the_last(tmp_path: Path) -> None:
    user = raw(build(tmp_path, 'features = ["amount", "day"]\n'), "user")
    assert user["paid.amount.last"][:2] == [30, 5]  # the row of the second user has no date
    undated = PAID.replace("1,b,30,cash,2024-01-03", "1,b,30,cash,")
    assert raw(build(tmp_path, 'features = ["amount", "day"]\n', paid=undated), "user")["paid.amount.last"][0] == 20
    assert "paid.amount.last" not in raw(build(tmp_path, 'features = ["amount"]\n'), "user")
    two = "\n".join(
        f"{line},{extra}" for line, extra in zip(PAID.splitlines(), ["due", *["2024-02-01"] * 4], strict=True)
    )
    features = 'features = ["amount", "day", "due"]\n'
    assert "paid.amount.last" not in raw(build(tmp_path, features, paid=two + "\n"), "user")


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    header, *rows = PAID.splitlines()
    more = 'features = ["amount", "how"]\n'
    one, two = build(tmp_path, more), build(tmp_path, more, paid="\n".join([header, *rows[::-1]]) + "\n")
    assert torch.equal(one["user"].x, two["user"].x)


def test_summaries_travel(tmp_path: Path) -> None:
    more = 'features = ["amount", "how", "day"]\n'
    like = tables.Encoding.from_json(build(tmp_path, more).encoding, where="g")
    before = build(tmp_path, more)["user"].x
    assert torch.equal(build(tmp_path, more, like=like)["user"].x, before)
    cheque = PAID.replace("30,cash", "300,cheque")
    after = build(tmp_path, more, paid=cheque, like=like)
    encoding = tables.Encoding.from_json(after.encoding, where="g")
    assert encoding == like  # nothing was fitted again
    assert raw(after, "user")["paid.amount.max"] == [300, 5, 17.5]  # the median of the first tables
    assert raw(after, "user")["paid.how=cash"] == [0, 0, 0]


def test_relations_split_by_a_category_and_by_ranges(tmp_path: Path) -> None:
    graph = build(tmp_path, 'split = "how"\nreverse = true\n')
    names = {name for _, name, _ in graph.edge_types}
    assert names == {"paid card", "paid cash", "rev_paid card", "rev_paid cash"}
    assert graph["user", "paid cash", "shop"].edge_index.tolist() == [[0], [1]]
    graph = build(tmp_path, 'split = { column = "amount", bins = 2 }\n')
    assert graph["user", "paid amount 2 of 2", "shop"].edge_index.tolist() == [[0, 0], [0, 1]]
    like = tables.Encoding.from_json(build(tmp_path, 'split = "how"\n').encoding, where="g")
    with pytest.warns(UserWarning, match='split column "how": 1 of 4 rows have no value'):
        build(tmp_path, 'split = "how"\n', paid=PAID.replace("cash", "cheque"), like=like)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'"how" is of kind "list", but only numbers, categories and dates of edges'):
        build(tmp_path, 'features = { how = "list" }\n')
    many = "user,shop,how\n" + "".join(f"1,a,v{i}\n" for i in range(30))
    with pytest.raises(InputError, match=r'split column "how" has 30 values, and each would become a relation'):
        build(tmp_path, 'split = "how"\n', paid=many)
    with pytest.raises(InputError, match=r'\[relations.paid\] has no key "feature"; did you mean "features"'):
        build(tmp_path, 'feature = ["how"]\n')
    with pytest.raises(InputError, match=r'\[relations.paid.features.how\] has no key "kin"; did you mean "kind"'):
        build(tmp_path, 'features = { how = { kin = "category" } }\n')


def test_new_rows_alone_are_noted_where_others_lose_theirs(tmp_path: Path) -> None:
    header = "user,shop,amount\n"
    everything = header + "".join(f"{1 + i % 3},{'ab'[i % 2]},{i + 0.5}\n" for i in range(40))
    more = (
        'features = ["amount"]\n[task]\ntarget = "user"\nlabel = "id"\nsplit = { train = 0.4, val = 0.3, test = 0.3 }\n'
    )
    like = tables.Encoding.from_json(build(tmp_path, more, paid=everything).encoding, where="g")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(tmp_path, more, paid=everything, like=like)
    message = r'\[nodes.shop\]: a node has 1 rows of "paid" here, and 20 in the tables of the training'
    with pytest.warns(UserWarning, match=message):
        build(tmp_path, more, paid=header + "1,a,3.5\n1,b,4.5\n", like=like)
