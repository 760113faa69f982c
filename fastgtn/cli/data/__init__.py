"""The commands below `fastgtn data`."""

from fastgtn.cli.data.commands import app

__all__ = ["app"]
