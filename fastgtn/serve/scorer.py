"""What the server answers, computed with a loaded run."""

import importlib.metadata
import warnings
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from fastgtn.runs import Result
from fastgtn.runs.predictions import prediction_table
from fastgtn.runs.scoring.new.request import NewNode, new_nodes
from fastgtn.serve.batching import Row
from fastgtn.training.predict import logit_blocks

EMBEDDING = "embedding"  # the key of an answer


class Scorer:
    """A run, its graph and everything that is computed once."""

    def __init__(self, run: Result) -> None:
        self.run, self.there = run, run.own
        self.names = self.there.names
        if self.there.on_demand.mode == "rows":
            _ = self.there.representations  # cheap on this graph; an answer is then a look-up
        run.newcomers.prepare()
        self.rows([0])  # the first pass compiles kernels

    def rows(self, numbers: list[int]) -> list[Row]:
        """One row per node, with the columns of `fastgtn predict`, and its embedding."""
        there, nodes = self.there, torch.tensor(numbers, dtype=torch.int64)
        z = there.representations_of(nodes)
        logits = logit_blocks(there.model, z)
        table = prediction_table(self.run.schema, there.graph, logits, there.task, nodes=nodes, splits=there.splits)
        return _rows(table, z)

    def new_rows(self, nodes: Sequence[NewNode]) -> tuple[list[Row], list[str]]:
        """The same for nodes that are not in the graph, and notes on values that the encoding does not know."""
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", UserWarning)
            table, z = self.run.newcomers.scored(new_nodes(nodes))
        return _rows(table, z), [" ".join(str(note.message).split()) for note in notes if note.category is UserWarning]

    def facts(self) -> dict[str, Any]:
        """What /health tells about the run."""
        schema = self.run.schema
        return {
            "run": str(self.run.folder),
            "model": self.run.config.model.label,
            "target": schema.target,
            "kind": schema.kind,
            "classes": list(schema.class_names),
            "nodes": int(self.there.graph[schema.target].num_nodes or 0),
            "version": importlib.metadata.version("fastgtn"),
        }


def _rows(table: pa.Table, z: Tensor) -> list[Row]:
    return [{**row, EMBEDDING: each} for row, each in zip(table.to_pylist(), z, strict=True)]
