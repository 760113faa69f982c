"""Meta-paths drawn on the schema: node types are circles, relations are arrows that messages follow."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from fastgtn.explain.ranking import RankedPath, Ranking
from fastgtn.relations.paths.metapath import MetaPath, PathNames
from fastgtn.report.charts.axes import Scale
from fastgtn.report.markup import Markup, el, number, svg
from fastgtn.report.tables import SchemaTable

Place = tuple[float, float]
Edge = tuple[str, str, str]
RADIUS = 24.0
RING = 86.0  # radius of the ellipse of types, at least
GAP = 18.0  # between two circles
LETTERS = 15  # of a line of a name; a longer name has several lines
LETTER, LINE = 5.9, 12.0  # width and height of a letter
LOOP = 40.0  # height of a loop above its circle
FEW_TYPES = 7  # with more types, names stand beside the circles
MOST_TYPES, MOST_RELATIONS = 12, 60


def relation_use(ranking: Ranking) -> dict[Edge, float]:
    """The total weight of the listed paths that use a relation."""
    use: dict[Edge, float] = {}
    for ranked in ranking:
        for source, name, target in set(ranked.path.relations):
            use[source, name, target] = use.get((source, name, target), 0.0) + ranked.weight
    return use


def schema_chart(
    schema: SchemaTable, title: str, weights: Mapping[Edge, float], target: str, path: MetaPath | None = None
) -> Markup:
    """The schema with some relations emphasised, thicker for larger weights; the steps of a path are numbered."""
    places, size = layout(schema), canvas(schema)
    steps: dict[Edge, list[int]] = {}
    for step, relation in enumerate(path.relations if path else (), 1):
        steps.setdefault((relation.source, relation.name, relation.target), []).append(step)
    arrows, marks = [], []
    for edge in sorted(schema.edges, key=lambda e: weights.get(e, 0.0)):
        line, middle = _arrow(edge, schema, places, weights.get(edge, 0.0))
        arrows.append(line)
        if edge in steps:
            marks.append(el("circle", cx=middle[0], cy=middle[1], r=9, class_="step"))
            words = ",".join(map(str, steps[edge]))
            marks.append(el("text", words, x=middle[0], y=middle[1] + 4, text_anchor="middle", class_="step-text"))
    circles = [_circle(t, places[t], schema, target, path) for t in schema.nodes]
    names = [_name(t, places[t], schema, path) for t in schema.nodes]  # above the circles, so that none covers them
    return svg(*size, title, arrows, circles, names, marks, class_="chart schema")


def path_chart(schema: SchemaTable, ranked: RankedPath) -> Markup:
    """One meta-path on the schema."""
    edges: list[Edge] = [(r.source, r.name, r.target) for r in ranked.path.relations]
    title = f"{ranked.name}, share {100 * ranked.weight:.1f} %"
    return schema_chart(schema, title, dict.fromkeys(edges, ranked.weight), ranked.path.types[0], ranked.path)


def can_draw(schema: SchemaTable) -> bool:
    """A single type has nothing to draw, and very many types or relations are not readable."""
    return 1 < len(schema.nodes) <= MOST_TYPES and len(schema.edges) <= MOST_RELATIONS


def canvas(schema: SchemaTable) -> Place:
    """Width and height of the drawing: names stand above and below the circles, and none is cut."""
    ring = _ring(schema)
    width = max((min(len(name), LETTERS) for name in schema.nodes), default=1) * LETTER
    if _is_crowded(schema):  # names stand beside the circles
        return 2 * (ring + RADIUS + width) + 20, 2 * ring + 2 * _margin(schema)
    return 2 * ring + max(width, 2 * RADIUS) + 12, 1.8 * ring + 2 * _margin(schema)


def layout(schema: SchemaTable) -> dict[str, Place]:
    """Put the type that all others are connected to in the middle, or all types on a circle."""
    types, (width, height), ring = list(schema.nodes), canvas(schema), _ring(schema)
    hub = _hub(schema)
    around = [t for t in types if t != hub]
    start = math.pi if len(around) == 2 else -math.pi / 2
    places: dict[str, Place] = {}
    for k, name in enumerate(around):
        angle = start + 2 * math.pi * k / len(around)
        places[name] = (width / 2 + ring * math.cos(angle), math.sin(angle))
    if hub is not None:
        places[hub] = (width / 2, 0.0)
    low, high = min(y for _, y in places.values()), max(y for _, y in places.values())
    top = _margin(schema)
    rows = Scale(low, high, top, height - top) if high - low > 0.1 else Scale(-1, 1, top, height - top)
    return {name: (x, rows(y)) for name, (x, y) in places.items()}


def _hub(schema: SchemaTable) -> str | None:
    """The type that all others are connected to, if there is one."""
    types, joined = list(schema.nodes), {frozenset((s, t)) for s, _, t in schema.edges if s != t}
    return next((t for t in types if len(types) > 2 and joined and all(t in pair for pair in joined)), None)


def _is_crowded(schema: SchemaTable) -> bool:
    return len(schema.nodes) > FEW_TYPES


def _ring(schema: SchemaTable) -> float:
    """Large enough that neighbouring circles do not touch."""
    around = len(schema.nodes) - (_hub(schema) is not None)
    return max(RING, (2 * RADIUS + GAP) / (2 * math.sin(math.pi / around)) if around > 2 else RING)


def _margin(schema: SchemaTable) -> float:
    """Above the highest circle and below the lowest one: the lines of a name, and a loop."""
    lines = max((len(name_lines(name)) for name in schema.nodes), default=1)
    return RADIUS + 6 + LINE * lines + (LOOP if any(s == t for s, _, t in schema.edges) else 0.0)


def name_lines(name: str) -> list[str]:
    """A name in lines, broken after spaces, underscores and hyphens where there are any."""
    lines = [""]
    for word in re.split(r"(?<=[\s_.:/-])", name):
        for start in range(0, len(word), LETTERS):
            part = word[start : start + LETTERS]
            if len(lines[-1]) + len(part.rstrip()) > LETTERS:
                lines.append("")
            lines[-1] += part
    return [line.strip() for line in lines if line.strip()] or [name]


def _circle(name: str, place: Place, schema: SchemaTable, target: str, path: MetaPath | None) -> Markup:
    """A circle with the letters that the names of paths use."""
    letters, (x, y) = PathNames(list(schema.nodes), ()).letters[name], place
    fits = len(letters) * 6.4 < 2 * RADIUS - 6
    return el(
        "g",
        el("title", f"{name}: {schema.nodes[name]:,} nodes"),
        el("circle", cx=x, cy=y, r=RADIUS),
        el("text", letters, x=x, y=y + 4, text_anchor="middle", class_="letters") if fits else None,
        class_=_style(name, path) + (" target" if name == target else ""),
    )


def _style(name: str, path: MetaPath | None) -> str:
    return "type" if path is None or name in path.types else "type unused"


def _name(name: str, place: Place, schema: SchemaTable, path: MetaPath | None) -> Markup:
    """The whole name of a type, outside of its circle."""
    lines, (x, y), (width, height) = name_lines(name), place, canvas(schema)
    is_above = y < height / 2 - 1
    away = RADIUS + 4 + (LOOP if any(e[0] == e[2] == name for e in schema.edges) else 0.0)
    first = y - away - LINE * (len(lines) - 1) if is_above else y + away + 9
    anchor, left = "middle", x
    if name == _hub(schema) and len(schema.nodes) > 3:  # its arrows leave room at the upper right only
        anchor, left, first = "start", x + 0.8 * RADIUS, y - 0.85 * RADIUS - LINE * (len(lines) - 1)
    elif _is_crowded(schema) and abs(x - width / 2) > RADIUS:
        side = 1 if x > width / 2 else -1
        anchor, left = ("start" if side > 0 else "end"), x + side * (RADIUS + 4)
        first = y + 4 - LINE * (len(lines) - 1) / 2
    texts = [
        el("text", line, x=left, y=first + LINE * k, text_anchor=anchor, class_="name") for k, line in enumerate(lines)
    ]
    return el("g", texts, class_=_style(name, path))


def _arrow(edge: Edge, schema: SchemaTable, places: Mapping[str, Place], weight: float) -> tuple[Markup, Place]:
    """A curved arrow, apart from parallel ones, and the position of its label."""
    source, name, target = edge
    note = el(
        "title",
        f"{source} → {target} ({name}), {schema.edges[edge]:,} edges" + (f", {100 * weight:.1f} %" if weight else ""),
    )
    thickness = 1.2 + 7 * min(weight, 1.0) if weight else 1.0
    style = "relation used" if weight else "relation"
    twins = [e for e in schema.edges if (e[0], e[2]) == (source, target)]
    bend = 15.0 + 16.0 * twins.index(edge)
    (ax, ay), (bx, by) = places[source], places[target]
    if source == target:
        return _loop((ax, ay), canvas(schema)[1], thickness, style, note)
    length = math.hypot(bx - ax, by - ay)
    ux, uy = (bx - ax) / length, (by - ay) / length
    cx, cy = (ax + bx) / 2 - uy * 2 * bend, (ay + by) / 2 + ux * 2 * bend  # control point of the bend
    first, last = _towards((ax, ay), (cx, cy), RADIUS + 1), _towards((bx, by), (cx, cy), RADIUS + 4 + thickness)
    line = f"M{_at(first)} Q{number(cx)} {number(cy)} {_at(last)}"
    middle = (0.25 * first[0] + 0.5 * cx + 0.25 * last[0], 0.25 * first[1] + 0.5 * cy + 0.25 * last[1])
    return el(
        "g", note, el("path", d=line, stroke_width=thickness), _head(last, (cx, cy), thickness), class_=style
    ), middle


def _loop(place: Place, height: float, thickness: float, style: str, note: Markup) -> tuple[Markup, Place]:
    x, y = place
    outside = -1 if y < height / 2 - 1 else 1
    side = 40.0
    top = y + outside * (RADIUS + LOOP)
    start, end = (
        (x - 0.7 * RADIUS, y + outside * 0.75 * RADIUS),
        (x + 0.75 * RADIUS + thickness, y + outside * 0.9 * RADIUS),
    )
    line = f"M{_at(start)} C{number(x - side)} {number(top)} {number(x + side)} {number(top)} {_at(end)}"
    middle = (x, 0.125 * start[1] + 0.75 * top + 0.125 * end[1])
    return el(
        "g", note, el("path", d=line, stroke_width=thickness), _head(end, (x + side, top), thickness), class_=style
    ), middle


def _head(tip: Place, come_from: Place, thickness: float) -> Markup:
    """A triangle at the end of a line."""
    length = math.hypot(tip[0] - come_from[0], tip[1] - come_from[1]) or 1.0
    ux, uy = (tip[0] - come_from[0]) / length, (tip[1] - come_from[1]) / length
    size = 3.5 + 0.9 * thickness
    ahead = (tip[0] + ux * size * 0.9, tip[1] + uy * size * 0.9)
    corners = [(tip[0] - uy * size, tip[1] + ux * size), (tip[0] + uy * size, tip[1] - ux * size)]
    return el("polygon", points=" ".join(_at(corner) for corner in (ahead, *corners)))


def _towards(start: Place, end: Place, distance: float) -> Place:
    length = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    return start[0] + (end[0] - start[0]) * distance / length, start[1] + (end[1] - start[1]) * distance / length


def _at(place: Place) -> str:
    return f"{number(place[0])} {number(place[1])}"
