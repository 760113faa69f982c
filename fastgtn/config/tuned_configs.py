"""The tuned configs that come with the package: fastgtn/config/tuned/<dataset>/<model>.toml."""

from pathlib import Path
from typing import Any

from fastgtn.config import toml
from fastgtn.config.source_index import model_variants
from fastgtn.errors import InputError, nearest
from fastgtn.nn.entries import registered


def models() -> dict[str, dict[str, Any]]:
    """The models by the names of their configs, including registered ones, and the values of each name."""
    return model_variants() | {name: {"name": name} for name in registered() if name not in model_variants()}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """The values of the tuned config; empty if there is none."""
    path = recipes().get((dataset, model))
    return {} if path is None else toml.read(path)


def model_values(model: str) -> dict[str, Any]:
    """What a model's name means in a config."""
    known = models()
    if model not in known:
        raise InputError(f'no model "{model}"; {nearest(model, known)} (fastgtn ls)')
    return {"model": known[model]}


def recipes() -> dict[tuple[str, str], Path]:
    """All config files by dataset and model."""
    folder = Path(__file__).parent / "tuned"
    return {(path.parent.name, path.stem): path for path in sorted(folder.glob("*/*.toml"))}
