"""What was decided before the training of a run, in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastgtn.config import Config, toml
from fastgtn.errors import InputError
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.runs.files import damaged
from fastgtn.runs.records import Facts, checked
from fastgtn.screening import Screening, ScreenOptions
from fastgtn.screening.screen import FEWEST_NODES
from fastgtn.training.prepare.decisions import Decisions
from fastgtn.training.prepare.screened import screen_inputs

if TYPE_CHECKING:
    from fastgtn.runs.result import Result

DECISIONS = "decisions.json"
SCREENING = "screening.json"  # what earlier versions kept of it


class _Path(Facts):
    path: str
    types: list[str]
    relations: list[list[str]]
    r_squared: float
    p_value: float
    added: float
    chosen: int | None


class _Screening(Facts):
    target: str
    joint_r_squared: float
    paths: list[_Path]
    nodes: int
    train_nodes: int
    longest: int
    permutations: int
    seconds: float
    not_looked_at: list[str]
    sketched_to: int


class _Trial(Facts):
    values: dict[str, Any]
    score: float | None
    seconds: float
    kept: bool


class _Decisions(Facts):
    screening: _Screening | None
    trials: list[_Trial]


def stored_decisions(folder: Path, config: Config | None = None) -> Decisions | None:
    """What was decided when a run began; None if the run stopped before that.

    Args:
        config: The config of the run, if the values of the trials will be used. It must have left their keys open.
    """
    for name in (DECISIONS, SCREENING):
        path = folder / name
        if path.exists():
            is_new = name == DECISIONS
            values = checked(path, _Decisions if is_new else _Screening)
            try:
                found = Decisions.from_dict(values if is_new else {"screening": values, "trials": []})
                if config is not None:
                    _require_open(found, config)
            except (TypeError, InputError) as error:  # relations of other than three names; other values
                raise damaged(path, error) from None
            return found
    return None


def _require_open(decisions: Decisions, config: Config) -> None:
    """Trials decide keys with the value "auto" only, and what they decide can be stated in a config."""
    stated = config.model_dump()
    is_open = {key for key, value in toml.flat(stated).items() if value == "auto"}
    for trial in decisions.trials:
        if others := trial.values.keys() - is_open:
            raise InputError(f'the config does not leave "{min(others)}" to trials')
        Config.of(stated, toml.nested(trial.values))


def screening_of(result: Result) -> Screening | None:
    """The screening that a result started from, or one of its graph; None with too few training nodes."""
    kept = result.inputs.screening or _kept(result.run or (result.folder and result.folder.parent))
    options = result.config.model
    if kept is not None or len(result.task.train) < FEWEST_NODES or not isinstance(options, MetaPathOptions):
        return kept
    limits = ScreenOptions(longest=options.longest, seed=result.config.split_seed)
    return screen_inputs(result.inputs, result.task, result.config, options=limits)


def _kept(folder: Path | None) -> Screening | None:
    """The screening in the folder of a run; None where there is none, or where its file cannot be read."""
    try:
        found = None if folder is None else stored_decisions(folder)
    except InputError:
        return None
    return None if found is None else found.screening
