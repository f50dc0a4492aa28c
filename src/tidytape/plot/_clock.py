"""Writes the times of a figure as text, because a browser would show numbers in the time zone of its machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

import numpy as np
from matplotlib.dates import num2date
from numpy.typing import NDArray

from tidytape.plot import _style as style

Floats = NDArray[np.float64]

_DAY = 86_400_000  # [ms]
_UNITS: tuple[tuple[Literal["m", "s", "ms"], int], ...] = (("m", 60_000), ("s", 1_000), ("ms", 1))


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock with one offset from UTC, because an axis of Plotly has no time zone.

    Attributes
    ----------
    offset : timedelta
        Time that the clock adds to UTC.
    name : str
        Name of the zone, for the label of the axis.
    """

    offset: timedelta
    name: str

    @classmethod
    def of(cls, timezone: str | tzinfo, first: float, last: float) -> Clock:
        """Return a clock with the offset that a zone has at ``first``; if it differs at ``last``, the name says it."""
        zone, name = style.zone(timezone)
        offsets = [
            num2date(date).astimezone(zone).utcoffset() or timedelta(0)  # type: ignore[no-untyped-call]
            for date in (first, last)
        ]
        if offsets[0] == offsets[1]:
            return cls(offsets[0], name)
        hours = datetime(1970, 1, 1, tzinfo=UTC) + abs(offsets[0])
        sign = "-" if offsets[0] < timedelta(0) else "+"
        return cls(offsets[0], f"UTC{sign}{hours:%H:%M}, {name} at the start")

    def texts(self, dates: Floats) -> list[str | None]:
        """Return dates of matplotlib as ISO text, to the millisecond; None for NaN."""
        is_known = np.isfinite(dates)
        numbers = np.rint(np.where(is_known, dates, 0.0) * _DAY).astype(np.int64)
        numbers += int(self.offset / timedelta(milliseconds=1))
        unit = next(name for name, size in _UNITS if not (numbers[is_known] % size).any())
        texts = np.datetime_as_string(numbers.astype("datetime64[ms]"), unit=unit)
        return [str(text) if known else None for text, known in zip(texts, is_known, strict=True)]


def milliseconds(days: Floats) -> Floats:
    """Return lengths of time as Plotly takes them. [ms]"""
    return np.rint(days * _DAY)
