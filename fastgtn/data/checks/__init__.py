"""Checks that look for mistakes in a graph."""

from fastgtn.data.checks.graph import check_archive, check_graph

__all__ = ["check_archive", "check_graph"]
