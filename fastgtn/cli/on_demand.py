"""Commands that are imported when they are called, so that each starts as fast as if it were the only one."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def group_of(places: Mapping[str, str]) -> type[TyperGroup]:
    """The class of a group with these commands.

    Args:
        places: For each command, the module and the name of its function or group, as ``"package.module:name"``.
    """

    class OnDemand(TyperGroup):
        """A group that imports a command when a line names it, and all of them for its help."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = Commands(places)

    return OnDemand


class Commands(MutableMapping[str, Any]):
    """The commands of a group by name, each built when it is read for the first time."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.found: dict[str, Any] = dict.fromkeys(places)
        self.places = places

    def __getitem__(self, name: str) -> Any:
        if self.found[name] is None:
            self.found[name] = command_at(self.places[name], name)
        return self.found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self.found[name] = command

    def __delitem__(self, name: str) -> None:
        del self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def command_at(place: str, name: str) -> Any:
    """Import a function or a group and make a command of it."""
    module, attribute = place.split(":")
    found = getattr(import_module(module), attribute)
    alone = typer.Typer(rich_markup_mode="rich")
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    return typer.main.get_group(alone).commands[name]
