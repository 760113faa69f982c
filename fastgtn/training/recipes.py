"""The tuned configs that come with the package: fastgtn/configs/<dataset>/<model>.toml."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError, nearest
from fastgtn.training import toml
from fastgtn.training.model_options import options_by_name

# the models by the names of their configs, and what each name says
MODELS: dict[str, dict[str, Any]] = {
    "gtn": {"name": "gtn"},
    "fast_gtn": {"name": "fast_gtn", "non_local": {"enabled": False}},
    "fast_gtn_non_local": {"name": "fast_gtn", "non_local": {"enabled": True}},
    **{name: {"name": name} for name in options_by_name() if name not in ("gtn", "fast_gtn")},
}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """The values of the tuned config; empty where there is none."""
    path = recipes().get((dataset, model))
    return {} if path is None else toml.read(path)


def model_values(model: str) -> dict[str, Any]:
    """What a model's name means in a config."""
    if model not in MODELS:
        raise InputError(f'no model "{model}"; {nearest(model, MODELS)} (fastgtn ls)')
    return {"model": MODELS[model]}


def recipes() -> dict[tuple[str, str], Path]:
    """All config files by dataset and model."""
    folder = Path(str(files("fastgtn"))) / "configs"
    return {(path.parent.name, path.stem): path for path in sorted(folder.glob("*/*.toml"))}
