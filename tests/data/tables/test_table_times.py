"""Times and moments of tables: read in one unit, kept by the edges, and respected by splits and summaries."""

import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn import InputError
from fastgtn.config import Config
from fastgtn.data import NodeTask, archive, split_by_time, tables
from fastgtn.data.tables.times import rounded_down
from fastgtn.training.build import Inputs

USERS = """id,born,decided,label
1,2024-01-01,2024-03-10,x
2,2024-01-05,2024-04-20,y
3,2024-02-01,2024-05-02,x
4,2024-02-01,2024-05-30,y
5,2024-02-02,,
"""
PAID = """user,shop,amount,day
1,a,10,2024-02-01
1,a,20,2024-03-09
1,b,90,2024-03-10
2,b,5,2024-04-01
2,b,6,2024-06-01
3,a,7,
4,a,8,2024-05-29
5,a,50,2024-08-01
"""
GRAPH = """
[graph]
reverse = true
[nodes.user]
table = "users.csv"
id = "id"
{user}
[nodes.shop]
table = "shops.csv"
id = "id"
[relations.paid]
table = "paid.csv"
source = {{ type = "user", column = "user" }}
target = {{ type = "shop", column = "shop" }}
{paid}
[task]
target = "user"
label = "label"
split = {split}
{task}
"""
BY_TIME = '{ train = 0.5, val = 0.25, test = 0.25, by = "time" }'


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def build(
    folder: Path,
    *,
    user: str = "",
    paid: str = 'time = "day"',
    task: str = 'as_of = "decided"',
    split: str = BY_TIME,
    rows: str = PAID,
    users: str = USERS,
    like: tables.Encoding | None = None,
) -> tuple[HeteroData, NodeTask | None]:
    (folder / "users.csv").write_text(users)
    (folder / "shops.csv").write_text("id\na\nb\n")
    (folder / "paid.csv").write_text(rows)
    (folder / "graph.toml").write_text(GRAPH.format(user=user, paid=paid, task=task, split=split))
    return tables.build(folder / "graph.toml", like=like)


def test_times_and_moments_come_from_columns(tmp_path: Path) -> None:
    graph, task = build(tmp_path, user='time = "born"')
    assert task is not None
    assert graph["user"].time[0] == seconds("2024-01-01")
    assert graph["user"].as_of[:2].tolist() == [seconds("2024-03-10"), seconds("2024-04-20")]
    assert math.isnan(graph["user"].as_of[4])
    paid, back = graph["user", "paid", "shop"], graph["shop", "rev_paid", "user"]
    assert paid.edge_index.tolist() == [[0, 0, 1, 2, 3, 4], [0, 1, 1, 0, 0, 0]]
    first = [seconds(f"2024-{day}") for day in ("02-01", "03-10", "04-01")]
    assert paid.time[:3].tolist() == first  # of rows that repeat a pair, the earliest
    assert math.isnan(paid.time[3])
    assert torch.equal(paid.time.nan_to_num(), back.time.nan_to_num())
    archive.write(tmp_path / "g.npz", graph, task)
    again, _ = archive.read(tmp_path / "g.npz")
    assert torch.equal(again["user", "paid", "shop"].time.nan_to_num(), paid.time.nan_to_num())
    inputs = Inputs.of(graph, Config.of({}))
    assert inputs.moments is not None
    assert inputs.moments[4] == math.inf


def test_the_latest_nodes_are_the_test(tmp_path: Path) -> None:
    _, task = build(tmp_path)
    assert task is not None
    assert (task.train.nodes.tolist(), task.val.nodes.tolist(), task.test_nodes.tolist()) == ([0, 1], [2], [3])
    _, born = build(tmp_path, user='time = "born"', task="", split='{ train = 0.5, val = 0, test = 0.5, by = "time" }')
    assert born is not None
    assert born.test_nodes.tolist() == [2, 3]
    with pytest.raises(InputError, match="a split by time needs the moments of the nodes: give as_of, or time"):
        build(tmp_path, task="")


def test_nodes_of_one_time_stay_together() -> None:
    times, labelled = torch.tensor([3.0, 1.0, 2.0, 2.0, 2.0, 9.0, torch.nan]), [True] * 6 + [False]
    train, val, test = split_by_time(times, labelled, (0.4, 0.4, 0.2))
    assert (train.tolist(), val.tolist(), test.tolist()) == ([1], [0, 2, 3, 4], [5])
    train, val, test = split_by_time(times, labelled, (0.4, 0.0, 0.3))
    assert (train.tolist(), val.tolist(), test.tolist()) == ([1], [], [2, 3, 4])
    with pytest.raises(InputError, match="the 6 labelled nodes have only 1 different times: too few for a split"):
        split_by_time(torch.ones(6), [True] * 6, (0.5, 0.3, 0.2))
    with pytest.raises(InputError, match="1 labelled nodes have no time, so they cannot be split by time"):
        split_by_time(times, [True] * 7, (0.5, 0.3, 0.2))


def test_weights_of_different_times_are_added_only_when_both_are_past(tmp_path: Path) -> None:
    graph, _ = build(tmp_path, paid='time = "day"\nweight = "amount"')
    stack = Inputs.of(graph, Config.of({"graph": {"normalize": "none"}})).raw
    user, shop = stack.nodes_of("user").start, stack.nodes_of("shop").start
    weights = [float(stack.before(seconds(f"2024-{day}"))["paid"].to_dense()[shop, user]) for day in ("03-01", "03-10")]
    assert weights == [10, 30]
    merged, _ = build(tmp_path, paid='time = "day"\nweight = "amount"', task="", user='time = "born"')
    assert merged["user", "paid", "shop"].edge_weight[0] == 30
    assert merged["user", "paid", "shop"].time[0] == seconds("2024-02-01")


def test_features_of_edges_are_summarised_from_rows_before_the_moment(tmp_path: Path) -> None:
    paid = 'time = "day"\nfeatures = { amount = "number", day = "date" }'
    with pytest.warns(UserWarning, match=r'features of "shop" are summarised from 3 of 8 rows'):
        graph, task = build(tmp_path, paid=paid)
    assert task is not None
    sums = column(graph, "user", "paid.amount.sum")
    assert sums == pytest.approx([30, 5, 7, 8, 50], abs=1e-3)
    assert column(graph, "user", "paid.day.days_since_last")[0] == pytest.approx(1, abs=1e-3)
    assert column(graph, "shop", "paid.amount.sum") == pytest.approx([37, 0], abs=1e-3)
    # its features are of its moment, so a node speaks to later moments only; one without a moment knows everything
    assert graph["user"].time[0] == math.nextafter(seconds("2024-03-10"), 0)
    assert graph["user"].time[4] == seconds("2024-08-01")


def test_later_rows_change_no_feature_that_a_target_can_see(tmp_path: Path) -> None:
    """Whatever happens from the moment of a target on, its own features and those it hears of stay the same."""
    paid = 'time = "day"\nfeatures = ["amount"]'
    more = PAID + "2,a,1000,2024-04-20\n1,b,1000,2024-04-21\n3,b,1000,2024-06-01\n"
    with pytest.warns(UserWarning, match="of 8 rows"):
        one, _ = build(tmp_path, paid=paid)
    encoding = tables.Encoding.from_json(one.encoding, where="g")
    with pytest.warns(UserWarning, match="of 11 rows"):
        other, _ = build(tmp_path, paid=paid, rows=more, like=encoding)
    assert torch.equal(one["user"].x, other["user"].x)
    assert torch.equal(one["shop"].x, other["shop"].x)


def test_a_date_for_all_hides_later_rows_everywhere(tmp_path: Path) -> None:
    for date in ("2024-04-01", "2024-04-01T00:00:00"):
        graph, _ = build(tmp_path, paid='time = "day"\nfeatures = ["amount"]', task=f"as_of = {date}", split=RANDOM)
        assert graph["user"].as_of.tolist() == [seconds("2024-04-01")] * 5
        assert column(graph, "shop", "paid.amount.sum") == pytest.approx([37, 90], abs=1e-3)
        inputs = Inputs.of(graph, Config.of({}))
        assert inputs.moments is None
        assert inputs.raw.num_edges == 2 * 3


RANDOM = "{ train = 0.5, val = 0.25, test = 0.25 }"


def test_new_rows_may_have_no_moment(tmp_path: Path) -> None:
    graph, _ = build(tmp_path)
    encoding = tables.Encoding.from_json(graph.encoding, where="g")
    new, task = build(tmp_path, users="id,born\n1,2024-01-01\n2,\n3,\n4,\n5,\n", like=encoding)
    assert task is None
    assert bool(new["user"].as_of.isnan().all())


def test_moments_are_rounded_down(tmp_path: Path) -> None:
    graph, _ = build(tmp_path, task='as_of = { column = "decided", round = "month" }')
    assert graph["user"].as_of[:4].tolist() == [seconds(f"2024-{m}-01") for m in ("03", "04", "05", "05")]
    late = np.array([seconds("2024-05-31 23:59:59"), seconds("1969-12-31 12:00"), math.nan])
    days = rounded_down(late, "day")
    assert days[:2].tolist() == [seconds("2024-05-31"), seconds("1969-12-31")]
    assert math.isnan(days[2])
    assert rounded_down(late, "year")[0] == seconds("2024-01-01")
    assert rounded_down(late, "exact") is late


def test_other_formats_and_numbers(tmp_path: Path) -> None:
    rows, users = (text.replace("2024-", "2024").replace("-", "") for text in (PAID, USERS))
    graph, _ = build(
        tmp_path,
        rows=rows,
        users=users,
        paid='time = { column = "day", format = "%Y%m%d" }',
        task='as_of = { column = "decided", format = "%Y%m%d" }',
    )
    assert graph["user"].as_of[0] == seconds("2024-03-10")
    numbers, _ = build(tmp_path, rows=rows, users=users, task="as_of = 20240401", split=RANDOM)
    assert numbers["user"].as_of[0] == 20240401
    assert Inputs.of(numbers, Config.of({})).raw.num_edges == 2 * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "as_of = 7", "split": RANDOM}, r'column "day" holds dates, but \[task\]: as_of = 7'),
        ({"users": USERS.replace("2024-03-10", ""), "split": RANDOM}, r"\[task\]: 1 labelled rows have no as_of"),
        ({"task": 'as_of = { column = "id", round = "day" }'}, 'rounded to the day, but "id" holds numbers, not dates'),
        ({"task": 'as_of = { column = "decided", round = "week" }'}, r"\[task.as_of.round\]: Input should be 'exact'"),
        ({"paid": 'time = "when"'}, r'\[relations.paid\]: .*"when"'),
        (
            {"paid": 'time = "day"\nfeatures = ["amount"]', "rows": PAID.replace("2024-02-01", "soon")},
            r'time column "day" holds text, not numbers',
        ),
    ],
)
def test_times_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(tmp_path, **change)  # type: ignore[arg-type]


def test_features_without_a_time_are_warned_about(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"\[relations.paid\]: features are summarised without a time column"):
        build(tmp_path, paid='features = ["amount"]')


def column(graph: HeteroData, node_type: str, name: str) -> list[float]:
    """A summary as it was before it was standardised."""
    start = 0
    for each in tables.Encoding.from_json(graph.encoding, where="g").nodes[node_type].columns:
        if each.column == name:
            values = graph[node_type].x.to_dense()[:, start].double() * each.encoder.deviation + each.encoder.mean
            return values.tolist()
        start += len(each.names)
    raise AssertionError(name)
