"""Screening with a config: the relations and features are those that the model would read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch_geometric.data import HeteroData

from fastgtn.config import Config
from fastgtn.data import NodeTask, Split
from fastgtn.errors import InputError
from fastgtn.nn import MetaPathModel
from fastgtn.screening import Screening, ScreenOptions, screen
from fastgtn.screening.tested import Progress
from fastgtn.training.build import Inputs, check_task
from fastgtn.training.prepare.numbers import with_stable_numbers

MOST_MOMENTS = 16  # moments of training nodes are rounded down to this many: each of them needs a graph


def screen_metapaths(
    graph: HeteroData,
    task: NodeTask,
    config: Config | Mapping[str, Any] | None = None,
    *,
    progress: Progress | None = None,
    **limits: Any,
) -> Screening:
    """Test every meta-path on the training labels, before any training; see :func:`fastgtn.screening.screen`.

    Args:
        config: How the graph is prepared; by default as FastGTN reads it.
        limits: Fields of :class:`ScreenOptions`, such as ``longest=3`` or ``max_seconds=10``.
    """
    config = config if isinstance(config, Config) else Config.of(config or {})
    check_task(graph, task)
    options = ScreenOptions(seed=config.fit.seed)
    try:
        options = replace(options, **limits)
    except TypeError:
        known = ", ".join(ScreenOptions.__dataclass_fields__)
        raise InputError(f"screening has no limit named {', '.join(limits)}; the limits are {known}.") from None
    return screen_inputs(Inputs.of(graph, config), task, config, options=options, progress=progress)


def screen_inputs(
    inputs: Inputs,
    task: NodeTask,
    config: Config,
    *,
    options: ScreenOptions | None = None,
    progress: Progress | None = None,
) -> Screening:
    """The same for a graph that has been prepared."""
    model = config.model.module
    if not issubclass(model, MetaPathModel):
        raise InputError(
            f'screening is for models that learn meta-paths, GTN and FastGTN, not for "{config.model.name}".'
        )
    options = options or ScreenOptions()
    task = with_stable_numbers(task, config.fit)
    rows = inputs.rows(task.target, task.train.nodes)
    inputs, places = inputs.seen_by(rows, options.longest, most_moments=MOST_MOMENTS)
    nodes = places - inputs.raw.nodes_of(task.target).start
    seen = replace(task, train=Split(nodes, task.train.labels))
    return screen(
        inputs.stack, inputs.features, seen, means=model.divides_by_degrees, options=options, progress=progress
    )
