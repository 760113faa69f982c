"""The split of each node, as a number and as a word."""

import numpy as np

from fastgtn.data import NodeTask

SPLITS = np.array(["none", "train", "val", "test"])


def split_codes(count: int, task: NodeTask | None) -> np.ndarray:
    """The index in `SPLITS` of each node."""
    codes = np.zeros(count, np.int8)
    if task is not None:
        for code, nodes in enumerate((task.train.nodes, task.val.nodes, task.test_nodes), 1):
            codes[nodes.numpy()] = code
    return codes
