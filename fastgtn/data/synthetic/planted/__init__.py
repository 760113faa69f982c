"""Graphs whose labels follow one meta-path, so that the right answer is known."""

from fastgtn.data.synthetic.planted.graph import make_planted

__all__ = ["make_planted"]
