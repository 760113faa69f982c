"""Where graphs come from: archives, importers, your own tables, made graphs; and the task on a graph."""

from fastgtn.data.archive import read, write
from fastgtn.data.catalog import available, checksum, data_folder, load
from fastgtn.data.hetero_batches import HeteroBatches, hetero_batches
from fastgtn.data.planted import make_planted
from fastgtn.data.task import NodeTask, Split

__all__ = [
    "HeteroBatches", "NodeTask", "Split", "available", "checksum", "data_folder", "hetero_batches", "load",
    "make_planted", "read", "write",
]  # fmt: skip
