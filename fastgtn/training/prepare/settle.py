"""Decide before training what a config leaves open: scaling of features, path length, channels, and further keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.nn.meta_path_model import MetaPathOptions
from fastgtn.screening import Screening, ScreenOptions
from fastgtn.screening.screen import FEWEST_NODES
from fastgtn.training.build import Inputs
from fastgtn.training.prepare.decisions import Decisions
from fastgtn.training.prepare.scaling import settled_scaling
from fastgtn.training.prepare.screened import screen_inputs
from fastgtn.training.prepare.trials import decide, with_values

Progress = Callable[[int, int], None]
UNIFORM_LENGTH = 2  # hops and channels where there is no path to start from
UNIFORM_CHANNELS = 2


@dataclass(frozen=True)
class Listeners:
    """Functions that are told how far a decision is."""

    screening: Progress | None = None
    trials: Progress | None = None


def settle(
    inputs: Inputs,
    task: NodeTask,
    config: Config,
    *,
    stored: Decisions | None = None,
    progress: Listeners | None = None,
) -> tuple[Inputs, Config]:
    """Replace every "auto" by a value, and attach the decisions, from which the filters start.

    Args:
        stored: The decisions of a run that is continued; nothing is computed then.
    """
    progress = progress or Listeners()
    config = with_values(config, {"features.normalize": settled_scaling(inputs.features, config.features)})
    decisions = stored
    if decisions is None:
        screening = _screened(inputs, task, config, progress.screening)
        inputs = replace(inputs, decisions=Decisions(screening))
        complete = partial(_numbered, screening=screening)
        decisions = Decisions(screening, decide(inputs, task, config, complete, progress=progress.trials))
    config = _numbered(with_values(config, decisions.outcome), decisions.screening)
    return replace(inputs, decisions=decisions, options=config.graph), config


def _screened(inputs: Inputs, task: NodeTask, config: Config, progress: Progress | None) -> Screening | None:
    options = config.model
    if not isinstance(options, MetaPathOptions) or options.start == "uniform" or len(task.train) < FEWEST_NODES:
        return None
    limits = ScreenOptions(longest=options.longest, most_chosen=options.most_channels, seed=config.split_seed)
    return screen_inputs(inputs, task, config, options=limits, progress=progress)


def _numbered(config: Config, screening: Screening | None) -> Config:
    """The path length and the number of channels that the screened paths need."""
    options = config.model
    if not isinstance(options, MetaPathOptions):
        return config
    screening = None if options.start == "uniform" else screening
    chosen = () if screening is None else screening.chosen[: options.most_channels]
    length = max((len(path.path) for path in chosen), default=0)
    # nothing but a node's own features, or nothing at all: as many as usual
    numbers = (length, len(chosen)) if length else (UNIFORM_LENGTH, UNIFORM_CHANNELS)
    keys = dict(zip(("path_length", "num_channels"), numbers, strict=True))
    return with_values(config, {f"model.{key}": n for key, n in keys.items() if getattr(options, key) == "auto"})
