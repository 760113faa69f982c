"""Decide before training what a config leaves open: scaling, normalisation, path length, channels, and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.data.number_unit import NumberScale
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.options import Values
from fastgtn.screening import Screening, ScreenOptions
from fastgtn.screening.screen import FEWEST_NODES
from fastgtn.training.build import Inputs
from fastgtn.training.prepare.decisions import Decisions
from fastgtn.training.prepare.far import far_length
from fastgtn.training.prepare.numbers import number_scales
from fastgtn.training.prepare.scaling import settled_scaling
from fastgtn.training.prepare.screened import screen_inputs
from fastgtn.training.prepare.trials import decide, with_values

Progress = Callable[[int, int], None]
EMPTY_ROWS = ("self", "zero")
UNIFORM_LENGTH = 2  # hops and channels where there is no path to start from
UNIFORM_CHANNELS = 2
LONGER_LENGTH = 3  # hops at least where a uniform channel looks for what screening has missed
MANY_EDGES = 5_000_000  # on larger graphs only the usual normalisation is screened
WORTH_A_TRIAL = 0.7  # normalisations whose paths explain less than this share of the best are not tried
TELLING = 0.25  # below this R², as on graphs without features, a regression does not tell which one is best


@dataclass(frozen=True)
class Listeners:
    """Callbacks that report the progress of the decisions."""

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
    if stored is not None:
        return _Screened(inputs, config, task.target, {config.graph.normalize: stored.screening}).settled(stored)
    screenings = _screenings(inputs, task, config, progress.screening)
    screened = _Screened(inputs, config, task.target, screenings, number_scales(task, config.fit))
    trials = decide(screened, task, progress=progress.trials)
    return screened.settled(Decisions(screened.best, trials))


@dataclass(frozen=True, eq=False)
class _Screened:
    """A graph with the screening of each normalisation that may be chosen, the best first.

    Args:
        scales: On which numbers may be learned.
    """

    inputs: Inputs
    config: Config
    target: str
    screenings: Mapping[str, Screening | None]
    scales: tuple[NumberScale, ...] = ()

    @property
    def best(self) -> Screening | None:
        return next(iter(self.screenings.values()))

    def first_values(self) -> dict[str, Any]:
        return {key: values[0] for key, values in self._open_keys()}

    def candidates(self, *, thorough: bool) -> list[dict[str, Any]]:
        """The values of each open key in turn, then the combinations of the model.

        Normalisations are compared again after the start: what a far walk needs differs from what the screened paths
        need. A thorough comparison also combines them with the values that the model names.
        """
        found: list[dict[str, Any]] = []
        for key, values in self._open_keys():
            found += [self._tried_with(key, value) | {key: value} for value in values]
            if key == "model.start":
                found += self._normalizations_again(thorough=thorough, starts=values)
        return found + self._together(self.config.model.combinations())

    def _open_keys(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The full keys with the value "auto" that trials decide, and the values to try, the usual one first."""
        chosen = () if self.best is None else self.best.chosen
        # "itself" alone is a start, too
        num_paths = max(sum(len(one.path) > 0 for one in chosen), min(len(chosen), 1))
        own_tells = self.best is None or self.best.own_is_significant
        tried = self.config.model.trials(num_paths, num_chosen=len(chosen), own_tells=own_tells)
        keys = [("graph.normalize", tuple(self.screenings)), ("graph.empty_rows", EMPTY_ROWS), *tried.items()]
        if len(self.scales) > 1 and isinstance(self.config.model, MetaPathOptions):
            keys.insert(0, ("fit.number_scale", self.scales))
        return [(key, values) for key, values in keys if self._is_open(key)]

    def _normalizations_again(self, *, thorough: bool, starts: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Each normalisation with the values so far, and with others that are better for some of them."""
        others = self.config.model.tried_with_normalizations if thorough else ()
        found = [{}, *(values for values in others if values.get("model.start", starts[0]) in starts)]
        return self._together(values | {"graph.normalize": one} for values in found for one in self.screenings)

    def _tried_with(self, key: str, value: Any) -> dict[str, Any]:
        """What the model says, as far as the keys are open."""
        others = self.config.model.tried_with(key, value)
        return {other: taken for other, taken in others.items() if self._is_open(other)}

    def _together(self, several: Iterable[Values]) -> list[dict[str, Any]]:
        """Those whose keys are all open, with what a trial of each value also takes."""
        found = []
        for values in several:
            if all(self._is_open(key) for key in values):
                together: dict[str, Any] = {}
                for key, value in values.items():
                    together |= self._tried_with(key, value)
                found.append(together | values)
        return found

    def _is_open(self, key: str) -> bool:
        section, name = key.split(".")
        return getattr(getattr(self.config, section), name, None) == "auto"

    def with_values(self, values: Mapping[str, Any]) -> tuple[Inputs, Config]:
        """Inputs and config with some values; the screened paths are those of the normalisation."""
        config = with_values(self.config, values)
        is_open = self.config.graph.empty_rows == "auto"
        if is_open and config.graph.normalize == "none":  # rows are not divided, so both values mean the same
            config = with_values(config, {"graph.empty_rows": EMPTY_ROWS[0]})
        screening = self.screenings.get(config.graph.normalize, self.best)
        config = self._numbered(config, screening)
        return replace(self.inputs, decisions=Decisions(screening), options=config.graph), config

    def settled(self, decisions: Decisions) -> tuple[Inputs, Config]:
        """The outcome of the decisions."""
        inputs, config = self.with_values(decisions.outcome)
        return replace(inputs, decisions=replace(decisions, screening=inputs.screening)), config

    def _numbered(self, config: Config, screening: Screening | None) -> Config:
        """The path length and the number of channels that the screened paths need."""
        options = config.model
        if not isinstance(options, MetaPathOptions):
            return config
        chosen = () if screening is None else screening.chosen[: options.most_started]
        length = max((len(path.path) for path in chosen), default=0)
        if options.start == "far":
            numbers = (far_length(self.inputs.raw.relations, self.target, config.graph), 1)
        elif length:
            length = max(length, LONGER_LENGTH) if options.start == "longer" else length
            numbers = (length, len(chosen) + options.has_uniform_channel)
        else:  # nothing but a node's own features, or nothing at all
            numbers = (UNIFORM_LENGTH, UNIFORM_CHANNELS)
        keys = dict(zip(("path_length", "num_channels"), numbers, strict=True))
        return with_values(config, {f"model.{key}": n for key, n in keys.items() if getattr(options, key) == "auto"})


def _screenings(
    inputs: Inputs, task: NodeTask, config: Config, progress: Progress | None
) -> dict[str, Screening | None]:
    """The screening of each normalisation that is open, by how much of the labels its paths explain.

    Ties keep the order of the model. A normalisation that clearly explains less than another one is left out.
    """
    options = config.model
    if not isinstance(options, MetaPathOptions):
        return {config.graph.normalize: None}
    open_values = config.graph.normalize == "auto"
    values = options.normalizations if open_values else (config.graph.normalize,)
    if inputs.is_timed:  # others divide by what comes later than a moment
        values = tuple(value for value in values if value != "joint") if open_values else values
    if options.start == "uniform" or len(task.train) < FEWEST_NODES:
        return {values[0]: None}
    if inputs.raw.num_edges > MANY_EDGES:
        values = values[:1]
    limits = ScreenOptions(
        longest=options.longest,
        most_chosen=options.most_screened,
        comparisons=len(values),
        seed=config.split_seed,
    )
    found: dict[str, Screening | None] = {}
    for value in values:
        changed = with_values(config, {"graph.normalize": value})
        prepared = replace(inputs, options=changed.graph)
        found[value] = screen_inputs(prepared, task, changed, options=limits, progress=progress)
    joint = {value: 0.0 if one is None else one.joint for value, one in found.items()}
    best = max(joint.values())
    kept = [value for value in values if best < TELLING or joint[value] >= WORTH_A_TRIAL * best]
    return {value: found[value] for value in sorted(kept, key=lambda value: -joint[value])}
