"""Graphs of random schemas whose labels follow one or two planted meta-paths."""

from fastgtn.data.synthetic.random_schema.graph import make_random_schema

__all__ = ["make_random_schema"]
