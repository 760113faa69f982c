"""HTML and SVG as text. Every text is escaped unless it is markup already, so that no caller can forget it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

# characters that could end a script element or a line are escaped; JSON reads them as the same character
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
VOID = {"input", "meta", "br", "hr"}
Attribute = str | float | int | bool | None


class Markup(str):
    """Text that is markup. Only the functions of this file create it."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def el(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """One element: ``el("td", "a < b", class_="num")``; underscores in names of attributes become dashes."""
    words = [
        name,
        *(_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False),
    ]
    if name in VOID:
        return Markup(f"<{' '.join(words)}>")
    return Markup(f"<{' '.join(words)}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Several pieces, texts among them escaped."""
    return Markup("".join(_text(child) for child in children))


def svg(width: float, height: float, title: str, *children: Child, desc: str = "", class_: str = "chart") -> Markup:
    """A drawing that scales with its container and has a text alternative."""
    described = el("desc", desc) if desc else None
    return el(
        "svg",
        el("title", title),
        described,
        *children,
        class_=class_,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=number(width),
        height=number(height),
        role="img",
        aria_label=title,
    )


def embedded(value: Any) -> str:
    """JSON that is safe inside a script element, whatever text it contains."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def number(value: float) -> str:
    """Coordinates: two digits are finer than any screen."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_")
    name = name if name in ("viewBox", "preserveAspectRatio") else name.replace("_", "-")
    if value is True:
        return name
    text = number(value) if isinstance(value, float) else str(value)
    return f'{name}="{escape(text, quote=True)}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return str(child)
    if isinstance(child, str):
        return escape(child, quote=True)
    return "".join(_text(one) for one in child)
