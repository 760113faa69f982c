"""Rows from CSV and Parquet files, from SQL over them, and from SQLite: always as the same few column types."""

import glob
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from fastgtn.data.archive.arrays import memory_bytes
from fastgtn.data.child import Child
from fastgtn.data.tables import sandbox
from fastgtn.data.tables.config import Source
from fastgtn.data.tables.sqlite import open_sqlite
from fastgtn.errors import InputError, nearest

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.zst")
CSV_TYPES = ["BIGINT", "DOUBLE", "VARCHAR"]  # no dates, no booleans: a CSV reads as the same text in a database
SQLITE_ROWS = 200_000  # rows per step, to bound the Python objects in memory


class Tables:
    """The tables of one graph.toml; file names are relative to its folder.

    Args:
        folder: The folder of graph.toml. Only its files are read.
        allow_external: Also read files outside the folder.
    """

    def __init__(self, folder: Path, *, allow_external: bool = False) -> None:
        self.folder = folder.resolve()
        self.allow_external = allow_external
        self.memory = memory_bytes() // 2
        # runs our own statements only, on files that `_inside` has allowed
        self.connection = sandbox.open_locked(self.folder, memory=self.memory, allow_external=True)
        self._child: Child | None = None

    def __enter__(self) -> "Tables":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()
        if self._child is not None:
            self._child.close()

    def read(self, source: Source, columns: list[str], *, where: str, text: tuple[str, ...] = ()) -> pa.Table:
        """These columns of a table, as int64, double, text, or lists of them.

        Args:
            where: The section of graph.toml, for messages.
            text: Columns that a CSV file should give as they are written: ids such as 007.
        """
        wanted = list(dict.fromkeys(columns))
        if source.database is not None:
            table = self._read_sqlite(source, wanted, where)
        elif source.sql is not None:
            table = self._read_query(source.sql, wanted, where)
        else:
            table = self._read_file(str(source.table), wanted, where, text)
        if not table.num_rows:
            raise InputError(f"[{where}]: {source} has no rows.")
        return pa.table({name: _plain(table[name], f'[{where}]: column "{name}"') for name in wanted})

    def is_csv(self, source: Source) -> bool:
        """Whether the source is text without types."""
        return source.database is None and source.table is not None and source.table.lower().endswith(CSV_ENDINGS)

    def columns_of(self, source: Source, *, where: str) -> list[str]:
        """The names of all columns of a table."""
        if source.database is not None:
            with self._sqlite(source, where) as (connection, relation):
                return _sqlite_columns(connection, relation)
        if source.sql is not None:
            return list(self._ask(source.sql, [""], where)["columns"])  # no column has this name: no rows are sent
        path = self._file(str(source.table), where)
        return self._columns(_untyped(path), where, path.name)

    def _read_query(self, sql: str, columns: list[str], where: str) -> pa.Table:
        reply = self._ask(sql, columns, where)
        _check_present(columns, reply["columns"], where, "the query")
        assert self._child is not None
        return pa.ipc.open_stream(self._child.stream).read_all()

    def _ask(self, sql: str, columns: list[str], where: str) -> dict[str, Any]:
        """Run the user's SQL in a child process, whose current folder is that of graph.toml."""
        if self._child is None:
            self._child = Child(Path(sandbox.__file__), folder=self.folder, memory=self.memory)
        request = {"query": sql.strip().rstrip(";"), "wanted": columns}
        limits = {"memory": self.memory, "allow_external": self.allow_external}
        reply = self._child.ask(request | limits, seconds=sandbox.QUERY_SECONDS + 60, what=f"[{where}]: the query")
        if "refused" in reply:
            raise InputError(f"[{where}]: {reply['refused']}")
        if "error" in reply:
            raise InputError(f"[{where}]: the query cannot be read ({_one_line(reply['error'])})")
        return reply

    def _inside(self, name: str, where: str) -> Path:
        """The path of a file that may be read: inside the folder, also behind symbolic links."""
        path = self.folder / name
        if not self.allow_external and not path.resolve().is_relative_to(self.folder):
            raise InputError(
                f"[{where}]: {name} is outside {self.folder}, and only files of the folder of graph.toml are read: "
                "move it there, or allow other folders (--allow-external)."
            )
        return path

    def _file(self, table: str, where: str) -> Path:
        path = self._inside(table, where)
        if not path.is_file():
            raise InputError(f"[{where}]: there is no file {path}.")
        if not path.name.lower().endswith((".parquet", *CSV_ENDINGS)):
            raise InputError(f"[{where}]: {path.name} must end in .csv, .tsv or .parquet; read other files with sql.")
        return path

    def _read_file(self, table: str, columns: list[str], where: str, text: tuple[str, ...]) -> pa.Table:
        path = self._file(table, where)
        _check_present(columns, self._columns(_untyped(path), where, path.name), where, path.name)
        if path.name.lower().endswith(".parquet") or set(columns) <= set(text):  # no types to find: one pass less
            return self._fetch(columns, _untyped(path), where, path.name)
        name = _literal(glob.escape(str(path)))
        types = ", ".join(f"{_literal(column)}: 'VARCHAR'" for column in dict.fromkeys(text))
        # the types are found in all rows, not in a sample: a late fraction or word must not fail or be lost
        typed = f"sample_size = -1, auto_type_candidates = {CSV_TYPES}" + (f", types = {{{types}}}" if types else "")
        return self._fetch(columns, f"read_csv({name}, header = true, {typed})", where, path.name)

    def _columns(self, relation: str, where: str, what: str) -> list[str]:
        with _explained(where, what):
            return list(self.connection.sql(f"SELECT * FROM {relation} LIMIT 0").columns)

    def _fetch(self, columns: list[str], relation: str, where: str, what: str) -> pa.Table:
        with _explained(where, what):
            return self.connection.sql(f"SELECT {', '.join(map(_quote, columns))} FROM {relation}").to_arrow_table()

    def _read_sqlite(self, source: Source, columns: list[str], where: str) -> pa.Table:
        with self._sqlite(source, where) as (connection, relation):
            _check_present(columns, _sqlite_columns(connection, relation), where, str(source))
            rows = connection.execute(f"SELECT {', '.join(map(_quote, columns))} FROM {relation}")
            return _from_rows(rows, columns, where)

    @contextmanager
    def _sqlite(self, source: Source, where: str) -> Iterator[tuple[sqlite3.Connection, str]]:
        """A connection and the table or query of the user; SQLite's complaints name the section."""
        path = self._inside(str(source.database), where)
        if not path.is_file():
            raise InputError(f"[{where}]: there is no database {path}.")
        connection = open_sqlite(path)
        try:
            yield connection, _quote(source.table) if source.table else f"({str(source.sql).strip().rstrip(';')}\n)"
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"[{where}]: {path.name} cannot be read ({error})") from None
        finally:
            connection.close()


def _sqlite_columns(connection: sqlite3.Connection, relation: str) -> list[str]:
    return [d[0] for d in connection.execute(f"SELECT * FROM {relation} LIMIT 0").description]


def _untyped(path: Path) -> str:
    """All columns of a file for DuckDB, those of a CSV file as text."""
    name = _literal(glob.escape(str(path)))  # DuckDB takes file names for patterns
    if path.name.lower().endswith(".parquet"):
        return f"read_parquet({name})"
    return f"read_csv({name}, header = true, all_varchar = true)"


def _from_rows(cursor: sqlite3.Cursor, columns: list[str], where: str) -> pa.Table:
    """Columns from rows of SQLite, which has a type per value: all values of a column must have one type."""
    parts = []
    while rows := cursor.fetchmany(SQLITE_ROWS):
        values = zip(*rows, strict=True)
        parts.append(pa.table([_typed(c, v, where) for c, v in zip(columns, values, strict=True)], names=columns))
    if not parts:
        return pa.table({column: pa.array([], pa.null()) for column in columns})
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InputError(f"[{where}]: a column holds both text and numbers; use CAST in sql.") from None


def _typed(column: str, values: tuple[Any, ...], where: str) -> pa.Array:
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if all(value is None or isinstance(value, int | float) for value in values):
            return pa.array([None if value is None else float(value) for value in values])  # beyond 2^53, rounded
        raise InputError(
            f'[{where}]: column "{column}" holds both text and numbers; write CAST("{column}" AS TEXT) in sql.'
        ) from None
    if pa.types.is_binary(array.type):
        raise InputError(f'[{where}]: column "{column}" holds binary data; numbers or text are needed.')
    return array


def _plain(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """One of int64, double, large text, lists of these; so that every source gives the same column."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    try:
        return column.cast(_plain_type(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return column.cast(pa.large_string())  # whole numbers beyond 64 bits are names
        raise InputError(f"{what} has the type {kind}; numbers, text or lists are read: convert it in sql.") from None


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    return pa.large_string()


def _check_present(wanted: list[str], present: list[str], where: str, what: str) -> None:
    for column in wanted:
        if column not in present:
            raise InputError(f'[{where}]: {what} has no column "{column}"; {nearest(column, present)}')


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _explained(where: str, what: str) -> Iterator[None]:
    """Turn DuckDB's complaint into one line that names the section."""
    try:
        yield
    except sandbox.COMPLAINTS as error:
        raise InputError(f"[{where}]: {what} cannot be read ({_one_line(sandbox.reason(error))})") from None


def _one_line(message: str) -> str:
    """The start of DuckDB's error message without the query, and advice if access was refused."""
    lines = [line.strip() for line in message.split("\n\nLINE")[0].splitlines() if line.strip()]
    advice = "; only files of the folder of graph.toml are read, others with --allow-external"
    return "; ".join(lines[:3]) + (advice if "disabled by configuration" in message else "")
