"""One self-contained page about one run or several: tables first, then drawings of them."""

from fastgtn.insight.report.gather import gather
from fastgtn.insight.report.page import page, write_report
from fastgtn.insight.report.tables import RunTables

__all__ = ["RunTables", "gather", "page", "write_report"]
