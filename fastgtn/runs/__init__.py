"""Results of training, in memory and in run folders."""

from fastgtn.runs.fit import fit
from fastgtn.runs.load import load_run
from fastgtn.runs.result import Result
from fastgtn.runs.train import train

__all__ = ["Result", "fit", "load_run", "train"]
