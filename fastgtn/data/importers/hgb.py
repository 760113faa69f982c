"""HGB's files: node.dat, link.dat, label.dat, label.dat.test and info.dat, in a folder or a zip file."""

import io
import json
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import is_bomb
from fastgtn.data.feature_matrix import feature_tensor
from fastgtn.data.importers.assemble import Array
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

LINE_BYTES, FIELD_BYTES = 120, 60  # what a line and a field take in memory, besides their text
MAX_CLASSES = 100_000  # a larger class number is a mistake, and its matrix would not fit into memory


def read(path: Path) -> tuple[HeteroData, NodeTask | None]:
    """Read one dataset; validation nodes are drawn from the training nodes when it is loaded."""
    info = _info(path)
    nodes = _Nodes(path, _names(info, "node.dat", "node type", "type"))
    graph = HeteroData()
    graph.name, graph.shared_features = path.stem.lower(), False
    for t, name in nodes.type_names.items():
        members = np.flatnonzero(nodes.types == t)
        graph[name].num_nodes = len(members)
        graph[name].node_id, graph[name].node_name = nodes.ids[members], nodes.labels_of(members)
        features = nodes.features(members, name)
        if features is not None:
            graph[name].x = feature_tensor(features, what=f"features of {name}")
    _add_links(graph, path, nodes, info)
    return graph, _task(path, nodes, info)


class _Nodes:
    """node.dat: number, name, type and features of each node, in the order of the file."""

    def __init__(self, path: Path, known_names: dict[int, str]) -> None:
        rows = _rows(path, "node.dat", at_least=3)
        self.names = [row[1] for row in rows]
        self.feature_texts = [row[3] if len(row) > 3 else "" for row in rows]
        self.ids = _integers([row[0] for row in rows], "node.dat")
        self.types = _integers([row[2] for row in rows], "node.dat")
        if len(np.unique(self.ids)) != len(self.ids):
            raise InputError(f"{path}: node.dat contains a node twice.")
        self.type_names = {int(t): known_names.get(int(t), f"type_{t}") for t in np.unique(self.types)}
        self.order = np.argsort(self.ids)
        self.local = np.empty(len(rows), np.int64)
        for t in self.type_names:
            members = np.flatnonzero(self.types == t)
            self.local[members] = np.arange(len(members))

    def find(self, ids: Array, file: str) -> Array:
        """Positions of these node numbers in the file."""
        place = np.searchsorted(self.ids, ids, sorter=self.order)
        rows = self.order[np.minimum(place, len(self.ids) - 1)]
        unknown = ids[self.ids[rows] != ids]
        if unknown.size:
            raise InputError(f"{file} refers to {unknown.size} nodes that are not in node.dat, such as {unknown[0]}.")
        return rows

    def labels_of(self, members: Array) -> Array:
        return np.array([self.names[i] for i in members])

    def features(self, members: Array, name: str) -> Array | None:
        texts = [self.feature_texts[i] for i in members]
        if not any(texts):
            return None
        try:
            return np.array([np.fromstring(text, np.float32, sep=",") for text in texts])
        except ValueError:
            raise InputError(f"node.dat gives nodes of {name} different numbers of features.") from None


def _add_links(graph: HeteroData, path: Path, nodes: _Nodes, info: dict[str, Any]) -> None:
    rows = _rows(path, "link.dat", at_least=3)
    source, target, relation = (_integers([row[i] for row in rows], "link.dat") for i in range(3))
    with np.errstate(over="ignore"):  # infinite weights are refused when the graph is stored or used
        weights = np.array([float(row[3]) if len(row) > 3 else 1.0 for row in rows]).astype(np.float32)
    source, target = nodes.find(source, "link.dat"), nodes.find(target, "link.dat")
    names = _names(info, "link.dat", "link type", "relation")
    for r in np.unique(relation):
        chosen = relation == r
        pairs = np.unique(np.stack([nodes.types[source[chosen]], nodes.types[target[chosen]]]), axis=1)
        name = names.get(int(r), f"relation_{r}")
        if pairs.shape[1] != 1:
            raise InputError(f'link.dat: relation {r} ("{name}") connects more than one pair of node types.')
        edge_type = (nodes.type_names[int(pairs[0, 0])], name, nodes.type_names[int(pairs[1, 0])])
        ends = np.stack([nodes.local[source[chosen]], nodes.local[target[chosen]]])
        graph[edge_type].edge_index = torch.from_numpy(ends)
        if (weights[chosen] != 1).any():
            graph[edge_type].edge_weight = torch.from_numpy(weights[chosen])


def _task(path: Path, nodes: _Nodes, info: dict[str, Any]) -> NodeTask | None:
    files = {name: _rows(path, name, at_least=4) for name in ("label.dat", "label.dat.test") if _has(path, name)}
    if "label.dat" not in files:
        return None
    rows = [row for part in files.values() for row in part]
    places = nodes.find(_integers([row[0] for row in rows], "label.dat"), "label.dat")
    targets = np.unique(nodes.types[places])
    if len(targets) != 1:
        raise InputError("label.dat labels nodes of more than one type; a task has one target type.")
    target = int(targets[0])
    several = [row[3].split(",") for row in rows]
    owner = np.repeat(np.arange(len(rows)), [len(labels) for labels in several])
    classes = _integers([label for labels in several for label in labels], "label.dat")
    known = info.get("label.dat", {}).get("node type", {}).get(str(target), {})
    C = max(int(classes.max()) + 1, len(known))
    if classes.min() < 0 or C > MAX_CLASSES:
        raise InputError(f"label.dat has classes from {classes.min()} to {classes.max()}; they must count from zero.")
    one_hot = torch.zeros(int((nodes.types == target).sum()), C)
    local = nodes.local[places]
    one_hot[local[owner], classes] = 1
    is_multi = any(len(labels) > 1 for labels in several)
    labels = one_hot if is_multi else torch.where(one_hot.any(1), one_hot.argmax(1), -1)
    split = len(files["label.dat"])
    return NodeTask.from_labels(
        nodes.type_names[target],
        "multi" if is_multi else "single",
        labels,
        train=torch.from_numpy(local[:split]),
        test=torch.from_numpy(local[split:]),
        class_names=_class_names(known, C),
    )


def _class_names(known: dict[str, Any], count: int) -> list[str]:
    """The names of info.dat; numbers where it gives two classes the same name."""
    names = [str(known.get(str(c), c)) for c in range(count)]
    return names if len(set(names)) == count else [str(c) for c in range(count)]


def _info(path: Path) -> dict[str, Any]:
    """Names of types, relations and classes; Freebase's info.dat is free text and contains none."""
    if not _has(path, "info.dat"):
        return {}
    with _open(path, "info.dat") as file:
        try:
            info = json.load(file)
        except ValueError:
            return {}
    return {part: value for part, value in info.items() if isinstance(value, dict)} if isinstance(info, dict) else {}


def _names(info: dict[str, Any], file: str, part: str, default: str) -> dict[int, str]:
    entries = info.get(file, {}).get(part, {})
    names = {int(k): str(v["meaning"] if isinstance(v, dict) else v) for k, v in entries.items()}
    safe = {k: name.replace("->", "-").replace("/", "-").replace(">", "-") for k, name in names.items()}
    return {k: name if list(safe.values()).count(name) == 1 else f"{default}_{k}" for k, name in safe.items()}


def _rows(path: Path, name: str, *, at_least: int) -> list[list[str]]:
    rows, memory, packed = [], 0, _packed_size(path, name)
    with _open(path, name) as file:
        for line in file:
            if not line.strip():
                continue
            rows.append(line.rstrip("\r\n").split("\t"))
            memory += len(line) + LINE_BYTES + FIELD_BYTES * len(rows[-1])
            if len(rows) % 10_000 == 0 and is_bomb(packed, memory):
                raise InputError(
                    f"{path}: {name} has {packed:,} bytes but over {len(rows):,} lines, which is too large."
                )
    short = next((i for i, row in enumerate(rows) if len(row) < at_least), None)
    if short is not None or not rows:
        where = f"line {short + 1} has {len(rows[short])}" if short is not None else "it is empty"
        raise InputError(f"{path}: {name} needs {at_least} fields per line, separated by tabs; {where}.")
    return rows


def _integers(texts: list[str], file: str) -> Array:
    try:
        return np.array(texts, dtype=np.int64)
    except (ValueError, OverflowError):
        raise InputError(f"{file} has a number, type or label that is not a whole number.") from None


def _packed_size(path: Path, name: str) -> int:
    if path.is_dir():
        return (path / name).stat().st_size if (path / name).is_file() else 0
    member = _member(path, name)
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(member).compress_size if member else 0


def _has(path: Path, name: str) -> bool:
    return (path / name).is_file() if path.is_dir() else _member(path, name) is not None


def _open(path: Path, name: str) -> IO[str]:
    if not _has(path, name):
        raise InputError(f"{path} has no {name}: give HGB's folder or zip file with node.dat and link.dat.")
    if path.is_dir():
        return (path / name).open(encoding="utf-8", errors="replace")
    archive = zipfile.ZipFile(path)
    member = archive.getinfo(str(_member(path, name)))
    if is_bomb(member.compress_size, member.file_size):
        raise InputError(f"{path}: {name} unpacks to {member.file_size:,} bytes, which is too large.")
    return io.TextIOWrapper(archive.open(member), encoding="utf-8", errors="replace")


def _member(path: Path, name: str) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.namelist() if Path(member).name == name]
    except (OSError, zipfile.BadZipFile):
        raise InputError(f"{path} is neither a folder nor a zip file with HGB's node.dat and link.dat.") from None
    return min(members, key=len) if members else None
