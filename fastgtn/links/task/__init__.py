"""The task of predicting links: its pairs, its splits, and how an archive stores it."""

from fastgtn.links.task.pairs import Pairs
from fastgtn.links.task.splits import SplitBy
from fastgtn.links.task.stored import task_of_archive
from fastgtn.links.task.task import LinkTask, Stage

__all__ = ["LinkTask", "Pairs", "SplitBy", "Stage", "task_of_archive"]
