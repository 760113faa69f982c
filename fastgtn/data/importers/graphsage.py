"""GraphSAGE's files: NAME-G.json, NAME-feats.npy, NAME-class_map.json, NAME-id_map.json (PPI, Reddit)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.importers.assemble import Array, homogeneous, node_task, prefix_of
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError


def read(path: Path) -> tuple[HeteroData, NodeTask]:
    """Read one dataset; `path` is `folder/NAME`, or a folder with only one dataset."""
    prefix = prefix_of(path, "-G.json")
    links = _json(Path(f"{prefix}-G.json"))
    if not isinstance(links, dict) or not {"nodes", "links"} <= links.keys():
        raise InputError(f'{prefix}-G.json must be a graph in node-link form, with "nodes" and "links".')
    row_of = _rows(links["nodes"], Path(f"{prefix}-id_map.json"))
    features = _features(Path(f"{prefix}-feats.npy"))
    graph = homogeneous(
        _adjacency(links, row_of),
        features,
        name=Path(prefix).name.lower(),
        directed=bool(links.get("directed", False)),
    )
    ids: list[Any] = [None] * len(row_of)
    for node, row in row_of.items():
        ids[row] = node
    graph["node"].node_id = np.array(ids)
    labels = _labels(Path(f"{prefix}-class_map.json"), row_of)
    return graph, _task(links["nodes"], row_of, labels)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable JSON ({error})") from None


def _rows(nodes: Any, id_map: Path) -> dict[str, int]:
    """The feature row of each node id. JSON keys are text, so ids are compared as text."""
    ids = [str(node.get("id")) for node in nodes]
    rows = {str(node): int(row) for node, row in _json(id_map).items()} if id_map.exists() else None
    rows = rows or {node: row for row, node in enumerate(ids)}
    if rows.keys() != set(ids) or len(ids) != len(rows) or set(rows.values()) != set(range(len(ids))):
        raise InputError(f"{id_map} must give each of the {len(ids)} nodes of -G.json a distinct row, from zero on.")
    return rows


def _features(path: Path) -> Array | None:
    if not path.exists():
        return None  # features are optional in GraphSAGE's files
    try:
        features: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a readable array of numbers ({error})") from None
    return features


def _adjacency(links: dict[str, Any], row_of: dict[str, int]) -> sp.csr_matrix:
    """Link ends are ids or positions in the list of nodes, depending on the version of networkx."""
    nodes, ends = links["nodes"], [(link["source"], link["target"]) for link in links["links"]]
    flat = [end for pair in ends for end in pair]
    rows_by_place = [row_of[str(node["id"])] for node in nodes]
    if all(str(end) in row_of for end in flat):
        rows = [row_of[str(end)] for end in flat]
    elif all(isinstance(end, int) and 0 <= end < len(nodes) for end in flat):
        rows = [rows_by_place[end] for end in flat]
    else:
        unknown = next(end for end in flat if str(end) not in row_of)
        raise InputError(f"-G.json has a link to the node {unknown!r}, which is not in its list of nodes.")
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    weights = np.ones(len(pairs), np.float32)
    matrix = sp.csr_matrix((weights, (pairs[:, 0], pairs[:, 1])), shape=(len(row_of), len(row_of)))
    matrix.data[:] = 1  # a link may be listed in both directions
    return matrix


def _labels(path: Path, row_of: dict[str, int]) -> Array:
    classes = {str(node): label for node, label in _json(path).items()}
    missing = row_of.keys() - classes.keys()
    if missing:
        raise InputError(f"{path} has no class for {len(missing)} nodes, among them {min(missing)!r}.")
    in_row_order = sorted(row_of, key=row_of.__getitem__)
    try:
        return np.array([classes[node] for node in in_row_order], dtype=np.int64)
    except (ValueError, TypeError):
        raise InputError(f"{path} must give every node one number, or lists of zeros and ones of one length.") from None


def _task(nodes: list[dict[str, Any]], row_of: dict[str, int], labels: Array) -> NodeTask:
    split = np.zeros(len(nodes), np.int64)
    for node in nodes:
        split[row_of[str(node["id"])]] = 2 if node.get("test") else 1 if node.get("val") else 0
    train, val, test = (torch.from_numpy(np.flatnonzero(split == part)) for part in range(3))
    return node_task(labels, train=train, val=val if len(val) else None, test=test)
