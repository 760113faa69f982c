"""A trained run predicts on graphs of its schema, seen or not, and refuses others by naming the difference."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.errors import InputError
from fastgtn.runs import Result, train
from fastgtn.runs.predictions import prediction_table, write_table
from fastgtn.runs.schema import Schema, moved_embeddings
from fastgtn.training.build import Inputs

Academic = tuple[HeteroData, NodeTask]


@pytest.fixture
def run(graph_file: Path, tmp_path: Path) -> Result:
    train(quick(graph_file), out=tmp_path / "run")
    return fastgtn.load_run(tmp_path / "run")


def unfeatured(academic: Academic) -> Academic:
    """The same graph, its venues and terms without features, and with ids of the user's own."""
    graph = academic[0].clone()
    graph.shared_features = False
    for node_type in ("venue", "term"):
        del graph[node_type].x
        graph[node_type].node_id = np.array([f"{node_type}-{n}" for n in range(graph[node_type].num_nodes)])
    return graph, academic[1]


def test_evaluating_repeats_the_stored_scores(run: Result) -> None:
    for split in ("val", "test"):
        assert run.evaluate(split) == pytest.approx(run.metrics[split])
    with pytest.raises(InputError, match='no split "tset"; did you mean "test"'):
        run.evaluate("tset")


def test_an_unseen_graph_of_other_counts_and_another_order_of_types_is_predicted(run: Result) -> None:
    graph, task = make_planted("APA", authors=150, papers=100, venues=9, terms=20, features=8, seed=7)
    shuffled = HeteroData()
    shuffled.shared_features = True
    for kind in (*reversed(graph.node_types), *reversed(graph.edge_types)):
        for key, value in graph[kind].items():
            shuffled[kind][key] = value
    straight, turned = run.predict(graph, task=task), run.predict(shuffled, task=task)
    assert straight.num_rows == 150
    assert straight.equals(turned)
    assert set(run.evaluate(graph=graph, task=task)) >= {"accuracy", "micro_f1", "macro_f1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("node type", "schema of the graph differs .*node type not expected: city"),
        ("relation", "schema of the graph differs .*relation missing: term-TP-paper"),
        ("width", '"shared" has 9 features instead of 8 features'),
    ],
)
def test_another_schema_is_refused_with_the_difference(
    run: Result, academic: Academic, change: str, message: str
) -> None:
    graph = academic[0].clone()
    if change == "node type":
        graph["city"].num_nodes = 3
    elif change == "relation":
        del graph["term", "TP", "paper"]
    else:
        for node_type in graph.node_types:
            graph[node_type].x = torch.ones(graph[node_type].num_nodes, 9)
    with pytest.raises(InputError, match=message):
        run.predict(graph)


def test_features_that_are_missing_are_part_of_the_schema(tmp_path: Path, academic: Academic) -> None:
    archive.write(tmp_path / "bare.npz", *unfeatured(academic))
    train(quick(tmp_path / "bare.npz"), out=tmp_path / "run")
    graph = unfeatured(academic)[0]
    del graph["paper"].x
    with pytest.raises(InputError, match='"paper" has no features instead of 8 features'):
        fastgtn.load_run(tmp_path / "run").predict(graph)


def test_known_nodes_keep_their_embedding_and_new_ones_get_the_mean(tmp_path: Path, academic: Academic) -> None:
    graph, task = unfeatured(academic)
    archive.write(tmp_path / "bare.npz", graph, task)
    train(quick(tmp_path / "bare.npz"), out=tmp_path / "run")
    run = fastgtn.load_run(tmp_path / "run")
    assert run.evaluate(graph=graph, task=task) == pytest.approx(run.test)
    venues = graph["venue"].num_nodes
    graph["venue"].num_nodes = venues + 1
    graph["venue"].node_id = np.array(["new", *graph["venue"].node_id])
    for edge_type in graph.edge_types:
        for end, node_type in ((0, edge_type[0]), (1, edge_type[2])):
            graph[edge_type].edge_index = graph[edge_type].edge_index.clone()
            graph[edge_type].edge_index[end] += node_type == "venue"
    with pytest.warns(UserWarning, match='1 of 7 nodes of type "venue" were not seen in training'):
        table = run.predict(graph, task=task)
    # the new venue has no edges, so nobody's prediction changes
    before = run.predict(unfeatured(academic)[0], task=task)
    for name in before.column_names:
        if name.startswith("p_"):
            assert table[name].to_numpy() == pytest.approx(before[name].to_numpy(), abs=1e-6)


def test_embeddings_move_by_id() -> None:
    table = torch.tensor([[1.0], [3.0]])
    moved, new = moved_embeddings(table, ["a", "b"], ["b", "x", "a"])
    assert (moved.flatten().tolist(), new) == ([3.0, 2.0, 1.0], 1)


def test_scores_of_other_classes_are_not_compared(run: Result) -> None:
    other = make_planted("APA", authors=90, papers=120, venues=6, terms=12, classes=2, seed=1)[1]
    with pytest.raises(InputError, match="so it cannot be scored"):
        run.evaluate(graph=run.graph, task=other)


def test_the_best_seed_on_validation_is_opened_unless_one_is_named(graph_file: Path, tmp_path: Path) -> None:
    summary = train(quick(graph_file, fit={"runs": 3}), out=tmp_path / "run")
    best = max(summary["runs"], key=lambda r: (r["val"]["micro_f1"], -r["seed"]))["seed"]
    assert fastgtn.load_run(tmp_path / "run").seed == best
    assert fastgtn.load_run(tmp_path / "run", seed=2).seed == 2
    assert fastgtn.load_run(tmp_path / "run" / "seed-1").seed == 1
    with pytest.raises(InputError, match="has no finished seed 9; the finished seeds are 0, 1, 2"):
        fastgtn.load_run(tmp_path / "run", seed=9)


def test_a_corrupted_run_is_one_clear_line(run: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the run folder .* does not exist: give the folder"):
        fastgtn.load_run(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="it contains none of the files of a run"):
        fastgtn.load_run(tmp_path / "empty")
    weights = run.folder / "model.safetensors"
    content = weights.read_bytes()
    for broken in (content[:100], b"", content[:8] + b"[" + content[9:], content.replace(b"node_types", b"mode_types")):
        weights.write_bytes(broken)
        with pytest.raises(InputError, match=r"model\.safetensors is missing or damaged"):
            fastgtn.load_run(run.folder)
    weights.write_bytes(content)
    (run.folder / "result.json").write_text("[]")
    with pytest.raises(InputError, match=r"result\.json is missing or damaged"):
        fastgtn.load_run(run.folder)


def schema_of(academic: Academic, **changes: Any) -> Schema:
    graph, task = academic
    values = Schema.of(graph, Inputs.of(graph, quick()), task).to_json()
    return Schema.from_json(values | changes)


def test_several_labels_are_a_list_and_in_csv_one_text(academic: Academic, tmp_path: Path) -> None:
    schema = schema_of(academic, kind="multi")
    logits = torch.full((90, 3), -1.0)
    logits[0] = torch.tensor([1.0, -1.0, 1.0])
    table = prediction_table(schema, academic[0], logits, None)
    assert table["predicted"].to_pylist()[:2] == [["topic 0", "topic 2"], []]
    assert set(table["split"].to_pylist()) == {"none"}
    write_table(table, tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith('0,"none","topic 0|topic 2",')
    with pytest.raises(InputError, match=r"written as \.parquet or \.csv"):
        write_table(table, tmp_path / "p.xlsx")


def test_of_very_many_classes_only_the_most_probable_are_written(academic: Academic) -> None:
    schema = schema_of(academic, kind="ranking", class_names=[f"venue {c}" for c in range(500)])
    logits = torch.zeros(90, 500)
    logits[:, 41] = 9.0
    table: pa.Table = prediction_table(schema, academic[0], logits, None)
    assert table.num_columns == 3 + 20
    assert set(table["class_1"].to_pylist()) == set(table["predicted"].to_pylist()) == {"venue 41"}
