"""Units of time, the names of intervals, and half-open spans.

Inside tidytape, a time is a whole number of nanoseconds since the epoch, in UTC. The lengths here are in nanoseconds
too.

Examples
--------
>>> DAY // HOUR
24
>>> without((0, 10), [(4, 6)])
[(0, 4), (6, 10)]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tidytape.catalogue import Interval
from tidytape.errors import QueryError, did_you_mean

__all__ = [
    "DAY",
    "HOUR",
    "INTERVALS",
    "MICROSECOND",
    "MILLISECOND",
    "MINUTE",
    "MONDAY",
    "SECOND",
    "UNITS",
    "UNIT_SECONDS",
    "WEEK",
    "YEAR",
    "AnyInterval",
    "FrameInterval",
    "Span",
    "frame_interval",
    "intersected",
    "interval_hint",
    "interval_of",
    "union",
    "without",
]

MICROSECOND: Final = 1_000
"""One microsecond. [ns]"""

MILLISECOND: Final = 1_000 * MICROSECOND
"""One millisecond. [ns]"""

SECOND: Final = 1_000 * MILLISECOND
"""One second. [ns]"""

MINUTE: Final = 60 * SECOND
"""One minute. [ns]"""

HOUR: Final = 60 * MINUTE
"""One hour. [ns]"""

DAY: Final = 24 * HOUR
"""One day. [ns]"""

WEEK: Final = 7 * DAY
"""One week. [ns]"""

YEAR: Final = 365 * DAY
"""One year as option pricing counts it. [ns]"""

MONDAY: Final = Interval.WEEK.offset * SECOND
"""The first Monday after the epoch. Hours, days and weeks that are counted from it begin when intervals do. [ns]"""

INTERVALS: Final = {name: interval for interval in Interval for name in (interval.value, interval.alias)}
"""Every interval, by its name and by its alias."""

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""The units of the words for intervals. [s]"""

UNIT_SECONDS: Final = {
    word: seconds
    for seconds, words in zip(
        UNITS.values(),
        ("s sec second seconds", "m min minute minutes", "h hr hour hours", "d day days", "w week weeks"),
        strict=True,
    )
    for word in words.split()
} | {interval.value.lower(): interval.seconds for interval in Interval}
"""Words for a length of time, in lower case. [s]"""

_WORD: Final = re.compile(r"(\d{0,6}) ?([a-z_]+)", re.ASCII)

Span = tuple[int, int]
"""A stretch of time, start inclusive, end exclusive."""


def interval_of(name: str | timedelta) -> Interval:
    """Return the interval with this name or alias, or of this length.

    Parameters
    ----------
    name : str or timedelta
        An ``Interval``, its name, its alias or its length. Other lengths have no name for a column of intervals.

    Returns
    -------
    Interval

    Raises
    ------
    QueryError
        If there is no such interval.

    Examples
    --------
    >>> interval_of("4h").seconds
    14400
    >>> interval_of(timedelta(hours=4)).alias
    '4h'
    """
    if isinstance(name, timedelta):
        interval = next((known for known in Interval if timedelta(seconds=known.seconds) == name), None)
    else:
        interval = INTERVALS.get(str(name))
    if interval is None:
        raise QueryError(
            "interval",
            got=name,
            expected="one of " + ", ".join(interval.alias for interval in Interval),
            hint=interval_hint(name) or did_you_mean(str(name), INTERVALS),
            code="INVALID_INTERVAL",
        )
    return interval


@dataclass(frozen=True, slots=True)
class FrameInterval:
    """An interval of a frame: any whole number of seconds up to a week. The service has the eight of `Interval`.

    Intervals start at whole multiples of their length since the Unix epoch in UTC, weeks on Mondays.

    Examples
    --------
    >>> FrameInterval(7200).alias, FrameInterval(604_800).alias, FrameInterval(90).alias
    ('2h', '1w', '90s')
    """

    seconds: int

    @property
    def nanoseconds(self) -> int:
        """Its length. [ns]"""
        return self.seconds * SECOND

    @property
    def offset(self) -> int:
        """When an interval starts, after the epoch. [s]"""
        return Interval.WEEK.offset if self.seconds == Interval.WEEK.seconds else 0

    @property
    def alias(self) -> str:
        """The word for it in a column ``interval``."""
        unit = next(unit for unit in reversed(UNITS) if self.seconds % UNITS[unit] == 0)
        return f"{self.seconds // UNITS[unit]}{unit}"


def interval_hint(name: object) -> str | None:
    """Return what to write in place of a word that is no interval; None if its length is not known.

    Examples
    --------
    >>> interval_hint("60min"), interval_hint("2h")
    ("did you mean '1h'?", None)
    >>> interval_hint("1mo")
    "months have no fixed length: take '1d' or '1w', and combine its rows by month"
    """
    word = str(name).strip()
    match = _WORD.fullmatch(word.lower())
    if match and (match[2].startswith("mo") or word.endswith(("M", "ME"))):
        return "months have no fixed length: take '1d' or '1w', and combine its rows by month"
    seconds = int(match[1] or 1) * UNIT_SECONDS.get(match[2], 0) if match else 0
    same = next((interval.alias for interval in Interval if interval.seconds == seconds), None)
    return f"did you mean {same!r}?" if same else None


def frame_interval(name: str | timedelta) -> FrameInterval:
    """Return the interval of a frame with this name or length.

    Parameters
    ----------
    name : str or timedelta
        A number and a unit in any case, such as ``"2h"``, ``"1H"``, ``"60min"`` and ``"3d"``; a unit alone, such as
        ``"day"``; the name of an `Interval`; or a length.

    Returns
    -------
    FrameInterval

    Raises
    ------
    QueryError
        If it is no whole number of seconds up to a week. ``"1M"`` is refused, because elsewhere it is a month.

    Examples
    --------
    >>> frame_interval("60min").alias, frame_interval("FOUR_HOURS").alias, frame_interval(timedelta(days=3)).alias
    ('1h', '4h', '3d')
    """
    seconds = 0
    if isinstance(name, timedelta):
        seconds = 0 if name % timedelta(seconds=1) else name // timedelta(seconds=1)
    elif (match := _WORD.fullmatch(str(name).strip().lower())) and not str(name).strip().endswith("M"):
        seconds = int(match[1] or 1) * UNIT_SECONDS.get(match[2], 0)
    if not 0 < seconds <= Interval.WEEK.seconds:
        raise QueryError(
            "interval",
            got=name,
            expected="a whole number of seconds up to a week, such as '1m', '2h' or '3d'",
            hint=interval_hint(name) or did_you_mean(str(name), INTERVALS),
            code="INVALID_INTERVAL",
        )
    return FrameInterval(seconds)


AnyInterval = Interval | FrameInterval
"""An interval of the service or of a frame."""


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the fewest spans that cover the same time, sorted.

    Examples
    --------
    >>> union([(5, 9), (0, 2), (2, 3), (6, 7)])
    [(0, 3), (5, 9)]
    """
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif start < end:
            joined.append((start, end))
    return joined


def without(span: Span, holes: Iterable[Span]) -> list[Span]:
    """Return the parts of a span that no other span covers, sorted.

    Examples
    --------
    >>> without((0, 10), [(4, 6), (-5, 1), (9, 12)])
    [(1, 4), (6, 9)]
    """
    parts, (start, end) = [], span
    for hole_start, hole_end in union(holes):
        if start < min(hole_start, end):
            parts.append((start, min(hole_start, end)))
        start = max(start, hole_end)
    return [*parts, (start, end)] if start < end else parts


def intersected(span: Span, spans: Iterable[Span]) -> list[Span]:
    """Return the parts of a span that other spans cover, sorted and disjoint.

    Examples
    --------
    >>> intersected((2, 8), [(0, 3), (5, 6), (8, 9)])
    [(2, 3), (5, 6)]
    """
    overlaps = [(max(start, span[0]), min(end, span[1])) for start, end in union(spans)]
    return [overlap for overlap in overlaps if overlap[0] < overlap[1]]
