"""Graphs with the shape of the Open Academic Graph, of any size."""

from fastgtn.data.synthetic.oag.graph import NUM_STEPS, RELATIONS, make_oag

__all__ = ["NUM_STEPS", "RELATIONS", "make_oag"]
