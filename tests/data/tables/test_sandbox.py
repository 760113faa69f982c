"""SQL of a graph.toml reads files of its own folder only: no other file, no writing, no settings, no flood."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import tables
from fastgtn.data.child import Child
from fastgtn.data.tables import sandbox
from fastgtn.data.tables.config import Source
from fastgtn.data.tables.source import Tables, _literal
from fastgtn.data.tables.sqlite import open_sqlite
from fastgtn.errors import InputError

SECRET = "id\n4711\n"
COPY = "WITH x AS (COPY (SELECT 1) TO 'users.csv') SELECT 1 AS id"
RUN_TEXT = f"SELECT * FROM json_execute_serialized_sql(json_serialize_sql({_literal(COPY)}))"

CLOSED = "disabled by configuration.*--allow-external"
UPWARDS = r'must not read file names with "\.\.".*--allow-external'
REFUSED = {
    "another file": ("SELECT content AS id FROM read_text('OUT/secret.csv')", CLOSED),
    "a system file": ("SELECT content AS id FROM read_text('/etc/passwd')", CLOSED),
    "a file by its name": ("SELECT * FROM 'OUT/secret.csv'", CLOSED),
    "upwards": ("SELECT * FROM '../out/secret.csv'", UPWARDS),
    "up and down": ("SELECT * FROM 'sub/../../out/secret.csv'", UPWARDS),
    "a link to a file": ("SELECT * FROM 'link.csv'", CLOSED),
    "a link to a folder": ("SELECT * FROM 'link/secret.csv'", CLOSED),
    "above a link to a folder": ("SELECT content AS id FROM read_text('link/../out/secret.csv')", UPWARDS),
    "a table above a link": ("SELECT * FROM 'link/../out/secret.csv'", UPWARDS),
    "one of several files": ("SELECT * FROM read_csv(['users.csv', 'link/../out/secret.csv'], header = true)", UPWARDS),
    "a file address above a link": ("SELECT * FROM 'file:link/../out/secret.csv'", UPWARDS),
    "a computed name": ("SELECT * FROM read_csv('link/.' || './out/secret.csv')", "must write out the file names"),
    "a name from a table": (
        "SELECT * FROM (SELECT chr(46) AS p), read_text('link/' || p || p || '/out/secret.csv')",
        "must write out the file names",
    ),
    "a name inside a question": (
        "SELECT (SELECT content FROM read_text('link/../out/secret.csv')) AS id FROM 'users.csv'",
        UPWARDS,
    ),
    "a list of files": ("SELECT file AS id FROM glob('OUT/*')", CLOSED),
    "a file address": ("SELECT content AS id FROM read_text('file:///etc/passwd')", CLOSED),
    "the network": ("SELECT * FROM 'https://example.org/t.csv'", CLOSED),
    "a database": ("SELECT * FROM read_duckdb('OUT/secret.db')", "table function read_duckdb"),
    "profiling": (
        "SELECT 1 AS id FROM enable_profiling(save_location = 'OUT/secret.csv')",
        "function enable_profiling",
    ),
    "logging": (
        "SELECT 1 AS id FROM enable_logging('QueryLog', storage = 'file', storage_config = {'path': 'OUT'})",
        "function enable_logging",
    ),
    "writing": ("COPY (SELECT 1 AS id) TO 'users.csv'", "one SELECT statement"),
    "writing inside a SELECT": (COPY, "it contains a COPY"),
    "inserting inside a SELECT": ("WITH x AS (INSERT INTO t VALUES (1)) SELECT 1 AS id", "it contains a INSERT"),
    "writing inside text": (RUN_TEXT, "table function json_execute_serialized_sql"),
    "text as a query": ("SELECT * FROM query('SELECT 1 AS id')", "table function query"),
    "a quoted function": ("SELECT * FROM \"QUERY\"('SELECT 1 AS id')", "table function"),
    "attaching": ("ATTACH 'OUT/secret.db'", "one SELECT statement"),
    "installing": ("INSTALL httpfs", "one SELECT statement"),
    "loading": ("LOAD httpfs", "one SELECT statement"),
    "setting": ("SET enable_external_access = true", "one SELECT statement"),
    "a pragma": ("PRAGMA enable_profiling", "one SELECT statement"),
    "a pivot": ("SELECT * FROM (PIVOT 'users.csv' ON id USING sum(id))", "one SELECT statement"),
    "a variable of the program": ("SELECT * FROM request", "the query cannot be read"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folders(tmp_path)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """One child process for all the queries that are refused: it must stay alive."""
    with Tables(make_folders(tmp_path_factory.mktemp("sandbox"))) as found:
        yield found


def make_folders(parent: Path) -> Path:
    inside, outside = parent / "in", parent / "out"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.csv").write_text(SECRET)
    (inside / "users.csv").write_text("id\n1\n2\n")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    (inside / "link").symlink_to(outside)
    return inside


def write(folder: Path, section: str) -> Path:
    path = folder / "graph.toml"
    path.write_text(f'[nodes.user]\n{section}\nid = "id"\n')
    return path


def query(folder: Path, sql: str) -> Path:
    return write(folder, f"sql = '''{filled(sql, folder)}'''")


def filled(sql: str, folder: Path) -> str:
    return sql.replace("OUT", str(folder.parent / "out"))


@pytest.mark.parametrize("case", REFUSED)
def test_sql_is_refused(case: str, opened: Tables) -> None:
    sql, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        opened.read(Source(sql=filled(sql, opened.folder)), ["id"], where="nodes.user")
    folder = opened.folder
    assert (folder.parent / "out" / "secret.csv").read_text() == SECRET
    assert (folder / "users.csv").read_text() == "id\n1\n2\n"
    assert sorted(os.listdir(folder.parent / "out")) == ["secret.csv"]
    assert sorted(os.listdir(folder)) == ["link", "link.csv", "sub", "users.csv"]


@pytest.mark.parametrize("settings", ["enable_profiling()", "enable_logging()", "disable_logging()"])
def test_the_connection_itself_is_locked_too(settings: str, folder: Path) -> None:
    """Should the look through a query miss something, DuckDB refuses it as well."""
    with sandbox.open_locked(folder, memory=1 << 28) as connection:
        for statement in (f"CALL {settings}", "SET threads = 1", "SET enable_external_access = true", "LOAD httpfs"):
            with pytest.raises(sandbox.duckdb.Error, match=r"locked|disabled"):
                connection.execute(statement)


@pytest.mark.parametrize(
    "section",
    ['table = "../out/secret.csv"', 'table = "link.csv"', 'database = "../out/secret.db"\ntable = "t"'],
    ids=["table", "link", "database"],
)
def test_files_of_other_folders_need_a_yes(section: str, folder: Path) -> None:
    with sqlite3.connect(folder.parent / "out" / "secret.db") as database:
        database.execute("CREATE TABLE t AS SELECT 4711 AS id")
    path = write(folder, section)
    with pytest.raises(InputError, match=r"is outside .*--allow-external"):
        tables.build(path)
    assert tables.build(path, allow_external=True)[0]["user"].node_id.tolist() == [4711]


def test_allow_external_opens_other_folders_but_not_settings(folder: Path) -> None:
    path = query(folder, "SELECT * FROM 'OUT/secret.csv'")
    out = ["data", "build", str(path), "--out", str(folder / "g.npz")]
    refused = CliRunner().invoke(app, out)
    assert isinstance(refused.exception, InputError)
    assert CliRunner().invoke(app, [*out, "--allow-external"]).exit_code == 0
    with pytest.raises(InputError, match="table function enable_profiling"):
        tables.build(query(folder, "SELECT 1 AS id FROM enable_profiling()"), allow_external=True)


def test_ordinary_queries_still_work(folder: Path) -> None:
    sql = """WITH RECURSIVE r AS (SELECT 10 AS id UNION ALL SELECT id + 1 FROM r WHERE id < 12)
             SELECT id FROM r UNION ALL (SELECT id FROM '*s.csv') UNION ALL SELECT unnest([20]) AS id
             UNION ALL SELECT range AS id FROM range(30, 31) ORDER BY id -- a remark;"""
    assert tables.build(query(folder, sql))[0]["user"].node_id.tolist() == [1, 2, 10, 11, 12, 20, 30]


def test_a_flood_of_memory_ends_the_child_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgtn.data.tables.source.memory_bytes", lambda: 1 << 29)
    with pytest.raises(InputError, match=r"\[nodes.user\]: the query (cannot be read|ended the process)"):
        tables.build(query(folder, "SELECT list_sum(range(2000000000)) AS id"))


def test_an_endless_query_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "QUERY_SECONDS", -59)  # the parent waits a minute longer than DuckDB
    endless = "SELECT count(*) AS id FROM range(1000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 1"
    with pytest.raises(InputError, match="the query took more than 1 seconds and was stopped"):
        tables.build(query(folder, endless))


def test_the_child_imports_nothing_from_its_folder(folder: Path) -> None:
    (folder / "duckdb.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    (folder / "json.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    assert tables.build(query(folder, "SELECT 1 AS id"))[0]["user"].num_nodes == 1
    assert not (folder / "ran").exists()


def test_a_child_that_dies_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nsys.stdin.readline()\nos.abort()\n")
    child = Child(script, folder=tmp_path, memory=1 << 28)
    with pytest.raises(InputError, match=r"the file ended the process that reads it \(exit code -6\)"):
        child.ask({}, seconds=60, what="the file")
    with pytest.raises(InputError, match="the file ended the process"):  # asked again, the answer is the same
        child.ask({}, seconds=60, what="the file")
    child.close()


@pytest.mark.parametrize("sql", ["PRAGMA user_version", "ATTACH 'other.db' AS o", "SELECT load_extension('x') AS id"])
def test_sqlite_only_reads(sql: str, folder: Path) -> None:
    with sqlite3.connect(folder / "d.sqlite") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS id")
    with pytest.raises(InputError, match=r"d\.sqlite cannot be read"):
        tables.build(write(folder, f'database = "d.sqlite"\nsql = "{sql}"'))
    connection = open_sqlite(folder / "d.sqlite")
    for statement in ("ATTACH 'other.db' AS o", "DELETE FROM t", "PRAGMA writable_schema = 1"):
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            connection.execute(statement)
    connection.close()


def test_an_endless_sqlite_query_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgtn.data.tables.sqlite.SECONDS", 0)
    sqlite3.connect(folder / "d.sqlite").execute("CREATE TABLE t (id)").connection.close()
    endless = "WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM r) SELECT max(id) AS id FROM r"
    with pytest.raises(InputError, match="interrupted"):
        tables.build(write(folder, f'database = "d.sqlite"\nsql = "{endless}"'))
