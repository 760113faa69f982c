"""Single nodes are scored from what they depend on, with the values of a prediction of all nodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from graphs import random_stack
from quick_config import quick
from timed_graphs import verdicts
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.relations import operator
from fastgtn.runs import Result

Academic = tuple[HeteroData, NodeTask]
REQUESTS = ([5], [7, 3, 7], [*range(0, 90, 4)], [])
SECTIONS: list[dict[str, Any]] = [
    {},
    {"model": {"name": "gtn"}},
    {"graph": {"normalize": "symmetric"}},
    {"model": {"num_layers": 2}},
    {"model": {"non_local": {"enabled": True}}},
    {"model": {"name": "gcn"}},
    {"model": {"name": "han"}},
    {"model": {"name": "mlp"}},
    {"batch": {"size": 16, "eval": "batches"}},
]


@pytest.mark.parametrize("sections", SECTIONS, ids=str)
def test_some_nodes_have_the_bits_of_a_prediction_of_all(academic: Academic, sections: dict[str, Any]) -> None:
    result = fastgtn.fit(*academic, quick(**sections, fit={"epochs": 2}))
    whole = result.logits
    for nodes in REQUESTS:
        there = replace(result.own, known=None)
        wanted = torch.tensor(nodes, dtype=torch.int64)
        assert torch.equal(torch.cat(list(there.logit_blocks(wanted))), whole[wanted])


def test_only_what_the_nodes_depend_on_is_read(run: Result) -> None:
    run.predict(nodes=["a-05"])
    assert "representations" not in run.own.__dict__
    stack, read = run.inputs.stack, run.own.on_demand.read
    assert 0 < read < run.model.backbone.num_hops * stack.num_edges / 4


def test_after_as_many_values_as_one_pass_reads_all_nodes_are_known(run: Result) -> None:
    for start in range(0, 90, 15):
        run.predict(nodes=[*range(start, start + 15)])
    assert "representations" in run.own.__dict__
    assert run.predict(nodes=[4]).equals(run.predict().slice(4, 1))


def test_nodes_are_named_by_id_or_name_and_keep_their_order(run: Result) -> None:
    table = run.predict(nodes=["a-09", "Ada 3", "a-09"])
    assert table["node"].to_pylist() == ["a-09", "a-03", "a-09"]
    assert table.equals(run.predict().take([9, 3, 9]))
    with pytest.raises(InputError, match='2 author nodes have the name "Ada 1": give the id'):
        run.predict(nodes=["Ada 1"])
    with pytest.raises(InputError, match='no author node "a-90"; use an id of the graph, such as "a-00"'):
        run.predict(nodes=["a-01", "a-90"])
    with pytest.raises(InputError, match=r'2 of 3 ids are not those of author nodes: "x", "y"$'):
        run.predict(nodes=["x", "a-01", "y"])


def test_a_few_rows_of_a_large_graph_are_planned_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, rows = random_stack(seed=4), torch.tensor([3, 0])
    monkeypatch.setattr(operator, "FEW", 0)
    few, read = stack.operator.select_rows(rows)
    monkeypatch.setattr(operator, "FEW", 10**9)
    many, also_read = stack.operator.select_rows(rows)
    assert torch.equal(read, also_read)
    for mine, other in zip(few.edges, many.edges, strict=True):
        assert torch.equal(mine.segments.col, other.segments.col)
        assert mine.segments.col.dtype == other.segments.col.dtype


def test_embeddings_are_what_the_head_reads(run: Result) -> None:
    found = run.embeddings(nodes=["a-09", "a-03"])
    assert found.nodes.tolist() == ["a-09", "a-03"]
    assert torch.equal(found.values, run.representations[[9, 3]])
    assert torch.equal(run.own.model.classify(found.values), run.logits[[9, 3]])
    assert len(run.embeddings()) == 90


def test_embeddings_are_written_with_ids(run: Result, tmp_path: Path) -> None:
    found = run.embeddings()
    stored = np.load(found.save(tmp_path / "e.npz"))
    assert stored["node"].tolist() == found.nodes.tolist()
    assert np.array_equal(stored["embedding"], found.values.numpy())
    table = pyarrow.parquet.read_table(found.save(tmp_path / "e.parquet"))
    assert table["node"].to_pylist() == found.nodes.tolist()
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), found.values.numpy())
    with pytest.raises(InputError, match=r"as .npz or .parquet, but the name is e.csv"):
        found.save(tmp_path / "e.csv")


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def test_the_command_scores_the_ids_of_a_file(run: Result, run_folder: Path, tmp_path: Path) -> None:
    whole, expected = run.predict(), ["a-07", "a-02"]
    (tmp_path / "ids.csv").write_text("node,note\na-07,new\na-02,\n")
    (tmp_path / "one.csv").write_text("customer\na-07\nAda 2\n")
    (tmp_path / "ids.txt").write_text("a-07\n\na-02\n")
    pyarrow.parquet.write_table(pa.table({"node": expected}), tmp_path / "ids.parquet")
    for number, name in enumerate(["ids.csv", "one.csv", "ids.txt", "ids.parquet"]):
        out, arrays = tmp_path / f"{number}.parquet", tmp_path / f"{number}.npz"
        answer = command(run_folder, "--nodes", tmp_path / name, "--out", out, "--embeddings", arrays)
        assert answer.exit_code == 0, answer.output
        assert answer.stdout.count("2 nodes of type author") == 2
        assert pyarrow.parquet.read_table(out).equals(whole.take([7, 2]))
        assert np.load(arrays)["node"].tolist() == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a-01\na-02\n", 'the first line, "a-01", is an id: write the line "node" above it'),
        ("id,name\n1,2\n", 'has the columns id, name: name the column of ids "node"'),
        ("node\n", "contains no ids of nodes"),
        ("node,x\na-01,1\n,2\n", "1 of 2 ids are missing"),
        ("node\na-1\na-2\n", '2 of 2 ids are not those of author nodes: "a-1", "a-2"'),
        ("node\na,b,c\n", "cannot be read as a table"),
        ("", "cannot be read as a table"),
    ],
)
def test_a_file_of_ids_that_cannot_be_used_is_refused(
    run_folder: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "ids.csv").write_text(content)
    answer = command(run_folder, "--nodes", tmp_path / "ids.csv", "--out", tmp_path / "p.csv")
    assert isinstance(answer.exception, InputError)
    assert message in str(answer.exception)


def test_the_command_refuses_what_it_cannot_write_or_read(run_folder: Path, tmp_path: Path) -> None:
    mistakes = {
        (run_folder,): "give --out for a table of predictions, or --embeddings",
        (run_folder, "--embeddings", tmp_path / "e.csv"): "embeddings are written as .npz or .parquet",
        (run_folder, "--out", tmp_path / "p.csv", "--nodes", tmp_path / "no.csv"): "no.csv does not exist",
        (run_folder, "--out", tmp_path / "p.csv", "--nodes", tmp_path / "no.doc"): "read from .csv, .parquet, .txt",
    }
    for arguments, message in mistakes.items():
        answer = command(*arguments)
        assert isinstance(answer.exception, InputError)
        assert message in str(answer.exception)


def test_nodes_with_moments_are_scored_at_theirs() -> None:
    graph, task = verdicts(customers=60)
    result = fastgtn.fit(graph, task, quick(fit={"epochs": 2}))
    there, nodes = replace(result.own, known=None), torch.tensor([3, 58, 20])
    torch.testing.assert_close(there.on_demand.representations(nodes), result.representations[nodes], atol=1e-6, rtol=0)


def test_a_new_node_sees_everything_where_others_have_moments() -> None:
    graph, task = verdicts(customers=60)
    run = fastgtn.fit(graph, task, quick(fit={"epochs": 2}))
    wider, features = graph.clone(), [0.5, -1.0, 2.0]
    wider["customer"].x = torch.cat([graph["customer"].x, torch.tensor([features])])
    wider["customer"].as_of = torch.cat([graph["customer"].as_of, torch.tensor([torch.nan])])
    sent: dict[str, Any] = {"id": "n", "features": features, "edges": {"visits": [4, 7]}}
    for edge_type, store in wider.edge_items():
        if "visits" in edge_type[1]:
            new = torch.tensor([[60, 60], [4, 7]])
            store.edge_index = torch.cat([store.edge_index, new if edge_type[0] == "customer" else new.flip(0)], 1)
            store.time = torch.cat([store.time, torch.tensor([torch.nan] * 2, dtype=store.time.dtype)])
    (found,) = run.predict_new([sent]).to_pylist()
    (expected,) = run.predict(wider, nodes=[60]).to_pylist()
    assert found["p_0"] == pytest.approx(expected["p_0"], abs=1e-6)
