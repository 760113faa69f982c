"""Rows from CSV and Parquet files, from SQL over them, and from SQLite: always as the same few column types."""

import glob
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from fastgtn.data.table_config import Source
from fastgtn.errors import InputError, nearest

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.zst")
CSV_TYPES = ["BIGINT", "DOUBLE", "VARCHAR"]  # no dates, no booleans: a CSV reads as the same text in a database
SQLITE_ROWS = 200_000  # rows per step, to bound the Python objects in memory


class Tables:
    """The tables of one graph.toml; file names are relative to its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        offline = {"autoinstall_known_extensions": "false"}
        self.connection = duckdb.connect(":memory:", config=offline)
        self.connection.execute("SET file_search_path = ?", [str(folder.resolve())])

    def __enter__(self) -> "Tables":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

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
            table = self._select(wanted, self._query(source.sql, where), where, "the query")
        else:
            table = self._read_file(str(source.table), wanted, where, text)
        if not table.num_rows:
            raise InputError(f"[{where}]: {source} has no rows.")
        return pa.table({name: _plain(table[name], f'[{where}]: column "{name}"') for name in wanted})

    def is_csv(self, source: Source) -> bool:
        """True where the source is text without types of its own."""
        return source.database is None and source.table is not None and source.table.lower().endswith(CSV_ENDINGS)

    def _query(self, sql: str, where: str) -> str:
        query = sql.strip().rstrip(";")
        if "," in str(self.folder.resolve()):
            raise InputError(f"[{where}]: DuckDB finds no files in a folder with a comma in its name: {self.folder}.")
        with _explained(where, "sql"):
            statements = self.connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError(f"[{where}]: sql must be one SELECT statement.")
        return f"({query}\n)"

    def _read_file(self, table: str, columns: list[str], where: str, text: tuple[str, ...]) -> pa.Table:
        path = self.folder / table
        if not path.is_file():
            raise InputError(f"[{where}]: there is no file {path}.")
        name = _literal(glob.escape(str(path)))  # DuckDB takes file names for patterns
        if path.name.lower().endswith(".parquet"):
            return self._select(columns, f"read_parquet({name})", where, path.name)
        if not path.name.lower().endswith(CSV_ENDINGS):
            raise InputError(f"[{where}]: {path.name} must end in .csv, .tsv or .parquet; read others by sql.")
        as_text = f"read_csv({name}, header = true, all_varchar = true)"
        if set(columns) <= set(text):  # no types to find: one pass over the file less
            return self._select(columns, as_text, where, path.name)
        self._check_columns(columns, as_text, where, path.name)
        types = ", ".join(f"{_literal(column)}: 'VARCHAR'" for column in dict.fromkeys(text))
        # the types are found in all rows, not in a sample: a late fraction or word must not fail or be lost
        typed = f"sample_size = -1, auto_type_candidates = {CSV_TYPES}" + (f", types = {{{types}}}" if types else "")
        return self._fetch(columns, f"read_csv({name}, header = true, {typed})", where, path.name)

    def _select(self, columns: list[str], relation: str, where: str, what: str) -> pa.Table:
        self._check_columns(columns, relation, where, what)
        return self._fetch(columns, relation, where, what)

    def _check_columns(self, columns: list[str], relation: str, where: str, what: str) -> None:
        with _explained(where, what):
            present = self.connection.sql(f"SELECT * FROM {relation} LIMIT 0").columns
        _check_present(columns, present, where, what)

    def _fetch(self, columns: list[str], relation: str, where: str, what: str) -> pa.Table:
        with _explained(where, what):
            return self.connection.sql(f"SELECT {', '.join(map(_quote, columns))} FROM {relation}").to_arrow_table()

    def _read_sqlite(self, source: Source, columns: list[str], where: str) -> pa.Table:
        path = self.folder / str(source.database)
        if not path.is_file():
            raise InputError(f"[{where}]: there is no database {path}.")
        relation = _quote(source.table) if source.table else f"({str(source.sql).strip().rstrip(';')}\n)"
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            present = [d[0] for d in connection.execute(f"SELECT * FROM {relation} LIMIT 0").description]
            _check_present(columns, present, where, path.name)
            rows = connection.execute(f"SELECT {', '.join(map(_quote, columns))} FROM {relation}")
            return _from_rows(rows, columns, where)
        except sqlite3.Error as error:
            raise InputError(f"[{where}]: {path.name} cannot be read ({error})") from None
        finally:
            connection.close()


def _from_rows(cursor: sqlite3.Cursor, columns: list[str], where: str) -> pa.Table:
    """SQLite has a type per value, not per column: each column must agree with itself."""
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
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).split("\n\nLINE")[0].splitlines() if line.strip()]
        raise InputError(f"[{where}]: {what} cannot be read ({'; '.join(lines[:3])})") from None
