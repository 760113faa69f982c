"""Write the inferred kinds of columns into graph.toml, where they can be edited."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from fastgtn.data.tables.encoding import Encoding
from fastgtn.errors import InputError

HEADER = re.compile(r"^[ \t]*\[[^\[\n]*\][ \t]*(?:#.*)?$", re.MULTILINE)
KEY = re.compile(r"^[ \t]*features[ \t]*=[ \t]*", re.MULTILINE)
Kinds = dict[str, tuple[str, str]]  # by column, its kind and the reason for it


def state_kinds(path: Path, encoding: Encoding) -> int:
    """Replace `features` of every section by a table of columns and kinds; everything else stays as it is.

    Returns the number of columns whose kind is stated.
    """
    text = path.read_text(encoding="utf-8")
    found = kinds_of(encoding)
    for section, kinds in found.items():
        text = _replaced(text, section, kinds)
    wanted = tomllib.loads(path.read_text(encoding="utf-8"))
    for (group, name), kinds in found.items():
        wanted[group][name]["features"] = _stated(wanted[group][name].get("features", []), kinds)
    if tomllib.loads(text) != wanted:  # an unusual layout: nothing is written that means something else
        raise InputError(f"{path}: the kinds cannot be written into this file; copy them from the printed table.")
    path.write_text(text, encoding="utf-8")
    return sum(map(len, found.values()))


def kinds_of(encoding: Encoding) -> dict[tuple[str, str], Kinds]:
    """The kinds of the feature columns of node tables and edge tables, by section."""
    found: dict[tuple[str, str], Kinds] = {}
    for name, nodes in encoding.nodes.items():
        own: Kinds = {c.column: (c.encoder.kind, c.why) for c in nodes.in_table}
        if own:
            found["nodes", name] = own
    for name, edges in encoding.edges.items():
        if edges.many is None:  # else they are columns of nodes
            found["relations", name] = {c.column: (c.kind, "column of edges") for c in edges.in_table}
    return found


def _stated(features: Any, kinds: Kinds) -> dict[str, Any]:
    """What the section must say afterwards; further settings of a column are kept."""
    settings = features if isinstance(features, dict) else {}
    return {
        column: {**settings[column], "kind": kind} if isinstance(settings.get(column), dict) else kind
        for column, (kind, _) in kinds.items()
    }


def _replaced(text: str, section: tuple[str, str], kinds: Kinds) -> str:
    headers = [(match, _names(match.group())) for match in HEADER.finditer(text)]
    places = {tuple(names): k for k, (_, names) in enumerate(headers) if names}
    if section not in places:
        return text
    own, sub = places[section], places.get((*section, "features"))
    start, end = headers[own][0].end(), _end(headers, own, text)
    body, settings = _without_features(text[start:end])
    if sub is not None:
        settings = tomllib.loads(text[headers[sub][0].end() : _end(headers, sub, text)])
        text = text[: headers[sub][0].start()] + text[_end(headers, sub, text) :]
        end = start + len(text[start:end]) if headers[sub][0].start() > start else end
    table = f"[{'.'.join(map(_key, (*section, 'features')))}]\n{_lines(settings, kinds)}"
    rest = text[end:].lstrip("\n")
    return f"{text[:start]}{body.rstrip()}\n\n{table}" + (f"\n{rest}" if rest else "")


def _end(headers: list[tuple[re.Match[str], list[str]]], place: int, text: str) -> int:
    return headers[place + 1][0].start() if place + 1 < len(headers) else len(text)


def _names(header: str) -> list[str]:
    """The parts of a header such as [nodes."my type"]; nothing where it is not one."""
    names: list[str] = []
    try:
        inner = tomllib.loads(header)
    except tomllib.TOMLDecodeError:
        return names
    while inner:
        names += list(inner)
        inner = inner[names[-1]]
    return names


def _without_features(body: str) -> tuple[str, dict[str, Any]]:
    """The lines of a section without its key `features`, and the value of that key if it is a table."""
    match = KEY.search(body)
    if match is None:
        return body, {}
    for closing in re.finditer(r"[\]}]", body[match.end() :]):
        end = match.end() + closing.end()
        try:
            value = tomllib.loads(body[match.start() : end])["features"]
        except tomllib.TOMLDecodeError:
            continue  # a bracket inside of the value
        line_end = body.find("\n", end)
        rest = body[line_end + 1 :] if line_end >= 0 else ""
        return body[: match.start()] + rest, value if isinstance(value, dict) else {}
    return body, {}


def _lines(settings: dict[str, Any], kinds: Kinds) -> str:
    """One line per column, with the reason as a comment."""
    width = max(len(_key(column)) for column in kinds)
    lines = []
    for column, (kind, why) in kinds.items():
        more = settings.get(column)
        values = {**more, "kind": kind} if isinstance(more, dict) else None
        words = json.dumps(kind) if values is None else _inline(values)
        lines.append(f"{_key(column):<{width}} = {words}  # {why}\n")
    return "".join(lines)


def _inline(values: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{_key(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in values.items()) + " }"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
