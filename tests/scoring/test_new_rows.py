"""New nodes of a run from tables are sent as rows of these tables, and encoded as in training."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_config import quick

import fastgtn
from fastgtn.data import tables
from fastgtn.errors import InputError
from fastgtn.runs import Result
from fastgtn.runs.scoring.new.features import encoded_features
from fastgtn.runs.scoring.new.request import new_nodes

GRAPH = """
[nodes.customer]
table = "customers.csv"
id = "id"
features = { country = "category", income = "number", since = "date" }
[nodes.shop]
table = "shops.csv"
id = "id"
features = { size = "number" }
[relations.paid]
table = "paid.csv"
source = { type = "customer", column = "customer" }
target = { type = "shop", column = "shop" }
%s
[task]
target = "customer"
label = "fraud"
split = "part"
"""
SPLIT = 'split = "how"'
SUMMARIES = 'features = ["amount", "how"]\ntime = "day"'
NEW = {
    "id": "new",
    "features": {"country": "NO", "income": None, "since": "2024-03-04"},
    "edges": {
        "paid": [
            {"node": "s1", "how": "card", "amount": 12.5, "day": "2024-05-01"},
            {"node": "s4", "how": "cash", "amount": 80, "day": "2024-05-03"},
            {"node": "s1", "how": "card", "amount": 7.5, "day": "2024-05-02"},
        ]
    },
}


def write(folder: Path, relation: str, *, is_new: bool) -> Path:
    """Sixty customers with two payments each, and the new one if asked for."""
    draw = np.random.default_rng(0)
    customers, paid = ["id,country,income,since,fraud,part"], ["customer,shop,how,amount,day"]
    for i in range(60):
        income = f"{draw.lognormal(3, 1):.2f}" if i % 7 else ""
        part, fraud = ["train", "val", "test"][i // 20], "yes" if i % 3 == 0 else "no"
        customers.append(f"c{i},{['SE', 'NO', 'DK'][i % 3]},{income},2024-{1 + i % 12:02}-09,{fraud},{part}")
        for _ in range(2):
            shop, how = draw.integers(8), ["card", "cash"][draw.integers(2)]
            paid.append(f"c{i},s{shop},{how},{draw.lognormal(3, 1):.2f},2024-0{draw.integers(1, 7)}-11")
    if is_new:
        customers.append("new,NO,,2024-03-04,,")
        paid += [f"new,{e['node']},{e['how']},{e['amount']},{e['day']}" for e in NEW["edges"]["paid"]]  # type: ignore[index]
    folder.mkdir(exist_ok=True)
    (folder / "customers.csv").write_text("\n".join(customers) + "\n")
    (folder / "shops.csv").write_text("id,size\n" + "".join(f"s{k},{k * k}\n" for k in range(8)))
    (folder / "paid.csv").write_text("\n".join(paid) + "\n")
    (folder / "graph.toml").write_text(GRAPH % relation)
    return folder / "graph.toml"


def trained(folder: Path, relation: str) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fastgtn.fit(*tables.build(write(folder, relation, is_new=False)), quick(fit={"epochs": 2}))


@pytest.fixture(scope="module")
def split_run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return trained(tmp_path_factory.mktemp("split"), SPLIT)


def rebuilt(folder: Path, relation: str, run: Result) -> Any:
    """The graph of tables that have the new row, in training's encoding."""
    return tables.build(write(folder, relation, is_new=True), like=run.schema.table_encoding())[0]


def test_a_new_row_scores_as_in_rebuilt_tables(tmp_path: Path) -> None:
    run = trained(tmp_path, SPLIT)
    sent = NEW | {"edges": {"paid": [{k: e[k] for k in ("node", "how")} for e in NEW["edges"]["paid"]]}}  # type: ignore[index]
    expected = run.predict(rebuilt(tmp_path, SPLIT, run), nodes=["new"]).to_pylist()[0]
    (found,) = run.predict_new([sent]).to_pylist()
    assert found["p_yes"] == pytest.approx(expected["p_yes"], abs=1e-6)
    assert found["split"] == "none"


def test_summaries_of_edges_are_those_of_rebuilt_tables(tmp_path: Path) -> None:
    run = trained(tmp_path, SUMMARIES)
    graph = rebuilt(tmp_path, SUMMARIES, run)
    row = graph["customer"].node_id.tolist().index("new")
    nodes = new_nodes([NEW])
    features = encoded_features(nodes, run.newcomers.reader.read(nodes), "customer", run.schema.table_encoding())
    assert torch.equal(features.to_dense()[0], graph["customer"].x.to_dense()[row])
    alone = new_nodes([NEW | {"edges": {}}])
    count = graph.meta["features"]["customer"].index("paid.count")
    nothing = encoded_features(alone, [], "customer", run.schema.table_encoding())
    assert nothing.to_dense()[0, count] < features.to_dense()[0, count]


def test_an_unknown_value_is_a_note(tmp_path: Path) -> None:
    run = trained(tmp_path, "")
    sent: dict[str, Any] = NEW | {"edges": {"paid": ["s1"]}}
    with pytest.warns(UserWarning, match=r'1 of 1 rows have a value that the encoding does not know, such as "FI"'):
        run.predict_new([sent | {"features": sent["features"] | {"country": "FI"}}])


@pytest.mark.parametrize(
    ("features", "edges", "message"),
    [
        ({"country": "NO", "income": 2.0}, {}, 'features of customer nodes lack the column "since"; null says'),
        ({"contry": "NO"}, {}, 'no column "contry"; did you mean "country"'),
        (
            {"country": "NO", "income": "much", "since": None},
            {},
            "column \"income\": expected a number, but got 'much'",
        ),
        ({"country": 4, "income": 1, "since": None}, {}, 'column "country": expected text, but got 4'),
        ({"country": True, "income": 1, "since": None}, {}, "not objects, true or false"),
        ([1.0, 2.0], {}, "features are the columns of the table: country, income, since"),
        (None, {"paid": ["s1"]}, 'edges of "paid" lack the column "how"'),
        (None, {"rev_paid card": ["s1"]}, 'no relation "rev_paid card" of customer nodes; valid names are: paid'),
        (None, {"paid card": ["s1"]}, 'no relation "paid card" of customer nodes; did you mean "paid"'),
        (None, {"paid": [{"node": "s1", "how": 1}, {"node": "s2", "how": "cash"}]}, "expected one type in all rows"),
    ],
)
def test_rows_that_do_not_fit_the_tables_are_refused(
    split_run: Result, features: Any, edges: dict[str, Any], message: str
) -> None:
    sent = {"id": "new", "features": NEW["features"] if features is None else features, "edges": edges}
    with pytest.raises(InputError, match=message):
        split_run.predict_new([sent])
