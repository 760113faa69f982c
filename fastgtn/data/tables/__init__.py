"""Your own CSV, Parquet and SQL tables as a graph."""

from fastgtn.data.tables.build import build, num_steps
from fastgtn.data.tables.encoding import Encoding

__all__ = ["Encoding", "build", "num_steps"]
