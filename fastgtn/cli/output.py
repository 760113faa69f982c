"""Where the command line speaks: results to stdout, everything else to stderr."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

stdout = Console(highlight=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


def emit_json(value: Any) -> None:
    """Print one JSON document for machines."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def emit_table(table: Table) -> None:
    """Print a table for people."""
    stdout.print(table)


def say(label: str, text: str) -> None:
    """Print one aligned line of a result: a short label, then the fact."""
    stdout.print(f"{label:<8}{text}", markup=False)


def complain(message: str) -> None:
    """Print a user's mistake in one line on stderr."""
    one_line = " ".join(message.split())
    stderr.print(f"error: {one_line}", markup=False, style="red")
