"""Sources of graphs (archives, importers, your own tables, generators), and the task on a graph."""

from typing import TYPE_CHECKING

from fastgtn.lazy import lazy_names

if TYPE_CHECKING:
    from fastgtn.data.archive import read, write
    from fastgtn.data.catalog import available, checksum, data_folder, load
    from fastgtn.data.pyg.batches import HeteroBatches, hetero_batches
    from fastgtn.data.pyg.edge_attributes import with_edge_features
    from fastgtn.data.pyg.graph import as_hetero
    from fastgtn.data.splits import split_by_time
    from fastgtn.data.synthetic.planted import make_planted
    from fastgtn.data.synthetic.random_schema import make_random_schema
    from fastgtn.data.task import NodeTask, Split

__all__ = [
    "HeteroBatches",
    "NodeTask",
    "Split",
    "as_hetero",
    "available",
    "checksum",
    "data_folder",
    "hetero_batches",
    "load",
    "make_planted",
    "make_random_schema",
    "read",
    "split_by_time",
    "with_edge_features",
    "write",
]

__getattr__, __dir__ = lazy_names(__name__, __file__)
