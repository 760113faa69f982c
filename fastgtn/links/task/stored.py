"""The link task that an archive stores."""

from collections.abc import Mapping

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, find_relation
from fastgtn.links.negatives import NegativeKind
from fastgtn.links.task.pairs import Pairs
from fastgtn.links.task.task import LinkTask


def task_of_archive(
    graph: HeteroData, arrays: Mapping[str, Array], *, negatives: NegativeKind = "uniform", seed: int = 0
) -> LinkTask:
    """The link task that an archive stores: `lp_relation` and a sample of test pairs with labels."""
    if "lp_relation" not in arrays:
        raise InputError("the archive stores no link task: name the relation to predict with --link.")
    relation = find_relation(graph, str(arrays["lp_relation"]))
    names = (
        ("lp_eval_src", "lp_eval_dst", "lp_eval_label") if "lp_eval_src" in arrays else ("lp_src", "lp_dst", "lp_label")
    )
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"the archive names a relation to predict, but has no {', '.join(missing)}.")
    source, target, labels = (np.asarray(arrays[name]).astype(np.int64) for name in names)
    starts = _starts(graph)
    test = Pairs(source - starts[relation.source], target - starts[relation.target], labels.astype(float))
    if relation.source == relation.target:
        test = test.once()
    return LinkTask.from_pairs(graph, relation, test=test, negatives=negatives, seed=seed)


def _starts(graph: HeteroData) -> dict[str, int]:
    """The number of the first node of each type when the nodes of all types are numbered together."""
    counts = [int(graph[t].num_nodes or 0) for t in graph.node_types]
    return dict(zip(graph.node_types, np.cumsum([0, *counts]).tolist(), strict=False))
