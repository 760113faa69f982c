"""GAug's files: NAME_adj.pkl, NAME_features.pkl, NAME_labels.pkl, NAME_tvt_nids.pkl (Air-USA, PPI, …)."""

from pathlib import Path

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.data.importers.assemble import as_csr, homogeneous, node_task, prefix_of
from fastgtn.data.importers.pickles.safe_pickle import load
from fastgtn.data.task import NodeTask
from fastgtn.data.task_inputs import node_numbers
from fastgtn.errors import InputError


def read(path: Path) -> tuple[HeteroData, NodeTask]:
    """Read one dataset; `path` is `folder/NAME`, or a folder with only one dataset."""
    prefix = prefix_of(path, "_adj.pkl")
    adjacency, features, labels, splits = (
        load(Path(f"{prefix}_{part}.pkl")) for part in ("adj", "features", "labels", "tvt_nids")
    )
    graph = homogeneous(
        as_csr(adjacency, f"{prefix}_adj.pkl"),
        as_csr(features, f"{prefix}_features.pkl"),
        name=Path(prefix).name.lower(),
    )
    labels, N = np.asarray(labels), graph["node"].num_nodes
    if len(labels) != N:
        raise InputError(f"{prefix}_labels.pkl has {len(labels)} rows but the graph has {N} nodes.")
    if not isinstance(splits, list | tuple) or len(splits) != 3:
        raise InputError(f"{prefix}_tvt_nids.pkl must contain three lists of nodes: train, validation and test.")
    train, val, test = (node_numbers(s, N, name) for s, name in zip(splits, ("train", "val", "test"), strict=True))
    return graph, node_task(labels, train=train, val=val, test=test)
