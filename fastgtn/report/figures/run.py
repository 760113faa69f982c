"""The figures of a report for a paper: PNG for slides, SVG for print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastgtn.data.metrics import named, title_of
from fastgtn.errors import InputError
from fastgtn.report.tables import RunTables
from fastgtn.runs.files import write_whole

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # distinguishable for colour-blind readers
Draw = Callable[[Any, RunTables], None]
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "svg.hashsalt": "fastgtn",
    "axes.titlesize": 9,
    "legend.frameon": False,
    "text.usetex": False,
    "text.parse_math": False,
}


def check_plots(folder: Path, *, force: bool) -> None:
    """Refuse to replace figures, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give a folder with --plots.")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} already contains files: choose another folder with --plots, or overwrite files with --force."
        )


def write_plots(runs: Sequence[RunTables], folder: str | Path) -> list[Path]:
    """Draw every figure of every run; file names start with the number of the run if there are several."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    written = []
    for number, run in enumerate(runs, 1):
        prefix = f"{number}-" if len(runs) > 1 else ""
        for name, draw in figures(run).items():
            with mpl.rc_context(STYLE):
                figure = Figure(layout="constrained")
                draw(figure, run)
                for ending in ("png", "svg"):
                    written.append(save_figure(figure, Path(folder) / f"{prefix}{name}.{ending}"))
    return written


def figures(run: RunTables) -> dict[str, Draw]:
    """Which figures a run has."""
    found: dict[str, Draw] = {"curves": curves}
    if run.has_paths:
        found |= {"metapaths": metapaths, "filters": filters, "hops": hops}
    if run.judged.confusion is not None:
        found["confusion"] = confusion
    if run.faithfulness is not None and run.faithfulness.paths:
        found["faithfulness"] = faithful
    if run.stability is not None:
        found["stability"] = stable
    return found


def curves(figure: Any, run: RunTables) -> None:
    """Loss and validation metric of each seed."""
    figure.set_size_inches(6.5, 2.4)
    left, right = figure.subplots(1, 2)
    factor = 100 if named(run.metric).is_fraction else 1
    for k, curve in enumerate(run.curves):
        colour = COLOURS[k % len(COLOURS)]
        for name, style in (("loss", "-"), ("val_loss", "--")):
            left.plot(*_columns(curve.series.get(name, ())), style, color=colour, linewidth=1)
        score = curve.series.get(f"val_{run.metric}", ())
        right.plot(
            [e for e, _ in score], [factor * v for _, v in score], color=colour, linewidth=1, label=f"seed {curve.seed}"
        )
    left.set(xlabel="epoch", ylabel="loss (validation dashed)")
    right.set(xlabel="epoch", ylabel=f"validation {title_of(run.metric)}")
    if 1 < len(run.curves) <= len(COLOURS):
        right.legend()


def metapaths(figure: Any, run: RunTables) -> None:
    """Effective shares beside the paper's rule."""
    paths = run.ranking.paths
    figure.set_size_inches(4.5, 0.8 + 0.28 * len(paths))
    axes = figure.subplots()
    places = range(len(paths))
    axes.barh(
        [p - 0.18 for p in places], [100 * r.weight for r in paths], 0.36, color=COLOURS[0], label="effective share"
    )
    axes.barh(
        [p + 0.18 for p in places],
        [100 * r.plain_weight for r in paths],
        0.36,
        color=COLOURS[1],
        label="product of filters",
    )
    axes.set_yticks(list(places), [r.name for r in paths])
    axes.invert_yaxis()
    axes.set_xlabel("%")
    axes.legend(loc="lower right")


def filters(figure: Any, run: RunTables) -> None:
    """Heat maps of the filters: channels side by side, layers below each other."""
    layers = 1 + max(one.layer for one in run.filters)
    channels = 1 + max(one.channel for one in run.filters)
    rows = len(run.filters[0].relations)
    figure.set_size_inches(1.6 + 1.5 * channels, layers * (0.9 + 0.22 * rows))
    grid = figure.subplots(layers, channels, squeeze=False, sharey=True)
    image = None
    for one in run.filters:
        axes = grid[one.layer][one.channel]
        image = axes.imshow(one.weights, vmin=0, vmax=1, cmap="Blues", aspect="auto")
        axes.set_xticks(range(len(one.weights[0])), range(1, 1 + len(one.weights[0])))
        axes.set_yticks(range(rows), one.relations)
        axes.set_title(f"channel {one.channel + 1}")
        axes.set_xlabel("hop")
    figure.colorbar(image, ax=grid, shrink=0.8)


def hops(figure: Any, run: RunTables) -> None:
    """Shares of walks by their length."""
    figure.set_size_inches(3.2, 2.2)
    axes = figure.subplots()
    names = ["others" if share.hops is None else str(share.hops) for share in run.hop_shares]
    axes.bar(names, [100 * share.weight for share in run.hop_shares], color=COLOURS[0])
    axes.set(xlabel="steps from the node", ylabel="share %")


def confusion(figure: Any, run: RunTables) -> None:
    """Counts of true and predicted classes; the colour is the share of the row."""
    table = run.judged.confusion
    assert table is not None
    size = 1.6 + 0.42 * len(table.class_names)
    figure.set_size_inches(size, size)
    axes = figure.subplots()
    shares = [[count / max(sum(row), 1) for count in row] for row in table.counts]
    axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    for row, counts in enumerate(table.counts):
        for column, count in enumerate(counts):
            colour = "white" if shares[row][column] > 0.55 else "black"
            axes.text(column, row, count or "", ha="center", va="center", color=colour)
    places = range(len(table.class_names))
    axes.set_xticks(places, table.class_names, rotation=45, ha="right")
    axes.set_yticks(places, table.class_names)
    axes.set(xlabel="predicted", ylabel=f"true ({run.judged.split})")


def faithful(figure: Any, run: RunTables) -> None:
    """What is lost without each path, against its share."""
    effects = run.faithfulness
    assert effects is not None
    figure.set_size_inches(3.6, 2.8)
    axes = figure.subplots()
    factor = 100 if named(effects.metric).is_fraction else 1
    points = [(100 * e.weight, factor * (e.without - effects.whole)) for e in effects.paths]
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.scatter(*zip(*points, strict=True), color=COLOURS[0], s=18)
    for effect, point in zip(effects.paths, points, strict=True):
        if abs(point[1]) >= 1:  # the others lie on each other, at zero
            axes.annotate(effect.name, point, xytext=(4, 4), textcoords="offset points")
    axes.set(xlabel="share %", ylabel=f"change of {title_of(effects.metric)} without it")


def stable(figure: Any, run: RunTables) -> None:
    """The weight of each path in each seed."""
    assert run.stability is not None
    paths = run.stability.paths
    figure.set_size_inches(4.5, 0.8 + 0.22 * len(paths))
    axes = figure.subplots()
    for place, path in enumerate(paths):
        weights = [100 * weight for weight in run.seed_weights[path.name]]
        axes.plot(weights, [place] * len(weights), "o", color=COLOURS[0], alpha=0.5, markersize=4)
        axes.plot(100 * path.mean, place, "|", color="black", markersize=10)
    axes.set_yticks(range(len(paths)), [path.name for path in paths])
    axes.invert_yaxis()
    axes.set_xlabel("share %, a dot per seed")


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [epoch for epoch, _ in points], [value for _, value in points]


def save_figure(figure: Any, path: Path) -> Path:
    """Write one figure; the ending of the path decides the format."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(
        path.suffix, {}
    )  # the same tables give the same file
    write_whole(path, lambda temporary: figure.savefig(temporary, metadata=metadata))
    return path
