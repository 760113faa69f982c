"""Test which meta-paths are informative about the labels, in closed form and before any training."""

from fastgtn.screening.options import ScreenOptions
from fastgtn.screening.result import ScreenedPath, Screening
from fastgtn.screening.screen import screen

__all__ = ["ScreenOptions", "ScreenedPath", "Screening", "screen"]
