"""A small academic run whose authors have ids and names."""

from pathlib import Path

import numpy as np
import pytest
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import NodeTask, make_planted
from fastgtn.runs import Result


@pytest.fixture(scope="session")
def academic() -> tuple[HeteroData, NodeTask]:
    """Ninety authors with ids such as a-07 and names, of which two are the same."""
    graph, task = make_planted("APA", authors=90, papers=120, venues=6, terms=12, features=8, seed=1)
    graph["author"].node_id = np.array([f"a-{n:02}" for n in range(90)])
    graph["author"].node_name = np.array([f"Ada {max(n, 1)}" for n in range(90)])
    return graph, task


@pytest.fixture(scope="session")
def run_folder(academic: tuple[HeteroData, NodeTask], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fastgtn.fit(*academic, quick()).save(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def run(run_folder: Path) -> Result:
    """Opened anew, so that nothing is computed yet."""
    return fastgtn.load_run(run_folder)
