"""Tables for notebooks and prompts. Names come from files that are not trusted, so HTML is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A small table with a title, for `_repr_html_`."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><strong>{escape(title)}</strong>{table}</div>"


def text_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same table as plain text, for `__repr__`; columns of numbers are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    aligned = [_aligned([title, *(row[number] for row in cells)]) for number, title in enumerate(columns)]
    return "\n".join([title, *("  ".join(line).rstrip() for line in zip(*aligned, strict=True))])


def _aligned(column: list[str]) -> list[str]:
    width = max(map(len, column))
    is_number = all(cell[:1] in "+-–0123456789" for cell in column[1:])  # also true of empty cells
    return [cell.rjust(width) if is_number and any(column[1:]) else cell.ljust(width) for cell in column]
