"""A config that trains in a fraction of a second."""

from typing import Any

from fastgtn.training import Config


def quick(dataset: object = "planted", **sections: Any) -> Config:
    """Eight epochs of a narrow model; sections override."""
    small = {"model": {"hidden": 8, "head_dropout": 0.0}, "fit": {"epochs": 8, "checkpoint_every": 3}}
    return Config.of({"dataset": str(dataset)}, small, sections)
