"""A run on a graph whose names try to break out of the page."""

from pathlib import Path

import numpy as np

from fastgtn.config import Config
from fastgtn.data import archive, make_planted
from fastgtn.runs import train

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, '"><img src=x onerror=alert(2)>', "</script><script>alert(3)</script>", "a & b \u2028 {{data}}")


def train_hostile(folder: Path, *, runs: int = 2, **model: object) -> Path:
    """Two quick seeds; every author and paper has one of the hostile names, and author 0 a hostile id as well."""
    graph, task = make_planted("APA", authors=90, papers=120, venues=6, terms=12, seed=1)
    for kind in ("author", "paper"):
        count = graph[kind].num_nodes
        graph[kind].node_name = np.array([f"{HOSTILE[k % len(HOSTILE)]} {k}" for k in range(count)])
    graph["author"].node_id = np.array([SCRIPT, *(f"id-{k}" for k in range(1, graph["author"].num_nodes))])
    archive.write(folder / "hostile.npz", graph, task, overwrite=True)
    options = {"name": "fast_gtn", "hidden": 8, "path_length": 2, "dropout": 0.0, **model}
    config = Config.of({"dataset": str(folder / "hostile.npz"), "model": options, "fit": {"epochs": 12, "runs": runs}})
    out = folder / f"run-{options['name']}-{options['path_length']}"
    train(config, out=out)
    return out
