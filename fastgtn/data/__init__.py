"""Where graphs come from: archives, importers, your own tables, planted graphs; and the task on a graph."""

from fastgtn.data.archive import read, write
from fastgtn.data.catalog import available, checksum, data_folder, load
from fastgtn.data.planted import make_planted
from fastgtn.data.task import NodeTask, Split

__all__ = ["NodeTask", "Split", "available", "checksum", "data_folder", "load", "make_planted", "read", "write"]
