"""The two streams as consoles of rich, which is imported when a command prints for people."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastgtn.cli.output import plain


class PlainConsole(Console):
    """A console on which only the program itself may style the text: all of it is made plain first."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(plain_object, objects), **options)


def plain_object(value: Any) -> Any:
    """A text, or a table of texts, with control codes shown as text."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Text) and plain(value.plain) != value.plain:
        return Text(plain(value.plain), style=value.style)
    if isinstance(value, Table):
        for column in value.columns:
            column.header = plain_object(column.header)
            column._cells = [plain_object(cell) for cell in column._cells]
    return value


stdout = PlainConsole(highlight=False, emoji=False, soft_wrap=True)  # a name such as ":key:" is printed as it is
stderr = PlainConsole(stderr=True, highlight=False, emoji=False, soft_wrap=True)
