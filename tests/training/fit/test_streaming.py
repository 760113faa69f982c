"""Inference and scoring in bounded memory: whatever the way, the same numbers."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet
from quick_config import quick
from torch import Tensor
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config.batch_options import BatchOptions
from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.runs import train
from fastgtn.runs.predictions import prediction_table, prediction_tables, write_table
from fastgtn.runs.schema import Schema
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.predict import Inference, chosen_mode, logit_blocks

Academic = tuple[HeteroData, NodeTask]


def random_task(kind: str, num_classes: int = 5, num_nodes: int = 90) -> tuple[NodeTask, Tensor]:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(num_nodes, num_classes, generator=draw)
    labels = torch.randint(num_classes, (num_nodes,), generator=draw)
    if kind == "multi":
        labels = torch.randint(2, (num_nodes, num_classes), generator=draw)
    nodes = torch.randperm(num_nodes, generator=draw)
    task = NodeTask.from_labels("author", kind, labels, train=nodes[:30], val=nodes[30:50], test=nodes[50:])  # type: ignore[arg-type]
    return task, logits


@pytest.mark.parametrize("kind", ["single", "multi", "ranking"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_scores_of_blocks_are_the_scores_of_all_rows(kind: str, rows: int) -> None:
    task, logits = random_task(kind)
    test, val = logits[task.test_nodes], logits[task.val.nodes]
    assert task.score_test(iter(test.split(rows))) == task.score_test(test)
    assert task.metrics(iter(val.split(rows)), task.val.labels) == task.metrics(val, task.val.labels)


def test_blocks_of_another_length_are_refused() -> None:
    task, logits = random_task("single")
    with pytest.raises(InputError, match="the blocks of logits have 39 rows for 40 labels"):
        task.score_test(iter(logits[task.test_nodes][:-1].split(10)))
    with pytest.raises(InputError, match="logits have shape"):
        task.score_test(iter([logits]))


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_losses_of_groups_of_nodes_average_to_the_loss_of_all(kind: str) -> None:
    task, logits = random_task(kind)
    for one in (task, task.balanced()):
        labels, rows = one.train.labels, logits[one.train.nodes]
        parts = [slice(0, 4), slice(4, 30)]
        weights = [one.loss_weight(labels[part]) for part in parts]
        mean = sum(float(one.loss(rows[part], labels[part])) * w for part, w in zip(parts, weights, strict=True))
        assert mean / sum(weights) == pytest.approx(float(one.loss(rows, labels)))


@pytest.mark.parametrize("name", ["gtn", "fast_gtn", "mlp"])
def test_every_exact_way_gives_the_same_logits(academic: Academic, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, task = academic
    config = quick(model={"name": name})
    inputs = Inputs.of(graph, config)
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    rows = inputs.rows(task.target, task.test_nodes)
    expected = torch.cat(list(Inference(inputs, model, rows).logits(model)))
    assert Inference(inputs, model, rows).mode == "rows"
    monkeypatch.setattr("fastgtn.nn.inputs.encoders.ROWS_AT_ONCE", 50)
    monkeypatch.setattr("fastgtn.training.predict.LOGIT_BYTES", 100)
    for kept, budget, mode in ((0, 1e9, "all"), (0, 20_000, "blocks"), (0, 1, "blocks")):
        monkeypatch.setattr("fastgtn.training.predict.KEPT_BYTES", kept)
        inference = Inference(inputs, model, rows, budget=budget)
        assert inference.mode == mode
        blocks = list(inference.logits(model))
        assert all(len(block) <= 8 for block in blocks)
        torch.testing.assert_close(torch.cat(blocks), expected, rtol=1e-4, atol=1e-5)


def test_sampled_inference_with_all_neighbours_is_exact_and_otherwise_repeatable(academic: Academic) -> None:
    graph, task = academic
    config = quick()
    inputs = Inputs.of(graph, config)
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    rows = inputs.rows(task.target, task.test_nodes)
    exact = torch.cat(list(Inference(inputs, model, rows).logits(model)))
    everything, some = (BatchOptions(size=8, eval="batches", fanouts=f) for f in (("all",), (3, 2)))
    torch.testing.assert_close(torch.cat(list(Inference(inputs, model, rows, everything).logits(model))), exact)
    one, other = (torch.cat(list(Inference(inputs, model, rows, some).logits(model))) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.allclose(one, exact)


def test_the_way_follows_the_size_and_what_was_asked(academic: Academic) -> None:
    graph, task = academic
    config = quick(model={"non_local": {"enabled": True}})
    inputs = Inputs.of(graph, config)
    model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    assert chosen_mode(inputs, model, BatchOptions(), 1e9) == "rows"
    assert chosen_mode(inputs, model, BatchOptions(size=4), 1e9) == "rows"
    assert chosen_mode(inputs, model, BatchOptions(size=4), 1) == "batches"
    assert chosen_mode(inputs, model, BatchOptions(size=4, eval="full"), 1) == "blocks"
    assert chosen_mode(inputs, model, BatchOptions(eval="batches"), 1e9) == "batches"


def test_features_are_multiplied_in_parts_only_without_gradients(
    academic: Academic, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = Inputs.of(academic[0], quick()).features
    linear = InputLinear(features.widths, features.embedded, 6)
    whole = linear(features)
    monkeypatch.setattr("fastgtn.nn.inputs.encoders.ROWS_AT_ONCE", 17)
    with torch.no_grad():
        torch.testing.assert_close(linear(features), whole)
    linear(features).sum().backward()
    assert linear.weights[0].grad is not None


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_predictions_of_many_classes_are_written_in_pieces(academic: Academic, tmp_path: Path, suffix: str) -> None:
    graph, task = academic
    inputs = Inputs.of(graph, quick())
    names = tuple(f"venue {n}" for n in range(300))
    schema = replace(Schema.of(graph, inputs, task), kind="ranking", class_names=names)
    logits = torch.randn(90, 300, generator=torch.Generator().manual_seed(0))
    whole = prediction_table(schema, graph, logits, task)
    path = tmp_path / f"predictions.{suffix}"
    write_table(prediction_tables(schema, graph, logits.split(40), task), path)
    stored: pa.Table = parquet.read_table(path) if suffix == "parquet" else csv.read_csv(path)
    assert stored.num_rows == 90
    assert stored.column_names == whole.column_names
    assert stored["predicted"].to_pylist() == whole["predicted"].to_pylist() == stored["class_1"].to_pylist()
    assert stored["split"].to_pylist() == whole["split"].to_pylist()
    assert stored["p_10"].to_pylist() == pytest.approx(whole["p_10"].to_pylist())
    assert "p_11" not in stored.column_names


def test_a_ranking_task_goes_from_training_to_evaluation(academic: Academic, tmp_path: Path) -> None:
    graph, task = academic
    ranking = replace(task, kind="ranking")
    fastgtn.data.archive.write(tmp_path / "ranked.npz", graph, ranking)
    config = quick(tmp_path / "ranked.npz", batch={"size": 16})
    summary = train(config, out=tmp_path / "run")
    assert {"ndcg", "mrr"} <= set(summary["test"])
    run = fastgtn.load_run(tmp_path / "run")
    assert run.evaluate(graph=graph, task=ranking) == run.test
    result = fastgtn.fit(graph, ranking, config)
    assert torch.equal(torch.cat(list(logit_blocks(result.model, result.representations))), result.logits)
