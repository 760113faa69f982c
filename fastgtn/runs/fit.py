"""Train one model on a graph in memory."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_geometric.data import Data, HeteroData

from fastgtn.config import Config
from fastgtn.data import NodeTask, as_hetero
from fastgtn.runs.result import Result
from fastgtn.runs.schema import Schema
from fastgtn.runs.summary import versions
from fastgtn.training.build import Inputs, check_task, unreached
from fastgtn.training.device import chosen_device
from fastgtn.training.fit import fit_inputs
from fastgtn.training.free_memory import require_memory
from fastgtn.training.memory import plan_memory
from fastgtn.training.prepare.settle import settle
from fastgtn.training.team import ALONE


def fit(
    graph: HeteroData | Data,
    task: NodeTask | None = None,
    config: Config | Mapping[str, Any] | str | Path | None = None,
) -> Result:
    """Train on the training split, choose the epoch on the validation split, score the test split once.

    Args:
        graph: A graph of PyG. A homogeneous graph becomes a graph with one node type and one relation.
        task: The task. By default it is read from `y` and the masks of the graph, see :meth:`NodeTask.from_hetero`.
        config: A :class:`Config`, nested values such as ``{"model": {"name": "gtn"}}``, or a TOML file.
    """
    if not isinstance(config, Config):
        config = Config.from_toml(config) if isinstance(config, str | Path) else Config.of(config or {})
    chosen_device(config.fit.device, ALONE)  # a missing one is reported before paths are screened
    graph = as_hetero(graph)
    task = NodeTask.from_hetero(graph, seed=config.split_seed) if task is None else task
    check_task(graph, task)
    require_memory(plan_memory(graph, task, config), config)
    inputs = Inputs.of(graph, config)
    if warning := unreached(inputs, task, config):
        warnings.warn(warning, UserWarning, stacklevel=2)
    inputs, config = settle(inputs, task, config)
    trained = fit_inputs(inputs, task, config)
    record = {"dataset": str(getattr(graph, "name", "graph")), "versions": versions()}
    return Result.of(trained, graph, task, schema=Schema.of(graph, inputs, task), record=record, keeps_graph=True)
