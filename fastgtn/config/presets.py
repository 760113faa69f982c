"""Named sets of defaults: ours, those of the paper, and those of the authors' program of 2022."""

from typing import get_args

from fastgtn.options import Preset, Values, merged

PRESETS: tuple[Preset, ...] = get_args(Preset)  # "ours" are the defaults in the signatures of the models


def defaults_of(model: str, preset: Preset) -> Values:
    """The default values of a model under a preset."""
    from fastgtn.config.models import options_of  # the names of presets are listed without importing torch

    entry = options_of(model)
    assert entry is not None, model
    return merged(entry.settings, entry.presets.get(preset, {}))
