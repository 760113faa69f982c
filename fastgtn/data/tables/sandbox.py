"""A locked-down DuckDB, and the child process that runs the SQL of a graph.toml.

Run as a script it answers requests of :class:`fastgtn.data.child.Child`. It imports nothing of `fastgtn`, so that the
child starts quickly.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import duckdb

QUERY_SECONDS = 600
# names in a damaged file may be no text, which DuckDB's binding reports with errors of Python
COMPLAINTS = (duckdb.Error, RuntimeError, UnicodeError)
QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
TABLE_FUNCTIONS = {
    *("read_csv", "read_csv_auto", "sniff_csv", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema"),
    *("read_json", "read_json_auto", "read_json_objects", "read_json_objects_auto", "json_each", "json_tree"),
    *("read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text", "read_blob", "glob"),
    *("range", "generate_series", "unnest", "repeat", "repeat_row"),
}
FILE_FUNCTIONS = tuple(name for name in TABLE_FUNCTIONS if name.startswith(("read_", "sniff_", "parquet_", "glob")))


def open_locked(folder: Path, *, memory: int, allow_external: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection that reads files of one folder only, reaches no network, and cannot be configured any further.

    Args:
        memory: Bytes that queries may use; nothing is written to disk beyond that.
        allow_external: Read files of any folder. Networks and extensions stay closed.
    """
    closed = dict.fromkeys(("autoinstall_known_extensions", "allow_community_extensions"), "false")
    connection = duckdb.connect(":memory:", config={**closed, "allow_persistent_secrets": "false"})
    root = folder.resolve()
    connection.execute("SET allowed_directories = ?", [[root.anchor if allow_external else f"{root}{os.sep}"]])
    for setting, value in {
        "memory_limit": f"{memory // 1_000_000}MB",
        "threads": min(8, os.cpu_count() or 1),
        "temp_directory": "",
        "max_execution_time": 1000 * QUERY_SECONDS,
        "python_enable_replacements": False,  # a table name must never mean a variable of this program
        "autoload_known_extensions": False,
        "enable_external_access": False,
        "lock_configuration": True,  # the last one: nothing above can be changed by a query
    }.items():
        connection.execute(f"SET {setting} = ?", [value])
    return connection


def complaint_about(query: str, connection: duckdb.DuckDBPyConnection, *, allow_external: bool = False) -> str | None:
    """Why a query must not run, or None: it must be one SELECT that only reads tables and files.

    DuckDB's parser calls ``WITH x AS (COPY … TO 'file') SELECT …`` a SELECT too, and some table functions change
    settings or run text as SQL, so the parsed query is inspected. DuckDB takes ``link/..`` for the folder that holds
    the link, and the system for the folder above that which the link names, so file names must not contain ``..``.
    """
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        return "sql must be one SELECT statement."
    [(answer,)] = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    parsed = json.loads(answer)
    if parsed["error"]:
        return f"sql must be one SELECT statement that can be checked ({parsed['error_message']})"
    complaint = _forbidden(parsed["statements"])
    return complaint if complaint or allow_external else _misleading(parsed["statements"])


def _forbidden(node: Any) -> str | None:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict):
        kind = node.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE") and kind not in QUERY_NODES:
            return f"sql must only read, but it contains a {kind.split('_')[0]}."
        name = node["function"].get("function_name") if kind == "TABLE_FUNCTION" else None
        if kind == "TABLE_FUNCTION" and name not in TABLE_FUNCTIONS:
            return f"sql must not use the table function {name}; allowed are {', '.join(sorted(TABLE_FUNCTIONS))}."
    return next((found for child in children if (found := _forbidden(child))), None)


def _misleading(node: Any) -> str | None:
    """Why the name of a file must not be read: it is computed, or it contains ``..``."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    kind = node.get("type") if isinstance(node, dict) else None
    names: list[str] = []
    if kind == "BASE_TABLE":
        names = [str(node.get(part)) for part in ("catalog_name", "schema_name", "table_name")]
    if kind == "TABLE_FUNCTION" and node["function"]["function_name"] in FILE_FUNCTIONS:
        for argument in node["function"]["arguments"]:
            if argument["name"] or argument["expression"]["class"] == "COMPARISON":  # an option, such as header = true
                continue
            texts = _texts(argument["expression"])
            if texts is None:
                return f"sql must write out the file names of {node['function']['function_name']} as texts."
            names += texts
    if any(".." in re.split(r"[/\\]", name) for name in names):
        return 'sql must not read file names with ".."; files outside the folder need --allow-external.'
    return next((found for child in children if (found := _misleading(child))), None)


def _texts(expression: Any) -> list[str] | None:
    """The texts of a constant or of a list of constants; None if anything is computed."""
    match expression:
        case {"class": "CONSTANT", "literal": {"text": text}}:
            return [str(text)]
        case {"class": "FUNCTION", "function_name": "list_value", "arguments": arguments}:
            found = [_texts(argument["expression"]) for argument in arguments]
            return None if None in found else [text for texts in found for text in texts or ()]
        case _:
            return None


def reason(error: BaseException) -> str:
    """What DuckDB complains about."""
    return str(error) if isinstance(error, duckdb.Error) else "a name or a text in it is not valid UTF-8"


def main() -> None:
    """Answer requests ``{"query", "wanted", "memory", "allow_external"}``; see :func:`_answer`."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not look like an answer
    for line in sys.stdin:
        request = json.loads(line)
        table = None
        try:
            with open_locked(Path.cwd(), memory=request["memory"], allow_external=request["allow_external"]) as locked:
                reply, table = _answer(request, locked)
        except (MemoryError, RecursionError) as error:
            reply = {"error": f"the query is too large to run ({type(error).__name__})"}
        except COMPLAINTS as error:
            reply = {"error": reason(error)}
        replies.write(json.dumps(reply).encode() + b"\n")
        if table is not None:
            _send(table, replies)
        replies.flush()


def _answer(request: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> tuple[dict[str, Any], Any]:
    """The names of the columns, and a table of the requested ones if all of them exist."""
    query, wanted = request["query"], request["wanted"]
    complaint = complaint_about(query, connection, allow_external=request["allow_external"])
    if complaint:
        return {"refused": complaint}, None
    columns = connection.sql(f"SELECT * FROM ({query}\n) LIMIT 0").columns
    if not set(wanted) <= set(columns):
        return {"columns": columns}, None
    chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in wanted)
    return {"columns": columns}, connection.sql(f"SELECT {chosen} FROM ({query}\n)").to_arrow_table()


def _send(table: Any, replies: Any) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(replies, table.schema) as writer:
        writer.write_table(table)


if __name__ == "__main__":
    main()
