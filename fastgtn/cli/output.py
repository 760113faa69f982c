"""Output of the command line: results go to stdout, everything else to stderr."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def plain(text: str) -> str:
    """Show control codes in names from files as text, so that they cannot move the cursor or hide anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


class PlainConsole(Console):
    """A console on which only the program itself may style the text; :func:`plain` is applied to all of it."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(_plain_object, objects), **options)


def _plain_object(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Text) and plain(value.plain) != value.plain:
        return Text(plain(value.plain), style=value.style)
    if isinstance(value, Table):
        for column in value.columns:
            column.header = _plain_object(column.header)
            column._cells = [_plain_object(cell) for cell in column._cells]
    return value


stdout = PlainConsole(highlight=False, soft_wrap=True)
stderr = PlainConsole(stderr=True, highlight=False, soft_wrap=True)


def emit_json(value: Any) -> None:
    """Print one JSON document for machines."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def emit_table(table: Table, *, folds: bool = False) -> None:
    """Print a table for people. Names are never cut: a row stays on one line, which the terminal may wrap.

    Args:
        folds: Fold long sentences into the width of the terminal instead.
    """
    table = _plain_object(table)
    if not folds:
        table.width = Measurement.get(stdout, stdout.options.update(max_width=1000), table).maximum
    stdout.print(table)


def say(label: str, text: str) -> None:
    """Print one aligned line of a result: a short label, then the fact."""
    stdout.print(f"{label:<7} {text}", markup=False)


@contextmanager
def noted() -> Iterator[None]:
    """Print the warnings of a block as notes, one line each, on stderr."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        yield
    for note in notes:
        stderr.print(f"note: {' '.join(str(note.message).split())}", markup=False)


def complain(message: str) -> None:
    """Print a user's mistake in one line on stderr."""
    one_line = " ".join(message.split())
    stderr.print(f"error: {one_line}", markup=False, style="red")
