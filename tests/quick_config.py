"""A config that trains in a fraction of a second."""

from typing import Any

from fastgtn.config import Config

TWO_HOPS: dict[str, Any] = {"path_length": 2, "num_channels": 2, "start": "uniform"}  # nothing is left to screening
META_PATH_MODELS = ("fast_gtn", "fast_gtn_non_local", "gtn")


def quick(dataset: object = "planted", **sections: Any) -> Config:
    """Eight epochs of a narrow model; sections override."""
    small: dict[str, Any] = {"model": {"hidden": 8, "head_dropout": 0.0}, "fit": {"epochs": 8, "checkpoint_every": 3}}
    if sections.get("model", {}).get("name", "fast_gtn") in META_PATH_MODELS:
        small["model"] |= TWO_HOPS
    return Config.of({"dataset": str(dataset)}, small, sections)
