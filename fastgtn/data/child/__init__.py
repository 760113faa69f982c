"""Child processes with limits, for readers that a damaged or hostile file may crash."""

from fastgtn.data.child.process import Child

__all__ = ["Child"]
