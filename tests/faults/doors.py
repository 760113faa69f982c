"""Every door through which a user's file or text comes in: a good input, and the reader that must survive bad ones.

An attempt damages a good input at random. The reader must give a result or an `InputError`; anything else is a crash.
"""

import io
import json
import pickle
import sqlite3
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from fastgtn.config import Config, toml
from fastgtn.data import archive, tables
from fastgtn.data.importers import import_graph
from fastgtn.data.importers.pickles import safe_pickle
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError
from fastgtn.links.folder import load_link_task
from fastgtn.links.settings import LinkSettings
from fastgtn.runs.checkpoint import read_tensors, store_tensors

INTERESTING = [0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]
GRAPH_TOML = """[graph]
name = "g"
reverse = true
[nodes.user]
table = "TABLE"
id = "id"
features = ["age"]
[relations.knows]
table = "TABLE"
source = { type = "user", column = "id" }
target = { type = "user", column = "friend" }
weight = "age"
[task]
target = "user"
label = "town"
split = { train = 0.5, val = 0.2, test = 0.3 }
"""
LINK_TOML = (
    GRAPH_TOML.replace("TABLE", "t.csv").partition("[task]")[0]
    + """[task]
link = "knows"
positive = "age >= 22"
negatives = "degree"
split = "random"
"""
)
ROWS = [(i, (i + 1) % 8, 20 + i, "ab"[i % 2]) for i in range(8)]
NAMES = ("id", "friend", "age", "town")
CSV = ",".join(NAMES) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in ROWS)
LINK_CSV = ",".join(NAMES) + "\n" + "".join(f"{i},{(i * i + 1) % 40},{20 + i},a\n" for i in range(40))


def damaged(data: bytes, random: Random) -> bytes:
    """One to three injuries: bits flipped, a cut, bytes removed, repeated or replaced, whole numbers made extreme."""
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(out)) if out else 0
        kind = random.randrange(6)
        if kind == 0 and out:
            out[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            del out[place:]
        elif kind == 2:
            del out[place : place + random.randint(1, 16)]
        elif kind == 3:
            out[place:place] = out[place : place + random.randint(1, 64)]
        elif kind == 4:
            out[place : place + random.randint(1, 8)] = random.randbytes(random.randint(1, 8))
        else:
            width = random.choice([1, 2, 4, 8])
            number = random.choice(INTERESTING) % (1 << (8 * width))
            out[place : place + width] = number.to_bytes(width, random.choice(["little", "big"]))
    return bytes(out)


def damaged_values(data: bytes, random: Random) -> bytes:
    """JSON in which some values have other types, are extreme, or are missing."""
    return json.dumps(_changed(json.loads(data), random, random.choice([0.003, 0.03, 0.1]))).encode()


def _changed(value: Any, random: Random, often: float) -> Any:
    if random.random() < often:
        return random.choice([None, -1, 2**70, "x", [], {}, 1e300, float("nan"), True, "../../etc", [[]], {"a": None}])
    if isinstance(value, dict):
        return {key: _changed(inner, random, often) for key, inner in value.items() if random.random() > often / 2}
    return [_changed(inner, random, often) for inner in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Door:
    """How good bytes are made in a folder, and what reads them from a file there."""

    good: bytes
    name: str
    read: Callable[[Path], object]
    damage: Callable[[bytes, Random], bytes] = damaged

    def attempt(self, random: Random, folder: Path) -> str:
        """Damage, read, and say how it ended: "read" or "refused"; other errors are raised."""
        path = folder / self.name
        path.write_bytes(self.damage(self.good, random))
        try:
            self.read(path)
        except InputError:
            return "refused"
        return "read"


def damaged_member(data: bytes, random: Random) -> bytes:
    """A zip file whose own structure is right; one of its members is damaged, so that no checksum tells."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as good, zipfile.ZipFile(out, "w") as bad:
        names = good.namelist()
        chosen = random.choice(names)
        for name in names:
            content = good.read(name)
            bad.writestr(name, damaged(content, random) if name == chosen else content)
    return out.getvalue()


def file_doors() -> dict[str, Door]:
    """All doors of files and texts; the slow ones, which start a process for each file, are last."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph, task = _graph()
        archive.write(folder / "g.npz", graph, task)
        store_tensors(folder / "w.safetensors", {"weight": torch.ones(3)}, {"config": "{}"})
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        torch.save(Data(x=torch.eye(3).to_sparse_csr(), edge_index=torch.tensor([[0], [1]])), folder / "d.pt")
        labels = np.arange(30)[:, None] % 2
        matrix = sp.csc_matrix(np.eye(30))
        scipy.io.savemat(folder / "m.mat", {"Network": matrix, "Attributes": np.eye(30, 2), "Label": labels})
        with zipfile.ZipFile(folder / "h.zip", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("node.dat", "0\ta\t0\t1,2\n1\tb\t0\t3,4\n")
            file.writestr("link.dat", "0\t1\t0\t1.5\n")
            file.writestr("label.dat", "0\ta\t0\t0\n1\tb\t0\t1\n")
        pa.parquet.write_table(
            pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in ROWS]), folder / "t.parquet"
        )
        with sqlite3.connect(folder / "d.sqlite") as database:
            database.execute("CREATE TABLE t (id, friend, age, town)")
            database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
        content = {path.name: path.read_bytes() for path in folder.iterdir()}
    pickled = pickle.dumps([sp.csr_matrix(np.eye(3)), sp.coo_matrix(np.eye(2)), np.arange(5), {"a": [1, (2, 3)]}])
    adjacency = {"PA": sp.csr_matrix(np.eye(6, k=3)), "AP": sp.csr_matrix(np.eye(6, k=-3))}
    links = json.dumps({"nodes": [{"id": 0}, {"id": 1, "test": True}], "links": [{"source": 0, "target": 1}]})
    config = Config.of({"model": {"name": "gtn"}}).to_toml()
    return {
        "archive": Door(content["g.npz"], "g.npz", archive.read),
        "archive, inside": Door(content["g.npz"], "g.npz", archive.read, damaged_member),
        "pickle": Door(pickled, "p.pkl", lambda path: safe_pickle.load(path)),
        "torch file": Door(content["d.pt"], "d.pt", lambda path: import_graph("pyg", path)),
        "torch file, inside": Door(content["d.pt"], "d.pt", lambda path: import_graph("pyg", path), damaged_member),
        "GTN pickles": Door(pickle.dumps(adjacency), "edges.pkl", _gtn),
        "HGB zip": Door(content["h.zip"], "h.zip", lambda path: import_graph("hgb", path)),
        "HGB zip, inside": Door(content["h.zip"], "h.zip", lambda path: import_graph("hgb", path), damaged_member),
        "GraphSAGE JSON": Door(links.encode(), "x-G.json", _graphsage),
        "graph.toml": Door(GRAPH_TOML.replace("TABLE", "t.csv").encode(), "graph.toml", _table("t.csv", CSV.encode())),
        "[task] link": Door(LINK_TOML.encode(), "graph.toml", _link_tables),
        "CSV table": Door(CSV.encode(), "t.csv", _build("t.csv")),
        "Parquet table": Door(content["t.parquet"], "t.parquet", _build("t.parquet")),
        "SQLite database": Door(content["d.sqlite"], "d.sqlite", _sqlite),
        "config": Door(config.encode(), "c.toml", lambda path: Config.from_toml(path)),
        "--set": Door(b"model.path_length=3", "set", _set),
        "weights": Door(content["w.safetensors"], "w.safetensors", read_tensors),
        "node ids": Door(b"user:1", "id", _node_ids),
        "MATLAB file": Door(content["m.mat"], "m.mat", lambda path: import_graph("mat", path)),
    }


SLOW = ("MATLAB file",)


def _graph() -> tuple[HeteroData, NodeTask]:
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes = 4, 3
    graph["a"].x = torch.eye(4)
    graph["a", "r", "b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    graph["a", "r", "b"].edge_weight = torch.tensor([1.0, 2.0, 3.0])
    return graph, NodeTask.from_labels("a", "single", [0, 1, 0, 1], train=[0, 1], val=[2], test=[3])


def _graphsage(path: Path) -> object:
    (path.parent / "x-class_map.json").write_text('{"0": 0, "1": 1}')
    return import_graph("graphsage", path.parent / "x")


def _gtn(path: Path) -> object:
    (path.parent / "node_features.pkl").write_bytes(pickle.dumps(np.eye(6)))
    (path.parent / "labels.pkl").write_bytes(pickle.dumps([[[0, 0]], [[1, 1]], [[2, 0]]]))
    return import_graph("gtn", path.parent)


def _table(name: str, content: bytes) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        (path.parent / name).write_bytes(content)
        return tables.build(path)

    return read


def _link_tables(path: Path) -> object:
    path.with_name("t.csv").write_text(LINK_CSV)
    graph, task = tables.build(path)
    out = path.with_name("links.npz")
    archive.write(out, graph, task, meta=graph.meta, overwrite=True)
    return load_link_task(LinkSettings(str(out)))


def _build(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        toml_file = path.with_name("graph.toml")
        toml_file.write_text(GRAPH_TOML.replace("TABLE", name))
        return tables.build(toml_file)

    return read


def _sqlite(path: Path) -> object:
    toml_file = path.with_name("graph.toml")
    toml_file.write_text(GRAPH_TOML.replace('table = "TABLE"', 'database = "d.sqlite"\ntable = "t"'))
    return tables.build(toml_file)


def _set(path: Path) -> object:
    return Config.of(toml.settings([path.read_bytes().decode("latin1")]))


def _node_ids(path: Path) -> Any:
    """Ids and names of nodes, written to an archive and read back."""
    graph, task = _graph()
    text = path.read_bytes().decode("latin1")
    graph["a"].node_id = np.array([text + str(i) for i in range(4)])
    graph["a"].node_name = np.array([text] * 4)
    out = path.with_name("ids.npz")
    archive.write(out, graph, task, overwrite=True)
    stored, _ = archive.read(out)
    assert list(stored["a"].node_id) == list(graph["a"].node_id), "ids change on the way"
    return io.BytesIO()
