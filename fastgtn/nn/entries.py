"""The entries of the models that have been imported. Reading their names imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.nn.backbone_options import BackboneOptions

_ENTRIES: dict[str, type[BackboneOptions]] = {}


def register(name: str, options: type[BackboneOptions]) -> None:
    """Make a model known under a value of `model.name`."""
    if name in _ENTRIES:
        raise InputError(f'a model "{name}" already exists: choose another name.')
    _ENTRIES[name] = options


def registered() -> dict[str, type[BackboneOptions]]:
    """The entry of each model that has been imported, by the value of `model.name`."""
    return dict(_ENTRIES)
