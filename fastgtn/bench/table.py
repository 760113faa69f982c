"""A table with remarks, as Markdown and as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fastgtn.bench.measure import markdown


@dataclass(frozen=True)
class Table:
    """One table of a benchmark; cells are the printed texts."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        return f"### {self.title}\n\n{markdown(self.header, self.rows)}"


@dataclass(frozen=True)
class Report:
    """The output of one benchmark: tables, remarks and the underlying numbers."""

    title: str
    command: str
    tables: list[Table]
    values: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The page, ready for a README."""
        parts = [f"## {self.title}", f"`{self.command}`", *(table.markdown() for table in self.tables)]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts) + "\n"


def spread(scores: dict[str, float] | None, digits: int = 2, *, seeds: int) -> str:
    """Mean ± standard deviation in points; one seed has no deviation."""
    if scores is None:
        return "–"
    deviation = f" ± {100 * scores['std']:.{digits}f}" if seeds > 1 else ""
    return f"{100 * scores['mean']:.{digits}f}{deviation}"


def meaning(seeds: Sequence[int]) -> str:
    """What the scores of a table are."""
    if len(seeds) == 1:
        return f"Test scores in points, of seed {seeds[0]}"
    return f"Test scores in points, mean ± sample standard deviation of the seeds {seeds[0]} … {seeds[-1]}"


def bold_best(cells: Sequence[str], values: Sequence[float | None]) -> list[str]:
    """The same cells with the largest value in bold."""
    best = max((value for value in values if value is not None), default=None)
    return [f"**{c}**" if v is not None and v == best else c for c, v in zip(cells, values, strict=True)]
