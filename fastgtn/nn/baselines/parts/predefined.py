"""Meta-paths given by the user: parse them, and build their graphs."""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fastgtn.errors import InputError, nearest
from fastgtn.relations import IDENTITY, Relation, RelationStack
from fastgtn.relations.kernels.compile import kernel
from fastgtn.relations.paths.metapath import MetaPath, PathNames

Written = str | Sequence[str]  # "APA", or the names of relations from the target outwards: ["PA", "AP"]


def metapaths_of(relations: Sequence[Relation], written: Sequence[Written] = ()) -> tuple[MetaPath, ...]:
    """The meta-paths that the user wrote, or all that leave a node type and return in the next step."""
    proper = [relation for relation in relations if relation != IDENTITY]
    found = [_round_trip(path, proper) for path in written] or [
        MetaPath.of([out, back])
        for out in proper
        for back in proper
        if out.source != out.target and (back.source, back.target) == (out.target, out.source)
    ]
    if not found:
        raise InputError(
            "HAN needs meta-paths that return to the type they start from, over another type; this graph has none. "
            "Use a model for homogeneous graphs, or add paths over its relations to model.metapaths."
        )
    return tuple(dict.fromkeys(found))


def neighbors_along(stack: RelationStack, path: MetaPath, nodes: Tensor, most: int) -> Tensor:
    """Edges [from; to] between nodes that the path connects, and from each node to itself.

    Args:
        nodes: The nodes of the path's type in the order of their new numbers.
        most: Keep this many neighbours with the most path instances; 0 for all.
    """
    half = len(path) // 2  # the halves are much sparser than the whole path: APC and CPA before APCPA
    left, right = (_product(stack, part) for part in (path.relations[:half], path.relations[half:]))
    joined = (left[nodes.numpy()] @ right[:, nodes.numpy()]).tocsr()
    joined.setdiag(0)
    joined.eliminate_zeros()
    to, start = _heaviest(joined.indptr, joined.indices, joined.data, nodes.numpy(), most or len(nodes))
    every = np.arange(len(nodes))
    return torch.from_numpy(np.stack([np.append(start, every), np.append(to, every)]))


def _product(stack: RelationStack, relations: Sequence[Relation]) -> sp.csr_matrix:
    """The number of path instances between each pair of nodes."""
    shape = (stack.num_nodes, stack.num_nodes)
    product = sp.identity(stack.num_nodes, dtype=np.float64, format="csr")
    for relation in relations:
        rows, cols, _ = stack[stack.relations.index(relation)].coordinates()
        product = product @ sp.csr_matrix((np.ones(len(rows)), (rows.numpy(), cols.numpy())), shape)
    return product


@kernel
def _heaviest(
    ptr: np.ndarray, col: np.ndarray, counts: np.ndarray, nodes: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """At most this many entries per row. A hash of both nodes breaks ties, since ids may carry information."""
    rows, cols = np.empty(len(col), np.int64), np.empty(len(col), np.int64)
    size = 0
    for i in range(len(ptr) - 1):
        count = ptr[i + 1] - ptr[i]
        scores = np.empty(count)
        for e in range(count):
            mixed = np.uint64(nodes[i]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(nodes[col[ptr[i] + e]])
            mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
            scores[e] = counts[ptr[i] + e] + float(mixed >> np.uint64(12)) / 4503599627370496.0
        least = np.partition(scores, count - most)[count - most] if count > most else 0.0
        for e in range(count):
            if scores[e] >= least:
                rows[size], cols[size] = i, col[ptr[i] + e]
                size += 1
    return rows[:size], cols[:size]


def _round_trip(written: Written, relations: Sequence[Relation]) -> MetaPath:
    path = _from_letters(written, relations) if isinstance(written, str) else _from_names(written, relations)
    if path.types[0] != path.types[-1]:
        raise InputError(
            f"a meta-path of model.metapaths must end where it begins, but {_shown(written)} leads from "
            f"{path.types[0]} to {path.types[-1]}."
        )
    return path


def _from_letters(written: str, relations: Sequence[Relation]) -> MetaPath:
    """``APCPA``; with the relation in brackets if several connect two types: ``A[writes]PA``."""
    types = sorted({end for relation in relations for end in relation[::2]})
    letters = PathNames(types, relations).letters
    beginnings = "|".join(re.escape(word) for word in sorted(letters.values(), key=len, reverse=True))
    if not re.fullmatch(rf"(?:(?:\[[^\]]+\])?(?:{beginnings}))+", written):
        known = ", ".join(f"{letters[t]} {t}" for t in types)
        raise InputError(f'the meta-path "{written}" cannot be read: write the letters of node types ({known}).')
    words = re.findall(rf"(?:\[([^\]]+)\])?({beginnings})", written)
    named = {letter: node_type for node_type, letter in letters.items()}
    steps = []
    for (_, near), (name, far) in pairwise(words):
        found = [r for r in relations if (r.target, r.source) == (named[near], named[far]) and name in ("", r.name)]
        if len(found) != 1:
            options = ", ".join(r.name for r in relations if (r.target, r.source) == (named[near], named[far]))
            hint = (
                f"name one of them in brackets: {options}" if options else "no relation connects them in this direction"
            )
            raise InputError(f'the meta-path "{written}" goes from {named[near]} to {named[far]}: {hint}.')
        steps += found
    if not steps:
        raise InputError(f'the meta-path "{written}" has no step: write at least two letters.')
    return MetaPath.of(steps)


def _from_names(written: Sequence[str], relations: Sequence[Relation]) -> MetaPath:
    steps = []
    for name in written:
        found = [r for r in relations if name in (r.name, str(r))]
        if len(found) != 1:
            answer = f"several relations have that name: {', '.join(map(str, found))}" if found else ""
            raise InputError(f'no relation "{name}"; {answer or nearest(name, [r.name for r in relations])}')
        steps += found
    try:
        return MetaPath.of(steps)
    except ValueError as error:
        raise InputError(f"the meta-path {_shown(written)} is broken: {error}") from None


def _shown(written: Written) -> str:
    return f'"{written}"' if isinstance(written, str) else f"[{', '.join(written)}]"
