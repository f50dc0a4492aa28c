"""A clock that runs while a market trades, so that blocks and buckets count trading time from the open.

The period n of a session (a day, a week or a month of sessions) begins at n times a length that no period reaches, so
that on this clock whatever cuts time into equal lengths cuts it at the sessions. What was computed is told in times of
the world again at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import narwhals.stable.v2 as nw

from tidytape.errors import QueryError
from tidytape.frames._times import bucket_start
from tidytape.frames._trading import by_day_of, numbers_table, span_of, with_span
from tidytape.sessions import Session
from tidytape.times import DAY, MINUTE, SECOND, WEEK, AnyInterval, FrameInterval

Period = Literal["daily", "weekly", "monthly"]
_EPOCH: Final = date(1970, 1, 1)
_LONGEST: Final = {"daily": 1, "weekly": 7, "monthly": 31}
"""How many days a period has at most. [d]"""
_NEARBY: Final = timedelta(days=3)
"""A session is no longer than a day, and no zone is a day off."""
_LONG: Final = 14 * DAY
"""How long the clock goes on after the last time of the rows: a candle is shorter. [ns]"""


@dataclass(frozen=True)
class TradingClock:
    """The clock of a session for the rows of some span of time.

    Attributes
    ----------
    session : Session
        When it runs.
    period : {"daily", "weekly", "monthly"}
        What begins at a round time of the clock: each session, or the sessions whose dates lie in a week or a month.
    first, last : int
        The span of time. [ns since the epoch]

    Examples
    --------
    >>> import polars as pl
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> times = [1_723_123_799 * SECOND, 1_723_123_860 * SECOND]  # 2024-08-08, a second before the open, a minute after
    >>> rows = nw.from_native(pl.LazyFrame({"timestamp": times}))
    >>> clock = TradingClock.of(stocks, "daily", rows)
    >>> on_clock = clock.open_rows(rows)
    >>> on_clock = on_clock.with_columns(nw.col("timestamp") - nw.col("timestamp") % (3_600 * SECOND))
    >>> clock.told(on_clock).collect()["timestamp"].item() // SECOND  # the hour from the open
    1723123800
    """

    session: Session
    period: Period
    first: int
    last: int

    @classmethod
    def of(cls, session: Session, period: Period, rows: nw.LazyFrame[Any]) -> TradingClock:
        """Return the clock for some rows; raise QueryError where its times would not fit into int64."""
        first, last = span_of(rows)
        if not all(1827 <= _day(time).year <= 2112 for time in (first, last)):
            got = f"times from {_day(first)} to {_day(last)}"
            raise QueryError("timestamp", got=got, expected="times from 1827 to 2112, if a session is given")
        return cls(session, period, first, last)

    @classmethod
    def of_interval(cls, session: Session, interval: AnyInterval, rows: nw.LazyFrame[Any]) -> TradingClock:
        """Return the clock on which buckets of an interval lie: a day is a session, a week its sessions."""
        if interval.seconds * SECOND > DAY and interval.seconds * SECOND != WEEK:
            expected = "at most 1d, or 1w, if a session is given"
            raise QueryError("interval", got=interval.alias, expected=expected)
        return cls.of(session, "weekly" if interval.seconds * SECOND == WEEK else "daily", rows)

    @property
    def length(self) -> FrameInterval:
        """From the beginning of a period to that of the next one: twice as long as a period can be."""
        return FrameInterval(2 * _LONGEST[self.period] * DAY // SECOND)

    @property
    def has_whole_minutes(self) -> bool:
        """Whether the market opens and closes on whole minutes."""
        return all(time % MINUTE == 0 for part in self._parts for time in (part.begin, part.end))

    def running(self, rows: nw.LazyFrame[Any], time: nw.Expr, name: str) -> nw.LazyFrame[Any]:
        """Add a time as this clock shows it, which stands still while the market is closed. [ns]

        ``__is_open`` says whether the market trades then, ``__opened`` what the clock showed at the open of the
        session. All three are null before the first session.
        """
        ends = [*(part.begin for part in self._parts[1:]), self.last + _LONG]
        spans = [
            (part.begin, end, part.shown, part.end - part.begin, part.opened)
            for part, end in zip(self._parts, ends, strict=False)
        ]
        facts = ("begin", "end", "before", "traded", "opened")
        added = {name, "__is_open", "__opened"}
        names = [column for column in rows.collect_schema().names() if column not in added]
        found = with_span(rows, time, by_day_of(spans), facts, prefix="__span_")
        since, traded = time - nw.col("__span_begin"), nw.col("__span_traded")
        shown = nw.col("__span_before") + nw.when(since < traded).then(since).otherwise(traded)
        return found.select(
            *names,
            shown.alias(name),
            (since < traded).alias("__is_open"),
            nw.col("__span_opened").alias("__opened"),
        )

    def bucket_start(self, time: nw.Expr, length: AnyInterval) -> nw.Expr:
        """Return the start of the bucket that a time of this clock lies in, counted from the open. [ns]"""
        start, step = bucket_start(time, self.length), length.seconds * SECOND
        return start if step >= DAY else time - (time - start) % step

    def open_rows(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the rows at whose time the market trades, with ``timestamp`` as this clock shows it. [ns]"""
        names = rows.collect_schema().names()
        shown = self.running(rows, nw.col("timestamp"), "timestamp")
        return shown.filter(nw.col("__is_open").fill_null(value=False)).select(*names)

    def told(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return rows with ``timestamp``, the beginning of a bucket on this clock, as the time in the world. [ns]"""
        names = rows.collect_schema().names()
        return self._told(rows, nw.col("timestamp"), "timestamp").select(*names)

    def with_ends(self, rows: nw.LazyFrame[Any], length: AnyInterval, name: str) -> nw.LazyFrame[Any]:
        """Add the time in the world at which the bucket ends that begins at ``timestamp`` on this clock. [ns]"""
        names = rows.collect_schema().names()
        rows = self.with_closes(rows, name)
        if length.seconds * SECOND >= DAY:
            return rows
        last = nw.col("timestamp") + (length.seconds * SECOND - 1)
        rows = self._told(rows, last, "__last")  # null if the close cuts the bucket off
        return rows.with_columns(nw.coalesce(nw.col("__last") + 1, nw.col(name)).alias(name)).select(
            *names, name
        )

    def _told(self, rows: nw.LazyFrame[Any], time: nw.Expr, name: str) -> nw.LazyFrame[Any]:
        """Add a time of this clock as the time in the world, null where the clock never shows it. [ns]"""
        spans = [(part.shown, part.shown + part.end - part.begin, part.begin) for part in self._parts]
        found = with_span(rows, time, by_day_of(spans), ("shown", "until", "begin"), prefix="__span_")
        others = [column for column in rows.collect_schema().names() if column != name]
        told = nw.col("__span_begin") + (time - nw.col("__span_shown"))
        return found.select(*others, told.alias(name))

    def with_closes(self, rows: nw.LazyFrame[Any], name: str) -> nw.LazyFrame[Any]:
        """Add the close of the last session of the period in which ``timestamp`` lies on this clock. [ns]"""
        length = self.length.nanoseconds
        closes = {part.shown // length * length: part.end for part in self._parts}
        table = numbers_table(rows, {"__period": [*closes], name: [*closes.values()]})
        others = [column for column in rows.collect_schema().names() if column != name]
        period = bucket_start(nw.col("timestamp"), self.length)
        return (
            rows.with_columns(__period=period)
            .select(*others, "__period")
            .join(table, on="__period")
            .drop("__period")
        )

    def now(self, time: int) -> int:
        """Return a time on this clock, while the market is closed that of the next open. [ns]"""
        for part in replace(self, first=time, last=time + 60 * DAY)._parts:
            if time < part.end:
                return part.shown + max(0, time - part.begin)
        return 2**62  # the market does not open again

    @cached_property
    def _parts(self) -> list[_Part]:
        """The times in which the market trades."""
        first = self._start(_day(self.first) - _NEARBY)
        last = _day(self.last) + _NEARBY + timedelta(days=_LONGEST[self.period])
        parts, period, shown = list[_Part](), None, 0
        for times in self.session._between(first, last):
            if period != (period := self._start(times.session_date)):
                shown = self._number(period) * self.length.nanoseconds
            opened = shown
            for begin, end in times.parts:
                parts.append(_Part(begin, end, shown, opened))
                shown += end - begin
        return parts

    def _start(self, day: date) -> date:
        """Return the first date of the period in which a date lies."""
        if self.period == "monthly":
            return day.replace(day=1)
        return day - timedelta(days=day.weekday()) if self.period == "weekly" else day

    def _number(self, start: date) -> int:
        """Return the number of the period that begins at a date."""
        if self.period == "monthly":
            return (start.year - _EPOCH.year) * 12 + start.month - 1
        return (start - _EPOCH).days // _LONGEST[self.period]


class _Part(NamedTuple):
    """A time without a break in which the market trades. [ns]"""

    begin: int
    end: int
    shown: int
    """What the clock shows at its beginning."""
    opened: int
    """What the clock shows at the open of its session."""


def _day(time: int) -> date:
    """Return the UTC day of a time. [ns since the epoch]"""
    return datetime.fromtimestamp(time // SECOND, UTC).date()
