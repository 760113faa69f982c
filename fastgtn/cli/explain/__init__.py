"""`fastgtn explain`: what a run has learned, and why one node got its prediction."""

from fastgtn.cli.explain.command import explain_command

__all__ = ["explain_command"]
