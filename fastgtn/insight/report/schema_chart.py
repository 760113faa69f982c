"""Meta-paths drawn on the schema: node types are circles, relations are arrows that messages follow."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fastgtn.insight.ranking import RankedPath, Ranking
from fastgtn.insight.report.axes import Scale
from fastgtn.insight.report.markup import Markup, el, number, svg
from fastgtn.insight.report.names import shortened
from fastgtn.insight.report.tables import SchemaTable
from fastgtn.relations.metapaths import MetaPath

Place = tuple[float, float]
Edge = tuple[str, str, str]
WIDTH, HEIGHT, RADIUS = 230.0, 230.0, 26.0
MARGIN = 54.0  # above the highest circle and below the lowest one, for loops
MOST_TYPES, MOST_RELATIONS = 12, 60


def relation_use(ranking: Ranking) -> dict[Edge, float]:
    """What the listed paths that take a relation weigh together."""
    use: dict[Edge, float] = {}
    for ranked in ranking:
        for source, name, target in set(ranked.path.relations):
            use[source, name, target] = use.get((source, name, target), 0.0) + ranked.weight
    return use


def schema_chart(
    schema: SchemaTable, title: str, weights: Mapping[Edge, float], target: str, path: MetaPath | None = None
) -> Markup:
    """The schema with some relations emphasised, thicker where they weigh more; steps of a path are numbered."""
    places = layout(schema)
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
    return svg(
        WIDTH,
        HEIGHT,
        title,
        arrows,
        [_circle(t, places[t], schema, target, path) for t in schema.nodes],
        marks,
        class_="chart schema",
    )


def path_chart(schema: SchemaTable, ranked: RankedPath) -> Markup:
    """One meta-path on the schema."""
    edges: list[Edge] = [(r.source, r.name, r.target) for r in ranked.path.relations]
    title = f"{ranked.name}, share {100 * ranked.weight:.1f} %"
    return schema_chart(schema, title, dict.fromkeys(edges, ranked.weight), ranked.path.types[0], ranked.path)


def can_draw(schema: SchemaTable) -> bool:
    """A single type has nothing to draw, and very many types or relations are not readable."""
    return 1 < len(schema.nodes) <= MOST_TYPES and len(schema.edges) <= MOST_RELATIONS


def layout(schema: SchemaTable) -> dict[str, Place]:
    """A type that all others hang on in the middle, or all types in a circle."""
    types = list(schema.nodes)
    joined = {frozenset((s, t)) for s, _, t in schema.edges if s != t}
    hub = next((t for t in types if len(types) > 2 and joined and all(t in pair for pair in joined)), None)
    around = [t for t in types if t != hub]
    start = math.pi if len(around) == 2 else -math.pi / 2
    places: dict[str, Place] = {}
    for k, name in enumerate(around):
        angle = start + 2 * math.pi * k / len(around)
        places[name] = (WIDTH / 2 + 86 * math.cos(angle), math.sin(angle))
    if hub is not None:
        places[hub] = (WIDTH / 2, 0.0)
    low, high = min(y for _, y in places.values()), max(y for _, y in places.values())
    height = Scale(low, high, MARGIN, HEIGHT - MARGIN) if high - low > 0.1 else Scale(-1, 1, MARGIN, HEIGHT - MARGIN)
    return {name: (x, height(y)) for name, (x, y) in places.items()}


def _circle(name: str, place: Place, schema: SchemaTable, target: str, path: MetaPath | None) -> Markup:
    used = path is None or name in path.types
    style = "type" + ("" if used else " unused") + (" target" if name == target else "")
    note = el("title", f"{name}: {schema.nodes[name]:,} nodes")
    text = shortened(name, 9)
    return el(
        "g",
        note,
        el("circle", cx=place[0], cy=place[1], r=RADIUS),
        el("text", text, x=place[0], y=place[1] + 4, text_anchor="middle"),
        class_=style,
    )


def _arrow(edge: Edge, schema: SchemaTable, places: Mapping[str, Place], weight: float) -> tuple[Markup, Place]:
    """A bent arrow, parallel ones apart; and the place for its mark."""
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
        return _loop((ax, ay), bend, thickness, style, note)
    length = math.hypot(bx - ax, by - ay)
    ux, uy = (bx - ax) / length, (by - ay) / length
    cx, cy = (ax + bx) / 2 - uy * 2 * bend, (ay + by) / 2 + ux * 2 * bend  # control point of the bend
    first, last = _towards((ax, ay), (cx, cy), RADIUS + 1), _towards((bx, by), (cx, cy), RADIUS + 4 + thickness)
    line = f"M{_at(first)} Q{number(cx)} {number(cy)} {_at(last)}"
    middle = (0.25 * first[0] + 0.5 * cx + 0.25 * last[0], 0.25 * first[1] + 0.5 * cy + 0.25 * last[1])
    return el(
        "g", note, el("path", d=line, stroke_width=thickness), _head(last, (cx, cy), thickness), class_=style
    ), middle


def _loop(place: Place, bend: float, thickness: float, style: str, note: Markup) -> tuple[Markup, Place]:
    x, y = place
    outside = -1 if y < HEIGHT / 2 - 1 else 1
    side = 26 + bend
    top = y + outside * (RADIUS + bend + 14)
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
