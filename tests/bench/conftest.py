"""A small academic graph, and one with a single relation, on disk."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive, make_planted


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "academic.npz"
    archive.write(path, *make_planted("APA", authors=90, papers=120, venues=6, terms=12, features=8, seed=1))
    return path


@pytest.fixture
def ring_file(tmp_path: Path) -> Path:
    """Sixty nodes on a ring with chords: every node has in-edges, none to itself."""
    N = 60
    generator = torch.Generator().manual_seed(0)
    around = torch.arange(N)
    edges = torch.cat([torch.stack([around, (around + step) % N]) for step in (1, 7)], 1)
    graph = HeteroData(name="ring", shared_features=True)
    graph["node"].x = torch.rand(N, 6, generator=generator)
    graph["node"].num_nodes = N
    graph["node", "next", "node"].edge_index = torch.cat([edges, edges.flip(0)], 1)
    labels = (around // 20).long()
    order = torch.randperm(N, generator=generator)
    task = NodeTask.from_labels("node", "single", labels, train=order[:20], val=order[20:30], test=order[30:])
    path = tmp_path / "ring.npz"
    archive.write(path, graph, task)
    return path
