"""Scales and axes of the drawings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fastgtn.report.markup import Markup, el


@dataclass(frozen=True)
class Scale:
    """A linear map from values to places on the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        size = self.high - self.low
        return self.start + (value - self.low) / (size or 1.0) * (self.end - self.start)


def scale(values: Sequence[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """A scale over all values, widened to round numbers."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    low = min(low, 0.0) if zero else low
    high = max(high, 0.0) if zero else high
    if high - low < 1e-12:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    step = _step(low, high)
    return Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)


def ticks(of: Scale) -> list[float]:
    """Round numbers along a scale; the one number of a scale without length."""
    if of.high <= of.low:
        return [of.low]
    step = _step(of.low, of.high)
    first = math.ceil(of.low / step - 1e-9)
    return [k * step for k in range(first, math.floor(of.high / step + 1e-9) + 1)]


def grid(x: Scale, y: Scale, x_title: str, y_title: str, *, x_ticks: bool = True) -> list[Markup]:
    """Grid lines at the ticks of y, tick labels at both axes, and axis labels."""
    parts: list[Markup] = []
    for value in ticks(y):
        parts.append(el("line", x1=x.start, x2=x.end, y1=y(value), y2=y(value), class_="grid"))
        parts.append(el("text", tick_text(value), x=x.start - 6, y=y(value) + 4, text_anchor="end", class_="tick"))
    for value in ticks(x) if x_ticks else ():
        parts.append(el("text", tick_text(value), x=x(value), y=y.start + 16, text_anchor="middle", class_="tick"))
    parts.append(el("text", x_title, x=x.end, y=y.start + 32, text_anchor="end", class_="axis"))
    parts.append(el("text", y_title, x=0, y=12, class_="axis"))
    return parts


def tick_text(value: float) -> str:
    """A tick label."""
    value = 0.0 if abs(value) < 1e-12 else value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}".replace("-", "−")


def _step(low: float, high: float, count: int = 4) -> float:
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * (1 - 1e-9))
