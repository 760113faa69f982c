"""Output of the command line: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastgtn.lazy import lazy_names

if TYPE_CHECKING:
    from rich.table import Table

    from fastgtn.cli.console import stderr, stdout

__all__ = ["complain", "emit_json", "emit_table", "noted", "plain", "say", "stderr", "stdout"]

__getattr__, __dir__ = lazy_names(__name__, __file__)


def plain(text: str) -> str:
    """Show control codes in names from files as text, so that they cannot move the cursor or hide anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def emit_json(value: Any) -> None:
    """Print one JSON document for machines."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def emit_table(table: Table, *, folds: bool = False) -> None:
    """Print a table for people. Names are never cut: a row stays on one line, which the terminal may wrap.

    Args:
        folds: Fold long sentences into the width of the terminal instead.
    """
    from rich.measure import Measurement

    from fastgtn.cli.console import plain_object, stdout

    table = plain_object(table)
    if not folds:
        table.width = Measurement.get(stdout, stdout.options.update(max_width=1000), table).maximum
    stdout.print(table)


def say(label: str, text: str) -> None:
    """Print one aligned line of a result: a short label, then the fact."""
    from fastgtn.cli.console import stdout

    stdout.print(f"{label:<7} {text}", markup=False)


@contextmanager
def noted() -> Iterator[None]:
    """Print the warnings of a block as notes, one line each, on stderr."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        yield
    for note in notes:
        from fastgtn.cli.console import stderr

        stderr.print(f"note: {' '.join(str(note.message).split())}", markup=False)


def complain(message: str) -> None:
    """Print a user's mistake in one line on stderr."""
    from fastgtn.cli.console import stderr

    one_line = " ".join(message.split())
    stderr.print(f"error: {one_line}", markup=False, style="red")
