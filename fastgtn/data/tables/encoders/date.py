"""Dates and times: how long ago, the year, and the month, weekday and hour as points on a circle."""

import re
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastgtn.data.tables.columns import Array, is_list, is_text, without_missing_words
from fastgtn.data.tables.config import Feature
from fastgtn.data.tables.encoders.encoded import Encoded
from fastgtn.errors import InputError
from fastgtn.options import Section

ISO_DATE = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)?$"
OTHER_DATE = r"^(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2})(\D.*)?$"
UNIX = {"unix": 1.0, "unix_ms": 1e-3}  # formats of numbers: seconds or milliseconds since 1970
DAY = 86400.0
YEAR = 365.25 * DAY


class DateEncoder(Section):
    """Age in years before the latest date that was seen, year, and cycles; a missing date is a row of zeros."""

    kind: Literal["date"] = "date"
    format: str | None
    latest: float  # seconds since 1970
    age: tuple[float, float]  # mean and deviation, years
    year: tuple[float, float]
    has_hours: bool
    has_missing: bool

    @staticmethod
    def fit(column: pa.ChunkedArray, feature: Feature, what: str) -> "DateEncoder":
        """Find the latest date, and mean and deviation of age and year."""
        seconds = seconds_of(column, feature.format, what)
        seen = seconds[~np.isnan(seconds)]
        if not seen.size:
            raise InputError(f"{what} has no date in any row; leave it out.")
        latest = float(seen.max())
        return DateEncoder(
            format=feature.format,
            latest=latest,
            age=_moments((latest - seen) / YEAR),
            year=_moments(_parts(seen)[0]),
            has_hours=bool((seen % DAY != 0).any()),
            has_missing=bool(np.isnan(seconds).any()),
        )

    @property
    def names(self) -> list[str]:
        cycles = ["month", "weekday", *(["hour"] if self.has_hours else [])]
        waves = [f"{cycle} {wave}" for cycle in cycles for wave in ("sine", "cosine")]
        return ["age", "year", *waves, *(["missing"] if self.has_missing else [])]

    def encode(self, column: pa.ChunkedArray, what: str) -> Encoded:
        seconds = seconds_of(column, self.format, what)
        missing = np.isnan(seconds)
        seen = np.where(missing, self.latest, seconds)
        year, month, weekday, hour = _parts(seen)
        parts = [_standard((self.latest - seen) / YEAR, self.age), _standard(year, self.year)]
        cycles = [(month, 12), (weekday, 7), *([(hour, 24)] if self.has_hours else [])]
        for value, period in cycles:
            angle = 2 * np.pi * value / period
            parts += [np.sin(angle), np.cos(angle)]
        block = np.where(missing[:, None], 0.0, np.stack(parts, 1))
        if self.has_missing:
            block = np.hstack([block, missing[:, None]])
        return Encoded(block.astype(np.float32), missing=int(missing.sum()))


def looks_like_dates(column: pa.ChunkedArray) -> bool:
    """Whether every text is a date such as 2024-05-31, with or without a time."""
    if not is_text(column):
        return False
    matches = pc.match_substring_regex(without_missing_words(column).drop_null(), ISO_DATE)
    return bool(len(matches)) and bool(pc.all(matches).as_py())


def format_hint(column: pa.ChunkedArray) -> str | None:
    """The format that dates such as 31.05.2024 probably have; None if the texts are no such dates."""
    seen = without_missing_words(column).drop_null()
    if not len(seen) or not pc.all(pc.match_substring_regex(seen, OTHER_DATE)).as_py():
        return None
    sign = re.findall(r"[./-]", first := seen[0].as_py())[0]
    return sign.join(("%Y", "%m", "%d") if first[:4].isdigit() else ("%d", "%m", "%Y"))


def seconds_of(column: pa.ChunkedArray, date_format: str | None, what: str) -> Array:
    """Seconds since 1970 as float64, NaN for a missing date."""
    if is_list(column):
        raise InputError(f"{what} holds lists, not dates.")
    if date_format in UNIX:
        if is_text(column):
            raise InputError(f'{what} has the format "{date_format}", which needs numbers, but holds text.')
        stamps: Any = np.asarray(column.cast(pa.float64()).combine_chunks().fill_null(np.nan))
        return stamps * UNIX[date_format]
    if not is_text(column) and date_format is None:
        raise InputError(
            f'{what} holds numbers; state how to read them as dates: format = "unix" (seconds since 1970), "unix_ms", '
            'or as in "%Y%m%d".'
        )
    texts = without_missing_words(column.cast(pa.large_string())).combine_chunks()
    try:
        if date_format is None:
            local = pc.replace_substring_regex(texts, r"(Z|[+-]\d{2}(:?\d{2})?)$", "") if _has_zones(texts) else texts
            stamps = local.cast(pa.timestamp("us"))
        else:
            stamps = pc.strptime(texts, format=date_format, unit="us")
    except pa.ArrowInvalid as error:
        found = re.search(r"'.*'", str(error), re.DOTALL)  # the first text that is no date
        held = f"holds {found[0]}" if found else "holds other text"
        if date_format is not None:
            raise InputError(f'{what} has the format "{date_format}", but {held}.') from None
        raise InputError(
            f"{what} must be dates such as 2024-05-31 or 2024-05-31 12:30, but {held}. Correct it, or state another "
            'format, as in { kind = "date", format = "%d.%m.%Y" }.'
        ) from None
    seconds = np.asarray(stamps.cast(pa.int64()).cast(pa.float64(), safe=False).fill_null(np.nan))
    return seconds / 1e6


def _has_zones(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, r"T?\d{2}:\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$")).as_py())


def _parts(seconds: Array) -> tuple[Array, Array, Array, Array]:
    """Year, month (0 to 11, with its fraction), weekday (0 = Monday) and hour."""
    days = np.floor(seconds / DAY)
    dates = days.astype(np.int64).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    year = dates.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + (dates - months).astype(np.int64) / 31
    return year.astype(np.float64), month, (days + 3) % 7, (seconds - days * DAY) / 3600


def _moments(values: Array) -> tuple[float, float]:
    deviation = float(values.std())
    return float(values.mean()), deviation if deviation > 0 else 1.0


def _standard(values: Array, moments: tuple[float, float]) -> Array:
    return (values - moments[0]) / moments[1]
