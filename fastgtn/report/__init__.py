"""One self-contained page about one run or several: tables first, then drawings of them."""

from fastgtn.report.gather import report_tables
from fastgtn.report.page import render_page, write_report
from fastgtn.report.tables import RunTables

__all__ = ["RunTables", "render_page", "report_tables", "write_report"]
