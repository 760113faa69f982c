"""Archives and run folders that version 0.1.0 wrote still load, and mean the same."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import fastgtn
from fastgtn.data import archive

OLD = Path(__file__).parent / "fixtures" / "version-0.1.0"


@pytest.mark.parametrize(("name", "authors", "train"), [("graph.npz", 60, 18), ("folder", 30, 9)])
def test_old_archives_load(name: str, authors: int, train: int) -> None:
    graph, task = archive.read(OLD / name)
    assert task is not None
    assert graph["author"].num_nodes == authors
    assert len(task.train) == train
    assert task.class_names == ("topic 0", "topic 1", "topic 2")


@pytest.mark.parametrize("model", ["fast_gtn", "gtn", "han"])
def test_old_runs_predict_what_they_predicted(model: str) -> None:
    run = fastgtn.load_run(OLD / f"run-{model}")
    graph, task = archive.read(OLD / "graph.npz")
    before = pq.read_table(OLD / f"run-{model}" / "seed-0" / "predictions.parquet")
    now = run.predict(graph, task=task)
    assert now.column_names == before.column_names
    for name in before.column_names:
        old, new = before[name].to_pylist(), now[name].to_pylist()
        if before.schema.field(name).type in ("float", "double"):
            np.testing.assert_allclose(new, old, atol=1e-6)
        else:
            assert new == old, name
