"""Files that hang, flood or confuse a reader end in one clear line."""

import os
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fastgtn.config import toml
from fastgtn.data import archive, tables
from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks.task import check_labels
from fastgtn.data.importers import FORMATS, import_graph
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError
from fastgtn.runs.files import read_json

NODES, LINKS = "0\ta\t0\n1\tb\t0\n", "0\t1\t0\t1\n"


@pytest.mark.parametrize(
    "read", [archive.read, toml.read, tables.build, *(lambda p, k=kind: import_graph(k, p) for kind in FORMATS)]
)
def test_a_pipe_is_refused_instead_of_waited_for(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe, a socket or a device"):
        read(tmp_path / "pipe")


def test_pipes_inside_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hgb").mkdir()
    os.mkfifo(tmp_path / "hgb" / "node.dat")
    with pytest.raises(InputError, match=r"node\.dat is a pipe"):
        import_graph("hgb", tmp_path / "hgb")
    (tmp_path / "graph").mkdir()
    os.mkfifo(tmp_path / "graph" / "num_nodes.npy")
    with pytest.raises(InputError, match=r"num_nodes\.npy is a pipe"):
        archive.read(tmp_path / "graph")


def test_nested_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(InputError, match="cannot be read as TOML"):
        toml.read(path)
    with pytest.raises(InputError, match="not readable TOML"):
        tables.build(path)
    assert toml.settings(["a=" + "[" * 5000])["a"].startswith("[[[")  # a bare word, whatever it means
    (tmp_path / "edges.pkl").write_bytes(b"")
    with pytest.raises(InputError):
        import_graph("gtn", tmp_path, types=path)


def hgb_zip(path: Path, *, nodes: str = NODES, links: str = LINKS, **more: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in {"node.dat": nodes, "link.dat": links, **more}.items():
            file.writestr(name, text)
    return path


def test_every_cut_and_flip_of_an_hgb_zip_is_refused_or_read(tmp_path: Path) -> None:
    data = hgb_zip(tmp_path / "g.zip").read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 0x55
        for bad in (data[:place], bytes(flipped)):
            (tmp_path / "bad.zip").write_bytes(bad)
            try:
                graph, _ = import_graph("hgb", tmp_path / "bad.zip")
            except InputError:
                continue
            assert sum(graph[t].num_nodes for t in graph.node_types) == 2


def test_a_small_zip_of_many_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgtn.data.archive.arrays.BOMB_BYTES", 1 << 20)
    path = hgb_zip(tmp_path / "g.zip", links=LINKS * 100_000)
    assert path.stat().st_size < 5000
    with pytest.raises(InputError, match=r"link\.dat has [\d,]+ bytes but over \d0,000 lines, which is too"):
        import_graph("hgb", path)


def test_nested_json_is_refused(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "G-G.json").write_text(deep)
    with pytest.raises(InputError, match="is not readable JSON"):
        import_graph("graphsage", tmp_path / "G")
    (tmp_path / "result.json").write_text(deep)
    with pytest.raises(InputError, match=r"result.json is missing or damaged"):
        read_json(tmp_path / "result.json")


def test_numbers_too_large_for_a_reader_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a whole number"):
        import_graph("hgb", hgb_zip(tmp_path / "g.zip", nodes=f"{10**30}\ta\t0\n"))
    (tmp_path / "G-G.json").write_text('{"nodes": [{"id": 1}], "links": []}')
    (tmp_path / "G-id_map.json").write_text('{"1": 1e400}')
    with pytest.raises(InputError, match="not a valid graphsage file"):
        import_graph("graphsage", tmp_path / "G")


@pytest.mark.parametrize("values", ["(9007199254740993), (0.5)", "(9223372036854775807), (1.5)", "(1), (2.5)"])
def test_large_whole_numbers_beside_fractions_in_sqlite(values: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE t (v)")
        database.execute(f"INSERT INTO t VALUES {values}")
    (tmp_path / "graph.toml").write_text(
        '[nodes.t]\ndatabase = "d.sqlite"\nsql = "SELECT rowid AS id, v FROM t"\nid = "id"\nfeatures = ["v"]\n'
    )
    assert tables.build(tmp_path / "graph.toml")[0]["t"].num_nodes == 2


def test_classes_need_names_of_their_own() -> None:
    with pytest.raises(InputError, match='the class name "same" is used twice or more'):
        NodeTask.from_labels("a", "single", [0, 1, 2], train=[0], val=[1], test=[2], class_names=["same"] * 3)


def test_hgb_classes_of_one_name_are_numbered(tmp_path: Path) -> None:
    info = '{"label.dat": {"node type": {"0": {"0": "same", "1": "same"}}}}'
    labels = {"label.dat": "0\ta\t0\t0\n1\tb\t0\t1\n", "info.dat": info}
    _, task = import_graph("hgb", hgb_zip(tmp_path / "g.zip", **labels))
    assert task is not None
    assert task.class_names == ("0", "1")


def test_a_class_that_only_test_nodes_have_is_named() -> None:
    """It stays a class, because the classes belong to the task; the check says so."""
    task = NodeTask.from_labels("a", "single", np.array([0, 1, 0, 2]), train=[0, 1], val=[2], test=[3])
    assert task.num_classes == 3
    [finding] = [f for f in check_labels(Labels.of(task)) if f.check == "classes"]
    assert finding.message.startswith("1 of 3 classes have no training node. Only test nodes have 1 of them")
    known = NodeTask.from_labels("a", "single", torch.tensor([0, 1, 2, 2]), train=[0, 1], val=[2], test=[3])
    [finding] = [f for f in check_labels(Labels.of(known)) if f.check == "classes"]
    assert finding.message == "1 of 3 classes have no training node."


def test_sqlite_names_that_are_not_text(tmp_path: Path) -> None:
    """Found by the soak: a flipped bit in the name of a column."""
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE t (id, friend)")
        database.execute("INSERT INTO t VALUES (1, 2)")
    data = (tmp_path / "d.sqlite").read_bytes()
    (tmp_path / "d.sqlite").write_bytes(data.replace(b"friend", b"fr\x80end"))
    (tmp_path / "graph.toml").write_text('[nodes.t]\ndatabase = "d.sqlite"\ntable = "t"\nid = "id"\n')
    with pytest.raises(InputError, match=r"d\.sqlite cannot be read .*utf-8"):
        tables.build(tmp_path / "graph.toml")
