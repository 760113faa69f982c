"""Planetoid's files: ind.NAME.y, .tx, .ty, .allx, .ally, .graph and .test.index (Cora, Citeseer, Pubmed)."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.importers.assemble import as_csr, homogeneous, node_task, prefix_of
from fastgtn.data.importers.pickles.safe_pickle import load
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

VALIDATION_NODES = 500  # the nodes after the training nodes, as is usual for these files


def read(path: Path) -> tuple[HeteroData, NodeTask]:
    """Read one dataset; `path` is `folder/ind.NAME`, or a folder that holds only one."""
    prefix = prefix_of(path, ".graph")
    y, tx, ty, allx, ally = (
        as_csr(load(Path(f"{prefix}.{part}")), f"{prefix}.{part}") for part in ("y", "tx", "ty", "allx", "ally")
    )
    test = _test_index(Path(f"{prefix}.test.index"), ally.shape[0])
    features = _in_order(allx, tx, test)
    one_hot = _in_order(ally, ty, test).toarray()
    # Citeseer has isolated nodes without a label: all zeros
    labels = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)
    name = Path(prefix).name.removeprefix("ind.").lower()
    links = load(Path(f"{prefix}.graph"))
    graph = homogeneous(_adjacency(links, len(labels)), features, name=name)
    train_end = y.shape[0]
    val_end = min(train_end + VALIDATION_NODES, ally.shape[0])
    return graph, node_task(
        labels,
        train=torch.arange(train_end),
        val=torch.arange(train_end, val_end),
        test=torch.from_numpy(np.sort(test)),
    )


def _test_index(path: Path, first: int) -> Any:
    """Node number of each row of tx and ty, in the order of the file."""
    try:
        test = np.array(path.read_text().split(), dtype=np.int64)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except ValueError:
        raise InputError(f"{path} must contain one node number per line") from None
    if not test.size or test.min() < first or len(np.unique(test)) != len(test) or np.ptp(test) > 10 * len(test):
        raise InputError(f"{path} must contain distinct node numbers from {first} on, one per row of tx")
    return test


def _in_order(known: sp.csr_matrix, tested: sp.csr_matrix, test: Any) -> sp.csr_matrix:
    """Rows of allx, then the rows of tx at the positions that test.index gives; other positions are zero."""
    if tested.shape[0] != len(test) or tested.shape[1] != known.shape[1]:
        raise InputError(
            f"tx or ty is {tested.shape[0]} × {tested.shape[1]}; test.index has {len(test)} nodes "
            f"and allx or ally has {known.shape[1]} columns."
        )
    rows = tested.tocoo()
    shape = (int(test.max()) + 1, known.shape[1])
    placed = sp.csr_matrix((rows.data, (test[rows.row], rows.col)), shape=shape)
    padding = sp.csr_matrix((shape[0] - known.shape[0], shape[1]), dtype=known.dtype)
    return (sp.vstack([known, padding], format="csr") + placed).tocsr()


def _adjacency(links: Any, num_nodes: int) -> sp.csr_matrix:
    if not isinstance(links, dict):
        raise InputError("the .graph file must contain a dictionary: node number → list of its neighbours.")
    sources = np.repeat(
        np.fromiter(links, np.int64, len(links)), np.fromiter(map(len, links.values()), np.int64, len(links))
    )
    targets = np.fromiter((j for neighbours in links.values() for j in neighbours), np.int64, len(sources))
    ends = np.concatenate([sources, targets])
    if ends.size and not 0 <= ends.min() <= ends.max() < num_nodes:
        raise InputError(f"the .graph file links nodes outside 0 … {num_nodes - 1}.")
    links_once = sp.csr_matrix((np.ones(len(sources)), (sources, targets)), shape=(num_nodes, num_nodes))
    links_once.data[:] = 1  # Citeseer's file lists some links twice
    return links_once
