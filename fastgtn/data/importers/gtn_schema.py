"""Infer the node types from the matrices of the relations."""

import json
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from fastgtn.data.importers.assemble import Array
from fastgtn.errors import InputError, check_regular

# Relations of the authors' folders in the order of edges.pkl; a letter stands for a node type
PUBLIC_RELATIONS = {
    "dblp": ("PA", "AP", "PC", "CP"),
    "acm": ("PA", "AP", "PS", "SP"),
    "imdb": ("MD", "DM", "MA", "AM"),
}
PUBLIC_TYPES = {
    "dblp": {"P": "paper", "A": "author", "C": "conference"},
    "acm": {"P": "paper", "A": "author", "S": "subject"},
    "imdb": {"M": "movie", "D": "director", "A": "actor"},
}


@dataclass(frozen=True)
class Schema:
    """Node types by number, and for each relation its name and the types of its rows and columns."""

    type_names: list[str]
    node_type: Array
    relation_names: list[str]
    ends: list[tuple[int, int]]


def find_schema(
    path: Path,
    matrices: list[sp.csr_matrix],
    keys: list[str] | None,
    *,
    labelled: Array,
    names_file: Path | None,
) -> Schema:
    """Take the types from the user's file, or infer them. The names for the authors' folders are known."""
    names = _read_names(names_file) if names_file else {}
    relation_names = names.get("relations", keys or [f"relation_{k}" for k in range(len(matrices))])
    if len(relation_names) != len(matrices):
        raise InputError(f"{len(relation_names)} relations are named but edges.pkl contains {len(matrices)}.")
    if "types" in names:
        node_type = _blocks(names["types"], matrices[0].shape[0])
        return Schema(list(names["types"]), node_type, relation_names, _ends(matrices, node_type, relation_names))
    node_type = infer_types(matrices, labelled)
    ends = _ends(matrices, node_type, relation_names)
    type_names = [f"type_{t}" for t in range(node_type.max() + 1)] if node_type.max() else ["node"]
    public = None if names_file else _public_names(path.resolve().name.lower(), ends)
    if public:
        relation_names, type_names = public
    return Schema(type_names, node_type, relation_names, ends)


def infer_types(matrices: list[sp.csr_matrix], labelled: Array) -> Array:
    """Number the node types in the order of their first node.

    All rows of a matrix have one type, and so do its columns. Sides that share a node have the same type. A node
    without edges is of the labelled nodes' type if it is labelled, else of the type of the node before it.
    """
    sides = []
    for matrix in matrices:
        sides += [np.diff(matrix.indptr) > 0, np.bincount(matrix.indices, minlength=matrix.shape[1]) > 0]
    side_nodes = sp.csr_matrix(np.array(sides, np.int64))
    _, group = connected_components(side_nodes @ side_nodes.T, directed=False)
    node_type = np.full(matrices[0].shape[0], -1)
    for side, nodes in enumerate(sides):
        node_type[nodes] = group[side]
    if (node_type < 0).all():
        raise InputError("edges.pkl contains no edges.")
    known = node_type[labelled][node_type[labelled] >= 0]
    if known.size:
        alone = labelled[node_type[labelled] < 0]
        node_type[alone] = np.bincount(known).argmax()
    before = np.maximum.accumulate(np.where(node_type >= 0, np.arange(len(node_type)), -1))
    first = np.flatnonzero(node_type >= 0)[0]
    node_type = node_type[np.where(before >= 0, before, first)]
    _, first_node, number = np.unique(node_type, return_index=True, return_inverse=True)
    rank: Array = np.argsort(np.argsort(first_node))
    return rank[number]


def _ends(matrices: list[sp.csr_matrix], node_type: Array, names: list[str]) -> list[tuple[int, int]]:
    ends = []
    for name, matrix in zip(names, matrices, strict=True):
        rows, columns = np.unique(node_type[matrix.nonzero()[0]]), np.unique(node_type[matrix.nonzero()[1]])
        if len(rows) != 1 or len(columns) != 1:
            trouble = "has no edges" if not len(rows) else "connects more than one pair of node types"
            raise InputError(f'relation "{name}" {trouble}; give the right types with --types, or remove the relation.')
        ends.append((int(rows[0]), int(columns[0])))
    return ends


def _public_names(folder: str, ends: list[tuple[int, int]]) -> tuple[list[str], list[str]] | None:
    """The names for one of the authors' folders, if its relations connect the types in the same way."""
    relations = PUBLIC_RELATIONS.get(folder, ())
    if len(relations) != len(ends):
        return None
    letters: dict[int, set[str]] = {}
    for relation, pair in zip(relations, ends, strict=True):
        for letter, t in zip(relation, pair, strict=True):
            letters.setdefault(t, set()).add(letter)
    if any(len(found) > 1 for found in letters.values()) or len(letters) != len(PUBLIC_TYPES[folder]):
        return None
    return list(relations), [PUBLIC_TYPES[folder][min(letters[t])] for t in sorted(letters)]


def _blocks(counts: dict[str, int], num_nodes: int) -> Array:
    if any(not isinstance(count, int) or count < 1 for count in counts.values()) or sum(counts.values()) != num_nodes:
        raise InputError(
            f"types must give the number of nodes of each type, {num_nodes} in all; got "
            + ", ".join(f"{name} = {count}" for name, count in counts.items())
        )
    bounds = np.cumsum([0, *counts.values()])
    node_type = np.zeros(num_nodes, np.int64)
    for t, (begin, end) in enumerate(pairwise(bounds)):
        node_type[begin:end] = t
    return node_type


def _read_names(path: Path) -> dict[str, Any]:
    try:
        check_regular(path)
        text = path.read_text()
        names: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable ({error})") from None
    if not isinstance(names, dict) or not names.keys() <= {"types", "relations"}:
        raise InputError(f'{path} must have `types = {{paper = 3025, …}}` and `relations = ["PA", …]`, nothing else.')
    if not isinstance(names.get("types", {}), dict) or not isinstance(names.get("relations", []), list):
        raise InputError(f"{path}: types must be a table of numbers of nodes, relations a list of names.")
    return names
