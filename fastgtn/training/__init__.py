"""Train one model on one graph with one seed."""

from fastgtn.training.fit import Trained, fit_inputs
from fastgtn.training.loop import DivergedError
from fastgtn.training.prepare.screened import screen_metapaths

__all__ = ["DivergedError", "Trained", "fit_inputs", "screen_metapaths"]
