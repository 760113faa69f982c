"""A small academic graph, in memory and on disk."""

from pathlib import Path

import pytest
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive, make_planted


@pytest.fixture(scope="session")
def academic() -> tuple[HeteroData, NodeTask]:
    """Sixty authors whose label is the topic of their papers' other authors."""
    return make_planted("APA", authors=90, papers=120, venues=6, terms=12, features=8, seed=1)


@pytest.fixture
def graph_file(academic: tuple[HeteroData, NodeTask], tmp_path: Path) -> Path:
    path = tmp_path / "academic.npz"
    archive.write(path, *academic)
    return path
