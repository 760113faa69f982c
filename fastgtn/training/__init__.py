"""What is run: configs, training, run folders, predictions."""

from fastgtn.training.config import Config
from fastgtn.training.fit import Result, fit
from fastgtn.training.load_run import Run, load_run
from fastgtn.training.loop import DivergedError
from fastgtn.training.runs import train

__all__ = ["Config", "DivergedError", "Result", "Run", "fit", "load_run", "train"]
