"""Feature columns that were derived from the label."""

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.archive.decode import Labels

FEWEST_NODES = 20  # of fewer, a column may agree by chance
FEWEST_OF_CLASS = 5
MOST_VALUES = 50_000_000
NEARLY_ONE = 1 - 1e-6  # features have single precision


def label_copies(graph: HeteroData, labels: Labels) -> list[str]:
    """Columns of the target type that say the same as the label, for every training and validation node.

    Of classes, a column that is constant within each class and differs between classes; of numbers, one that lies on a
    line with the first of them.
    """
    store = graph[labels.target]
    if "x" not in store or labels.kind in ("multi", "ranking"):
        return []
    known = torch.as_tensor(labels.train if labels.val is None else np.concatenate([labels.train, labels.val]))
    y = labels.labels[known]
    has_label = torch.isfinite(y).all(1) if labels.kind == "number" else y >= 0
    known, y = known[has_label], y[has_label]
    if len(known) < FEWEST_NODES or len(known) * store.x.size(1) > MOST_VALUES:
        return []
    x = (store.x.to_dense() if store.x.layout != torch.strided else store.x)[known].double()
    found = _on_a_line(x, y[:, 0].double()) if labels.kind == "number" else _constant_in_classes(x, y)
    meta = graph.meta if "meta" in graph else {}
    names = meta.get("features", {}).get(labels.target, []) if isinstance(meta, dict) else []
    return [str(names[c]) if len(names) == x.size(1) else f"column {c}" for c in found.nonzero().flatten().tolist()]


def _constant_in_classes(x: Tensor, y: Tensor) -> Tensor:
    """Columns with one value in each class, of which there are at least two, and not the same one in all."""
    classes, counts = y.unique(return_counts=True)
    if len(classes) < 2 or int(counts.min()) < FEWEST_OF_CLASS:
        return torch.zeros(x.size(1), dtype=torch.bool)
    lowest, highest = (torch.stack([getattr(x[y == c], end)(0) for c in classes]) for end in ("amin", "amax"))
    return (lowest == highest).all(0) & (lowest.amin(0) < lowest.amax(0))


def _on_a_line(x: Tensor, y: Tensor) -> Tensor:
    x, y = x - x.mean(0), y - y.mean()
    scale = x.norm(dim=0) * y.norm()
    return (scale > 0) & ((y @ x).abs() >= NEARLY_ONE * scale)
