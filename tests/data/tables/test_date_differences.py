"""Days between two dates of a row, and since the last row of an owner, are features that travel with the encoding."""

import tomllib
import warnings
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import tables
from fastgtn.errors import InputError
from fastgtn.runs.scoring.new.features import encoded_features
from fastgtn.runs.scoring.new.request import NewNode

GRAPH = """
[graph]
reverse = true
[nodes.customer]
table = "customers.csv"
id = "id"
features = ["age"]
[nodes.parcel]
table = "parcels.csv"
id = "id"
features = DATES
TIME
[relations.of]
table = "parcels.csv"
source = { type = "parcel", column = "id" }
target = { type = "customer", column = "customer" }
[task]
target = "customer"
label = "left"
split = "part"
"""
DATES = '{ sent = "date", came = { kind = "date", format = "%d.%m.%Y" } }'
CUSTOMERS = "id,age,left,part,asked\n1,30.5,no,train,2024-02-01\n2,40,yes,train,2024-02-01\n3,50,no,val,2024-02-01\n"
PARCELS = (
    "id,customer,sent,came,day\na,1,2024-01-01,04.01.2024,2024-01-04\nb,1,2024-03-01,11.03.2024,2024-03-11\n"
    "c,2,2024-01-10,,2024-01-20\nd,2,2024-01-05,06.01.2024,2024-01-06\n"
)


def build(
    folder: Path, *, parcels: str = PARCELS, like: tables.Encoding | None = None, toml: str = GRAPH, **changes: str
) -> HeteroData:
    (folder / "customers.csv").write_text(CUSTOMERS)
    (folder / "parcels.csv").write_text(parcels)
    for key, value in ({"DATES": DATES, "TIME": ""} | changes).items():
        toml = toml.replace(key, value)
    (folder / "graph.toml").write_text(toml)
    return tables.build(folder / "graph.toml", like=like)[0]


def encoding_of(graph: HeteroData) -> tables.Encoding:
    return tables.Encoding.from_json(graph.encoding, where="g")


def raw(graph: HeteroData, node_type: str, name: str) -> list[float]:
    """A column of numbers before it was standardised."""
    encoding = encoding_of(graph).nodes[node_type]
    encoder = next(column.encoder for column in encoding.columns if column.column == name)
    assert encoder.kind == "number"
    values = graph[node_type].x.to_dense().double()[:, encoding.names.index(name)]
    return (values * encoder.deviation + encoder.mean).round(decimals=3).tolist()


def test_days_between_two_dates_of_a_row(tmp_path: Path) -> None:
    graph = build(tmp_path)
    assert raw(graph, "parcel", "came - sent (days)") == [3, 10, 3, 1]  # the third has no second date: the median
    assert "came - sent (days)=missing" in graph.meta["features"]["parcel"]
    assert raw(graph, "customer", "of.came - sent (days).max")[:2] == [10, 1]  # summarised to the owner as well
    turned = build(tmp_path, DATES='{ came = { kind = "date", format = "%d.%m.%Y" }, sent = "date" }')
    assert raw(turned, "parcel", "came - sent (days)") == [3, 10, 3, 1]  # the later date usually comes first


def test_differences_travel(tmp_path: Path) -> None:
    graph = build(tmp_path)
    like, header = encoding_of(graph), PARCELS.splitlines()[0]
    assert torch.equal(build(tmp_path, like=like)["parcel"].x, graph["parcel"].x)
    late = build(tmp_path, parcels=f"{header}\nx,1,2025-01-01,31.01.2025,2025-01-31\n", like=like)
    assert raw(late, "parcel", "came - sent (days)") == [30]
    assert encoding_of(late) == like


def test_four_dates_have_six_differences_and_equal_dates_have_none(tmp_path: Path) -> None:
    rows = "".join(f"{i},1,{','.join(f'2024-0{k + 1}-{i + k * i:02}' for k in range(5))}\n" for i in range(1, 4))
    parcels, dates = "id,customer,d0,d1,d2,d3,d4\n" + rows, '["d0", "d1", "d2", "d3", "d4"]'
    found = [c.column for c in encoding_of(build(tmp_path, parcels=parcels, DATES=dates)).nodes["parcel"].columns]
    assert found[5:] == [f"d{k} - d{j} (days)" for j in range(4) for k in range(j + 1, 4)]
    same = "id,customer,d0,d1\n1,1,2024-01-01,2024-01-03\n2,1,2024-02-01,2024-02-03\n"
    found = [c.column for c in encoding_of(build(tmp_path, parcels=same, DATES='["d0", "d1"]')).nodes["parcel"].columns]
    assert found == ["d0", "d1"]


def test_dates_of_edges(tmp_path: Path) -> None:
    toml = GRAPH.replace(
        "[task]", 'features = { sent = "date", came = { kind = "date", format = "%d.%m.%Y" } }\n[task]'
    )
    graph = build(tmp_path, toml=toml, DATES="[]")
    assert raw(graph, "customer", "of.came - sent (days).mean") == [6.5, 1, 3.75]
    like = encoding_of(graph)
    assert torch.equal(build(tmp_path, toml=toml, DATES="[]", like=like)["customer"].x, graph["customer"].x)
    with pytest.raises(InputError, match=r'reads the column "sent", which graph.toml does not name here'):
        build(tmp_path, DATES="[]", like=like)


def test_days_since_the_last_row_come_from_its_time(tmp_path: Path) -> None:
    graph = build(tmp_path, DATES="[]", TIME='time = "day"')
    assert raw(graph, "customer", "of.day.days_since_last")[:2] == [0, 51]  # before the latest row of all
    assert raw(graph, "customer", "of.day.days_since_first")[:2] == [67, 65]
    toml = GRAPH.replace('label = "left"', 'label = "left"\nas_of = "asked"')
    seen = build(tmp_path, toml=toml, DATES="[]", TIME='time = "day"')
    assert raw(seen, "customer", "of.day.days_since_last")[:2] == [28, 12]  # before the moment; later rows are not seen
    on_edges = build(tmp_path, toml=toml.replace("[task]", 'time = "day"\n[task]'), DATES="[]")
    assert raw(on_edges, "customer", "of.day.days_since_last")[:2] == [28, 12]
    counted = PARCELS.replace("2024-01-04\n", "1\n").replace("2024-03-11\n", "2\n").replace("2024-01-20\n", "3\n")
    counted = counted.replace("2024-01-06\n", "4\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers = build(tmp_path, DATES="[]", TIME='time = "day"', parcels=counted)
    assert not any("days" in name for name in numbers.meta["features"]["customer"])


def test_a_mistake_in_a_time_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='time column "id" holds text, not numbers'):
        build(tmp_path, DATES="[]", TIME='time = "id"')


def test_kinds_are_written_for_columns_of_the_tables_only(tmp_path: Path) -> None:
    build(tmp_path)
    command = ["data", "build", str(tmp_path / "graph.toml"), "--kinds", "--out", str(tmp_path / "g.npz")]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    stated = tomllib.loads((tmp_path / "graph.toml").read_text())
    assert stated["nodes"]["parcel"]["features"].keys() == {"sent", "came"}
    assert "features" not in stated["relations"]["of"]
    answer = CliRunner().invoke(app, ["data", "check", str(tmp_path / "g.npz")])
    assert '"parcel" has features of days between two dates: came - sent (days)' in " ".join(answer.stdout.split())


def test_a_new_row_gives_its_dates(tmp_path: Path) -> None:
    graph = build(tmp_path)
    encoding = encoding_of(graph)
    new = NewNode(id="n", features={"sent": "2024-03-01", "came": "11.03.2024"})
    assert torch.equal(encoded_features([new], [], "parcel", encoding)[0], graph["parcel"].x.to_dense()[1])
    with pytest.raises(InputError, match='lack the column "came"'):
        encoded_features([NewNode(id="n", features={"sent": "2024-03-01"})], [], "parcel", encoding)
