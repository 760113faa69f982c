"""Settings: the sections of a config, presets, tuned configs and TOML."""

from typing import TYPE_CHECKING

from fastgtn.lazy import lazy_names

if TYPE_CHECKING:
    from fastgtn.config.config import Config, FeatureOptions, FitOptions, GraphOptions, is_path, read_values

__all__ = ["Config", "FeatureOptions", "FitOptions", "GraphOptions", "is_path", "read_values"]

__getattr__, __dir__ = lazy_names(__name__, __file__)
