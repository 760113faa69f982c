"""MATLAB files with Network, Attributes and Label (BlogCatalog, Flickr)."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from torch_geometric.data import HeteroData

from fastgtn.data.importers.assemble import as_csr, homogeneous, node_task
from fastgtn.data.splits import draw_split
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError, nearest

FRACTIONS = (0.1, 0.2, 0.7)  # the file has no split; these are the paper's shares


def read(path: Path) -> tuple[HeteroData, NodeTask]:
    """Read one .mat file (up to version 7); the split is drawn class by class with seed 0."""
    variables = _variables(path)
    adjacency = as_csr(variables["Network"], f"{path}: Network")
    features = as_csr(variables["Attributes"], f"{path}: Attributes")
    graph = homogeneous(adjacency, features, name=path.stem.lower())
    labels = np.asarray(variables["Label"])
    labels = labels.reshape(-1) if 1 in labels.shape else labels
    if len(labels) != graph["node"].num_nodes or labels.dtype.kind not in "biuf":
        raise InputError(f"{path}: Label must be a number for each of the {graph['node'].num_nodes} nodes.")
    train, val, test = draw_split(labels, FRACTIONS, seed=0)
    return graph, node_task(labels, train=train, val=val, test=test)


def _variables(path: Path) -> dict[str, Any]:
    needed = ("Network", "Attributes", "Label")
    try:
        variables: dict[str, Any] = scipy.io.loadmat(path, variable_names=needed)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except NotImplementedError:
        raise InputError(f"{path} is a MATLAB 7.3 file; save it again with `save -v7`.") from None
    except Exception as error:  # a damaged file may fail anywhere in the reader
        raise InputError(f"{path} is not a readable MATLAB file ({type(error).__name__}: {error})") from None
    for name in needed:
        if name not in variables:
            present = [info[0] for info in scipy.io.whosmat(path)]
            raise InputError(f"{path} has no variable {name}; {nearest(name, present)}")
    return variables
