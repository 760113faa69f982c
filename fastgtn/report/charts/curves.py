"""Training curves as tables, thinned to the resolution of a chart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fastgtn.report.tables import Curve, Point
from fastgtn.training.loop import Record

MOST_POINTS = 150


def curve(seed: int, best_epoch: int, history: Sequence[Record], names: Sequence[str]) -> Curve:
    """The named values of one history, if present. The chosen epoch is always kept."""
    kept = thinned([int(record["epoch"]) for record in history], best_epoch)
    rows = [record for record in history if record["epoch"] in kept]
    series = {
        name: tuple((int(record["epoch"]), float(record[name])) for record in rows if name in record) for name in names
    }
    return Curve(seed, best_epoch, {name: points for name, points in series.items() if points})


def mean_curve(histories: Sequence[Sequence[Record]], name: str) -> tuple[Point, ...]:
    """The mean over seeds, up to the last epoch that all of them reached."""
    values = [{int(r["epoch"]): float(r[name]) for r in history if name in r} for history in histories]
    common = sorted(set.intersection(*(set(v) for v in values))) if values else []
    kept = thinned(common, -1)
    return tuple((epoch, statistics.fmean(v[epoch] for v in values)) for epoch in common if epoch in kept)


def thinned(epochs: Sequence[int], always: int) -> set[int]:
    """Evenly spaced epochs with the first and the last of them, and `always`."""
    if len(epochs) <= MOST_POINTS:
        return set(epochs)
    step = (len(epochs) - 1) / (MOST_POINTS - 1)
    return {epochs[round(k * step)] for k in range(MOST_POINTS)} | {always}
