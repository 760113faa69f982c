"""SQLite files opened for reading only: a query can neither write nor attach, and has limits of time and size."""

import sqlite3
import time
from pathlib import Path

SECONDS = 600
LONGEST_VALUE = 1 << 28  # bytes of one text
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
STEPS = 100_000  # steps of SQLite's machine between two looks at the clock


def open_sqlite(path: Path) -> sqlite3.Connection:
    """A connection that only reads the tables of one file; see the module."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_only_reading)
    end = time.monotonic() + SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    return connection


def _only_reading(action: int, *_details: str | None) -> int:
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
