"""Tables drawn as SVG. Colours are classes, so that the style sheet decides them, by day and by night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastgtn.data.metrics import named
from fastgtn.data.number_unit import plain_number
from fastgtn.explain.faithfulness import Faithfulness
from fastgtn.report.charts.axes import Scale, grid, scale
from fastgtn.report.markup import Markup, el, number, svg
from fastgtn.report.tables import Confusion, FilterMap, HopShare, Point

WIDTH, HEIGHT = 380.0, 250.0  # small enough to stay readable on a phone
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 28.0, 38.0
COLOURS = 6


@dataclass(frozen=True)
class Line:
    """One line of a chart; `mark` is the epoch to point at."""

    name: str
    points: Sequence[Point]
    colour: int
    dashed: bool = False
    mark: int | None = None


def line_chart(title: str, y_title: str, lines: Sequence[Line], *, factor: float = 1.0) -> Markup:
    """Values over epochs."""
    values = [factor * value for line in lines for _, value in line.points]
    epochs = [float(epoch) for line in lines for epoch, _ in line.points]
    x = Scale(min(epochs, default=0.0), max(epochs, default=1.0), LEFT, WIDTH - RIGHT)
    y = scale(values, HEIGHT - BOTTOM, TOP)
    parts = grid(x, y, "epoch", y_title)
    for line in lines:
        places = [(x(epoch), y(factor * value)) for epoch, value in line.points]
        path = " ".join(f"{'L' if k else 'M'}{number(a)} {number(b)}" for k, (a, b) in enumerate(places))
        style = f"line c{line.colour % COLOURS}{' dashed' if line.dashed else ''}"
        parts.append(el("path", el("title", line.name), d=path, class_=style))
        for (a, b), (epoch, value) in zip(places, line.points, strict=True):
            if epoch == line.mark:
                note = el("title", f"{line.name}, epoch {epoch}: {factor * value:.4g}")
                parts.append(el("circle", note, cx=a, cy=b, r=4.5, class_=f"dot c{line.colour % COLOURS}"))
    return svg(WIDTH, HEIGHT, title, parts, desc=f"{len(lines)} lines over epochs", class_="chart curves")


def bar(share: float, plain: float | None = None, *, colour: int = 0) -> Markup:
    """One row of a bar chart: a share between 0 and 1, and a thin second one below it."""
    parts = [el("rect", x=0, y=0, width=100, height=16, class_="track")]
    parts.append(
        el(
            "rect",
            x=0,
            y=0,
            width=100 * min(share, 1.0),
            height=16 if plain is None else 10,
            class_=f"bar c{colour % COLOURS}",
        )
    )
    if plain is not None:
        parts.append(el("rect", x=0, y=11.5, width=100 * min(plain, 1.0), height=4.5, class_="bar second"))
    return el("svg", *parts, class_="barrow", viewBox="0 0 100 16", preserveAspectRatio="none", aria_hidden="true")


def dots(values: Sequence[float], mean: float, highest: float) -> Markup:
    """One row of a strip chart: a dot per seed and a tick at the mean."""
    x = Scale(0.0, highest or 1.0, 6.0, 194.0)
    places = apart([(x(value), 0.0) for value in values], 6.0)
    rise = max((abs(b) for _, b in places), default=0.0)
    middle = 9 + rise
    parts = [el("line", x1=6, x2=194, y1=middle, y2=middle, class_="grid")]
    parts += [el("circle", cx=a, cy=middle + b, r=3.5, class_="seed") for a, b in places]
    parts.append(el("line", x1=x(mean), x2=x(mean), y1=1, y2=2 * middle - 1, class_="mean"))
    return el("svg", *parts, class_="strip", viewBox=f"0 0 200 {number(2 * middle)}", aria_hidden="true")


def apart(places: Sequence[tuple[float, float]], distance: float) -> list[tuple[float, float]]:
    """The same places, moved up or down as little as needed so that dots of this diameter do not cover each other."""
    moved: list[tuple[float, float]] = []
    for x, y in places:
        near = [(b, distance**2 - (x - a) ** 2) for a, b in moved if abs(x - a) < distance]
        tries = [y, *(b + sign * room**0.5 for b, room in near for sign in (1, -1))]
        free = [t for t in tries if all(abs(t - b) >= room**0.5 - 1e-6 for b, room in near)]
        moved.append((x, min(free, key=lambda t: abs(t - y))))
    return moved


def heat_map(filters: FilterMap, title: str, *, labelled: bool = True) -> Markup:
    """A heat map with relations in rows and hops in columns; cells with noticeable weight have a number."""
    cell, row_height = 36.0, 24.0
    left = 8.0 + 6.2 * max(map(len, filters.relations)) if labelled else 0.0
    hops = len(filters.weights[0])
    width, height = left + cell * hops + 2, 22 + row_height * len(filters.relations) + 2
    parts = [
        el("text", str(k + 1), x=left + cell * (k + 0.5), y=14, text_anchor="middle", class_="tick")
        for k in range(hops)
    ]
    for row, (name, weights) in enumerate(zip(filters.relations, filters.weights, strict=True)):
        top = 22 + row_height * row
        if labelled:
            parts.append(el("text", name, x=left - 8, y=top + 16, text_anchor="end", class_="label"))
        for k, weight in enumerate(weights):
            note = f"hop {k + 1}, {name}: {weight:.3f}"
            parts += _cell(
                left + cell * k, top, cell, row_height, weight, f"{weight:.2f}"[1:] if weight < 1 else "1", note
            )
    return svg(
        width, height, title, parts, desc="Rows are relations, columns are hops from the target.", class_="chart heat"
    )


def confusion_chart(confusion: Confusion) -> Markup:
    """True classes in rows, predicted ones in columns; the colour is the share of the row."""
    size = len(confusion.class_names)
    cell = max(24.0, min(60.0, 320 / size))
    left = 20.0 + 6.6 * max(map(len, confusion.class_names))
    width, height = left + cell * size + 2, 46 + cell * size
    parts = [
        el("text", "predicted →", x=left, y=12, class_="axis"),
        el("text", "true ↓", x=left - 8, y=32, text_anchor="end", class_="axis"),
    ]
    for k, name in enumerate(confusion.class_names):
        heading = name if len(name) * 6.6 < cell else str(k + 1)
        label = name if heading == name else f"{name} {k + 1}"
        note = el("title", name)
        parts.append(el("text", note, heading, x=left + cell * (k + 0.5), y=32, text_anchor="middle", class_="tick"))
        parts.append(el("text", note, label, x=left - 8, y=44 + cell * (k + 0.5), text_anchor="end", class_="label"))
        total = sum(confusion.counts[k])
        for column, count in enumerate(confusion.counts[k]):
            words = f"{count} of {total} nodes of {name} were predicted as {confusion.class_names[column]}"
            share = count / max(total, 1)
            parts += _cell(left + cell * column, 40 + cell * k, cell, cell, share, str(count) if count else "", words)
    return svg(width, height, "Confusion matrix", parts, class_="chart heat confusion")


def hop_chart(shares: Sequence[HopShare]) -> Markup:
    """The share of the learned graph at each distance from the target."""
    x = Scale(0, len(shares), LEFT, WIDTH - RIGHT)
    y = scale([100 * share.weight for share in shares], 200 - BOTTOM, TOP, zero=True)
    parts = grid(x, y, "steps from the node", "share %", x_ticks=False)
    width = (x.end - x.start) / len(shares)
    for k, share in enumerate(shares):
        name = "others" if share.hops is None else str(share.hops)
        words = f"{name} steps: {100 * share.weight:.1f} %"
        place, top = x(k), y(100 * share.weight)
        bar_ = el(
            "rect",
            el("title", words),
            x=place + 0.15 * width,
            y=top,
            width=0.7 * width,
            height=y.start - top,
            class_="bar",
        )
        value = el(
            "text", f"{100 * share.weight:.1f}", x=place + width / 2, y=top - 5, text_anchor="middle", class_="tick"
        )
        label = el("text", name, x=place + width / 2, y=y.start + 16, text_anchor="middle", class_="tick")
        parts += [bar_, value, label]
    return svg(WIDTH, 200, "Shares of walks by length", parts, class_="chart hops")


def pair_chart(pairs: Sequence[tuple[float, float]]) -> Markup:
    """True numbers to the right, predicted ones upwards; the diagonal is a perfect prediction."""
    values = [value for pair in pairs for value in pair]
    x, y = scale(values, LEFT, WIDTH - RIGHT), scale(values, HEIGHT - BOTTOM, TOP)
    parts = grid(x, y, "true", "predicted")
    parts.append(el("line", x1=x(x.low), y1=y(x.low), x2=x(x.high), y2=y(x.high), class_="base"))
    for true, predicted in pairs:
        words = el("title", f"true {plain_number(true)}, predicted {plain_number(predicted)}")
        parts.append(el("circle", words, cx=x(true), cy=y(predicted), r=2.5, class_="seed"))
    return svg(WIDTH, HEIGHT, "Predicted against true", parts, desc="One dot per node.", class_="chart pairs")


def scatter(effects: Faithfulness, metric: str) -> Markup:
    """The share of each path against the change without it; numbers are ranks."""
    unit, factor = ("points", 100.0) if named(effects.metric).is_fraction else ("", 1.0)
    points = [(100 * e.weight, factor * (e.without - effects.whole), e.name) for e in effects.paths]
    x = scale([a for a, _, _ in points], LEFT, WIDTH - RIGHT - 8, zero=True)
    y = scale([b for _, b, _ in points], HEIGHT - BOTTOM, TOP + 10, zero=True)
    parts = grid(x, y, "share of the path, %", f"change of {metric} without it{', points' if unit else ''}")
    parts.append(el("line", x1=x.start, x2=WIDTH - RIGHT, y1=y(0), y2=y(0), class_="base"))
    true = [(x(share), y(change)) for share, change, _ in points]
    drawn = apart(true, 18.5)
    for (a, b), (_, moved) in zip(true, drawn, strict=True):
        if abs(moved - b) > 1:  # a thin line leads from a moved number to its place
            parts.append(el("line", x1=a, y1=b, x2=a, y2=moved, class_="lead-line"))
    for rank, ((share, change, name), (a, b)) in enumerate(zip(points, drawn, strict=True), 1):
        words = f"{name}: share {share:.1f} %, {change:+.4g} {unit} without it"
        parts.append(el("circle", el("title", words), cx=a, cy=b, r=9, class_="dot c0"))
        parts.append(el("text", str(rank), x=a, y=b + 3.8, text_anchor="middle", class_="on-dot"))
    return svg(
        WIDTH, HEIGHT, "Faithfulness against weight", parts, desc="One dot per meta-path.", class_="chart scatter"
    )


def _cell(x: float, y: float, width: float, height: float, share: float, text: str, note: str) -> list[Markup]:
    """A square whose colour is a share; light text on dark squares."""
    place = {"x": x, "y": y, "width": width - 2, "height": height - 2, "rx": 3}
    parts = [
        el("rect", class_="cell empty", **place),
        el("rect", el("title", note), class_="cell", fill_opacity=share, **place),
    ]
    if text and share >= 0.005:
        style = "value strong" if share > 0.55 else "value"
        parts.append(el("text", text, x=x + width / 2 - 1, y=y + height / 2 + 3, text_anchor="middle", class_=style))
    return parts
