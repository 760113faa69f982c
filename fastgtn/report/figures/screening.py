"""The figure of a screening: what each path explains alone, with the selected ones in colour."""

from __future__ import annotations

from pathlib import Path

from fastgtn.errors import InputError
from fastgtn.report.figures.run import COLOURS, STYLE, save_figure
from fastgtn.screening import Screening

ENDINGS = (".png", ".svg", ".pdf")


def check_place(place: Path, *, force: bool) -> None:
    """Refuse a place that cannot be drawn to, before any work is done."""
    if place.suffix not in ENDINGS:
        raise InputError(f"{place} must end with one of {', '.join(ENDINGS)}, which determines the file format.")
    if place.exists() and not force:
        raise InputError(f"{place} already exists: choose another name, or overwrite it with --force.")


def plot_screening(screening: Screening, place: Path, *, top: int = 20) -> Path:
    """Draw the first paths with the level that permuted labels reach."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    paths = screening.paths[:top]
    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained", figsize=(4.8, 0.9 + 0.22 * len(paths)))
        axes = figure.subplots()
        colours = [COLOURS[0] if path.chosen else "#9ecae1" if path.is_significant else "0.8" for path in paths]
        axes.barh(range(len(paths)), [max(0.0, 100 * path.r_squared) for path in paths], color=colours)
        axes.set_yticks(range(len(paths)), [path.name for path in paths])
        axes.invert_yaxis()
        axes.set_xlabel("variance of the labels explained, % (dark: chosen; grey: not significant)")
        return save_figure(figure, place)
