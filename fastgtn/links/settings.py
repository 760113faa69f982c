"""What a link run depends on: from options of a command, or from a TOML file with a section `[link]`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from fastgtn.config import read_values, toml
from fastgtn.config.tuned_configs import model_values
from fastgtn.errors import InputError, nearest
from fastgtn.links.learned.options import JOINED, encoder_config
from fastgtn.links.metrics import SELECTED_BY
from fastgtn.links.negatives import NegativeKind
from fastgtn.links.task import SplitBy
from fastgtn.options import Values, merged

KEYS = ("relation", "negatives", "split", "longest")  # of the section [link]


@dataclass(frozen=True)
class LinkSettings:
    """Everything that decides the result of a link run.

    Args:
        dataset: A name of the data folder, or the path of an archive.
        relation: The relation to predict; None takes the one that the graph names.
        negatives: How pairs that are not links are drawn; None for what the graph says, else "uniform".
        split: How links are divided; None for what the graph says, else "random".
        longest: The most steps between a source and a target.
        model: "joined_paths", or the name of an encoder.
        values: Nested values of the encoder's config.
    """

    dataset: str
    relation: str | None = None
    negatives: NegativeKind | None = None
    split: SplitBy | None = None
    longest: int = 4
    seed: int = 0
    model: str = JOINED
    values: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.negatives, get_args(NegativeKind), "way to draw negatives"),
            (self.split, get_args(SplitBy), "split"),
        ):
            if value is not None and value not in known:
                raise InputError(f'no {what} "{value}"; {nearest(str(value), known)}')
        if self.relation is not None and not isinstance(self.relation, str):
            raise InputError(f"link.relation must be the name of a relation, but got {self.relation!r}.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"fit.seed must be a whole number, but got {self.seed!r}.")
        if isinstance(self.longest, bool) or not isinstance(self.longest, int) or not 1 <= self.longest <= 8:
            raise InputError(f"link.longest must be a number of steps between 1 and 8, but got {self.longest!r}.")

    @staticmethod
    def of(values: Values) -> LinkSettings:
        """From nested values, as in a TOML file: `dataset`, `[link]`, and the sections of a config."""
        rest = {key: value for key, value in values.items() if key not in ("dataset", "link")}
        given = _section(values, "link")
        for key in given:
            if key not in KEYS:
                raise InputError(f'no config key "link.{key}"; {nearest(key, KEYS)}')
        if "dataset" not in values:
            raise InputError("a link task needs a graph: give an archive with --graph, or a name with --dataset.")
        section = _section(rest, "model")
        name = str(section.pop("name", JOINED))
        if name != JOINED:
            model_values(name)
        fit = _section(rest, "fit")
        seed = fit.pop("seed", 0)
        kept = {key: value for key, value in (rest | {"model": section, "fit": fit}).items() if value not in ({}, None)}
        settings = LinkSettings(str(values["dataset"]), **given, seed=seed, model=name, values=kept)
        settings.check()
        return settings

    @staticmethod
    def from_toml(path: Path, *layers: Values) -> LinkSettings:
        """From a file and values over it; a path to a graph is relative to the file."""
        values = read_values(path)
        for layer in layers:
            values = merged(values, layer)
        return LinkSettings.of(values)

    @property
    def select_by(self) -> str:
        """The validation metric that chooses; "auto" for that of the task."""
        return str(_section(self.values, "fit").get("select_by", "auto"))

    @property
    def runs(self) -> int:
        """The number of seeds, `fit.runs`."""
        return int(_section(self.values, "fit").get("runs", 1))

    def check(self) -> None:
        """Refuse keys that the model does not have, before anything is trained."""
        if self.select_by not in ("auto", *SELECTED_BY):
            raise InputError(
                f'no metric "{self.select_by}" for links; {nearest(self.select_by, ("auto", *SELECTED_BY))}'
            )
        if self.model != JOINED:
            encoder_config(self.model, self.values, seed=self.seed)
            return
        wrong = [key for key in toml.flat(self.values) if key not in ("fit.runs", "fit.select_by")]
        if wrong:
            raise InputError(
                f"the joined meta-path model has no key {wrong[0]}: choose an encoder with --model, such as fast_gtn."
            )
        runs = _section(self.values, "fit").get("runs", 1)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise InputError(f"fit.runs must be a whole number of seeds, at least 1, but got {runs!r}.")
        if self.select_by in ("loss", "last"):
            raise InputError(f'fit.select_by = "{self.select_by}" needs epochs, which joined meta-paths do not have.')

    def nested(self) -> Values:
        """The settings as nested values, from which :meth:`of` makes the same settings again."""
        link = {key: getattr(self, key) for key in KEYS if getattr(self, key) is not None}
        rest = merged(self.values, {"model": {"name": self.model}})
        return {"dataset": self.dataset, "link": link, **merged(rest, {"fit": {"seed": self.seed}})}

    def to_toml(self) -> str:
        """The settings as a file that gives the same settings again."""
        return toml.dump(self.nested())

    def to_json(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


def _section(values: Values, name: str) -> Values:
    """A copy of a section; empty if there is none."""
    found = values.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{name} must be a section with keys, but got {name} = {found!r}.")
    return dict(found)
