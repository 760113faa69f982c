"""One self-contained page about one run or several: tables first, then drawings of them."""

from fastgtn.insight.report.gather import report_tables
from fastgtn.insight.report.page import render_page, write_report
from fastgtn.insight.report.tables import RunTables

__all__ = ["RunTables", "render_page", "report_tables", "write_report"]
