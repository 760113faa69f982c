"""Rows of a table with a foreign key are summarised to the nodes that they belong to."""

from pathlib import Path
from typing import Any

import pytest
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import tables
from fastgtn.errors import InputError

FILES = {
    "loans": "id,account,size,granted,bad,part\n"
    + "".join(f"{i},{i % 4},{i}.5,2024-0{1 + i // 2}-01,{'ny'[i // 4]},{('train', 'val')[i % 2]}\n" for i in range(8)),
    "accounts": "id,fee\n0,1.5\n1,2.5\n2,3.5\n3,4.5\n",
    "bookings": "id,account,balance,how,day\nx,0,5,card,2024-01-10\ny,0,-20,cash,2024-02-10\nz,0,30.5,card,2024-03-10\n"
    "v,1,7,card,2024-02-01\nw,1,9,card,2024-02-02\n",
}
GRAPH = """
[graph]
reverse = true
[nodes.loan]
table = "loans.csv"
id = "id"
features = ["size"]
[nodes.account]
table = "accounts.csv"
id = "id"
features = FEE
[nodes.booking]
table = "bookings.csv"
id = "id"
features = ["balance", "how"]
TIME
[relations.of]
table = "loans.csv"
source = { type = "loan", column = "id" }
target = { type = "account", column = "account" }
[relations.booked]
table = "bookings.csv"
source = { type = "booking", column = "id" }
target = { type = "account", column = "account" }
MORE
[task]
target = "loan"
label = "bad"
split = "part"
"""


def written(folder: Path, *, files: dict[str, str] = FILES, toml: str = GRAPH, **changes: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    for key, value in ({"FEE": '["fee"]', "TIME": "", "MORE": ""} | changes).items():
        toml = toml.replace(key, value)
    (folder / "graph.toml").write_text(toml)
    return folder / "graph.toml"


def built(folder: Path, **changes: Any) -> HeteroData:
    return tables.build(written(folder, **changes))[0]


def raw(graph: HeteroData, node_type: str, name: str) -> list[float]:
    """A summary in its own unit."""
    encoding = tables.Encoding.from_json(graph.encoding, where="g").nodes[node_type]
    encoder = next(column.encoder for column in encoding.columns if column.column == name)
    assert encoder.kind == "number"
    values = graph[node_type].x.to_dense().double()[:, encoding.names.index(name)]
    return (values * encoder.deviation + encoder.mean).round(decimals=3).tolist()


@pytest.mark.parametrize("turned", [False, True])
def test_bookings_are_summarised_to_their_account(turned: bool, tmp_path: Path) -> None:
    ends = ('source = { type = "booking", column = "id" }', 'target = { type = "account", column = "account" }')
    other = ('target = { type = "booking", column = "id" }', 'source = { type = "account", column = "account" }')
    toml = GRAPH.replace("\n".join(ends), "\n".join(other)) if turned else GRAPH
    graph = built(tmp_path, toml=toml)
    assert raw(graph, "account", "booked.count") == [3, 2, 0, 0]
    assert raw(graph, "account", "booked.balance.sum") == [15.5, 16, 0, 0]
    assert raw(graph, "account", "booked.balance.min")[:2] == [-20, 7]
    assert raw(graph, "account", "booked.balance.max")[:2] == [30.5, 9]
    assert raw(graph, "account", "booked.how=card") == [2, 2, 0, 0]
    assert not any("of." in name for name in graph.meta["features"]["account"])  # rows that are to be predicted


@pytest.mark.parametrize("change", [{"FEE": "[]"}, {"MORE": "summarize = false"}])
def test_embeddings_and_a_stated_wish_stay(change: dict[str, str], tmp_path: Path) -> None:
    graph = built(tmp_path, **change)
    assert not any("booked" in name for name in graph.meta["features"].get("account", []))
    assert "booked.count" in built(tmp_path, FEE="[]", MORE="summarize = true").meta["features"]["account"]


def test_rows_that_belong_to_several_nodes_are_refused(tmp_path: Path) -> None:
    files = FILES | {"bookings": FILES["bookings"] + "v,2,7,card,2024-02-01\n"}
    toml = GRAPH.replace('table = "bookings.csv"\nid', "sql = \"SELECT DISTINCT ON (id) * FROM 'bookings.csv'\"\nid")
    with pytest.raises(InputError, match="summarize needs rows that belong to one node each"):
        built(tmp_path, files=files, toml=toml, MORE="summarize = true")


def test_only_rows_before_the_first_moment_count(tmp_path: Path) -> None:
    toml = GRAPH.replace('split = "part"', 'split = "part"\nas_of = "granted"')
    assert not any("booked" in name for name in built(tmp_path, toml=toml).meta["features"]["account"])
    with pytest.warns(UserWarning, match="those before the earliest moment of a label"):
        graph = built(tmp_path, toml=toml.replace("TIME", 'time = "day"'))
    assert raw(graph, "account", "booked.count") == [0, 0, 0, 0]
    later = {name: text.replace("2024-0", "2025-0") if name == "loans" else text for name, text in FILES.items()}
    graph = built(tmp_path, files=later, toml=toml.replace("TIME", 'time = "day"'))
    assert raw(graph, "account", "booked.count") == [3, 2, 0, 0]
    assert raw(graph, "account", "booked.balance.last")[:2] == [30.5, 9]


def test_rows_of_training_score_the_same_in_tables_without_the_others(tmp_path: Path) -> None:
    run = fastgtn.fit(*tables.build(written(tmp_path)), quick(fit={"epochs": 2}))
    whole = {row["node"]: row["p_y"] for row in run.predict().to_pylist()}
    header, *rows = FILES["loans"].splitlines()
    of_one_account = FILES | {"loans": "\n".join([header, rows[0], rows[4]]) + "\n"}
    graph, _ = tables.build(written(tmp_path, files=of_one_account), like=run.schema.table_encoding())
    found = {row["node"]: row["p_y"] for row in run.predict(graph).to_pylist()}
    assert found == {node: whole[node] for node in (0, 4)}


def test_edges_to_summarised_rows_cannot_be_sent(tmp_path: Path) -> None:
    toml = GRAPH.replace('target = "loan"', 'target = "account"').replace('label = "bad"', 'label = "kind"')
    accounts = "id,fee,kind,part\n0,1.5,a,train\n1,2.5,b,train\n2,3.5,a,val\n3,4.5,b,val\n"
    path = written(tmp_path, files=FILES | {"accounts": accounts}, toml=toml)
    run = fastgtn.fit(*tables.build(path), quick(fit={"epochs": 1}))
    new = {"id": "new", "features": {"fee": 2.0}, "edges": {}}
    assert run.predict_new([new]).num_rows == 1
    with pytest.raises(InputError, match='edges of "booked" cannot be sent'):
        run.predict_new([new | {"edges": {"booked": [{"node": "x"}]}}])
