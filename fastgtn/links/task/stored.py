"""The link task that an archive stores."""

from collections.abc import Mapping

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, find_relation
from fastgtn.links.negatives import NegativeKind
from fastgtn.links.task.pairs import Pairs
from fastgtn.links.task.task import LinkTask
from fastgtn.relations import Relation

EVALUATED = ("lp_eval_src", "lp_eval_dst", "lp_eval_label")  # the sample on which others report their scores
VAL, TEST = 1, 2  # in lp_split; 0 is training


def task_of_archive(
    graph: HeteroData, arrays: Mapping[str, Array], *, negatives: NegativeKind = "uniform", seed: int = 0
) -> LinkTask:
    """The link task that an archive stores: `lp_relation`, and pairs with their split, with labels, or with both.

    Validation links are drawn from the graph where the archive has none, and so are pairs that are not links.
    """
    relation = find_relation(graph, _only_name(graph, arrays))
    val, test = _stored_pairs(arrays)
    sample = _labelled(arrays, EVALUATED) if EVALUATED[0] in arrays else None
    if sample is not None:
        test = sample
    if test is None:
        raise InputError("the archive names a relation to predict, but lp_split has no test pairs (2).")
    numbered = [None if pairs is None else _within_types(graph, relation, pairs) for pairs in (val, test)]
    given = {} if numbered[0] is None else {"val": numbered[0]}
    assert numbered[1] is not None
    return LinkTask.from_pairs(graph, relation, test=numbered[1], negatives=negatives, seed=seed, **given)


def _only_name(graph: HeteroData, arrays: Mapping[str, Array]) -> str:
    """The relation that the archive wants predicted."""
    if "lp_relation" not in arrays:
        known = ", ".join(dict.fromkeys(name for _, name, _ in graph.edge_types))
        raise InputError(f"the archive stores no link task: name the relation to predict with --link ({known}).")
    names = [str(name) for name in np.asarray(arrays["lp_relation"]).ravel()]
    if len(names) != 1:
        raise InputError(
            f"the archive stores links of {len(names)} relations ({', '.join(names)}), and one is predicted at a "
            "time: name it with --link; its links are then split anew."
        )
    return names[0]


def _stored_pairs(arrays: Mapping[str, Array]) -> tuple[Pairs | None, Pairs | None]:
    """The pairs of validation and of the test; None where there are none. Without a split, all are the test."""
    names = ("lp_src", "lp_dst", "lp_label")
    if "lp_split" not in arrays:
        return None, None if EVALUATED[0] in arrays else _labelled(arrays, names)
    split = np.asarray(arrays["lp_split"])
    labels = arrays.get("lp_label", np.ones(len(arrays.get("lp_src", split)), np.int64))  # without labels all are links
    every = _labelled({**arrays, "lp_label": labels}, names)
    if len(split) != len(every):
        raise InputError(f"lp_split has {len(split)} entries, but there are {len(every)} pairs.")
    parts = [
        Pairs(every.source[mine], every.target[mine], every.labels[mine]) for mine in (split == VAL, split == TEST)
    ]
    val, test = (part if part.labels.any() else None for part in parts)
    return val, test


def _labelled(arrays: Mapping[str, Array], names: tuple[str, str, str]) -> Pairs:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"the archive names a relation to predict, but has no {', '.join(missing)}.")
    source, target, labels = (np.asarray(arrays[name]).astype(np.int64) for name in names)
    if not len(source) == len(target) == len(labels):
        raise InputError(f"{', '.join(names)} must have the same number of entries.")
    return Pairs(source, target, labels.astype(float))


def _within_types(graph: HeteroData, relation: Relation, pairs: Pairs) -> Pairs:
    """Pairs of nodes that are numbered within their types; without direction if both have the same type."""
    starts = _starts(graph)
    own = Pairs(pairs.source - starts[relation.source], pairs.target - starts[relation.target], pairs.labels)
    return own.once() if relation.source == relation.target else own


def _starts(graph: HeteroData) -> dict[str, int]:
    """The number of the first node of each type when the nodes of all types are numbered together."""
    counts = [int(graph[t].num_nodes or 0) for t in graph.node_types]
    return dict(zip(graph.node_types, np.cumsum([0, *counts]).tolist(), strict=False))
