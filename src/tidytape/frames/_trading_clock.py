"""A clock that runs while a market trades: the one mapping between times of the world and trading time.

With a period, the period n of a session (a day, a week or a month of sessions) begins at n times a length that no
period reaches, so that on this clock whatever cuts time into equal lengths cuts it at the sessions: blocks and buckets
count from the open. Without one the clock never jumps, so that two times that it shows alike have no trading between
them. What was computed is told in times of the world again at the end.

Which session a time lies in is another question: `tidytape.frames._trading` answers it, also for times in a break, at
which this clock stands still.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from tidytape.errors import QueryError
from tidytape.frames._times import bucket_start
from tidytape.frames._trading import numbers_table, span_of, with_span
from tidytape.sessions import Session
from tidytape.times import DAY, MINUTE, MONDAY, SECOND, WEEK, AnyInterval, FrameInterval

if TYPE_CHECKING:
    from numpy.typing import NDArray

Period = Literal["daily", "weekly", "monthly"]
_EPOCH, _MONDAY = date(1970, 1, 1), date(1970, 1, 5)
_LONGEST: Final[Mapping[Period | None, int]] = {None: 0, "daily": 1, "weekly": 7, "monthly": 31}
"""How many days a period has at most. [d]"""
_NEARBY: Final = timedelta(days=3)
"""A session is no longer than a day, and no zone is a day off."""
_LONG: Final = 14 * DAY
"""How long the clock goes on before the first and after the last time of the rows: a candle is shorter. [ns]"""


@dataclass(frozen=True)
class TradingClock:
    """The clock of a session for some span of time.

    Attributes
    ----------
    session : Session
        When it runs.
    first, last : int
        The span of time. [ns since the epoch]
    period : {"daily", "weekly", "monthly"}, optional
        What begins at a round time of the clock: each session, or the sessions whose dates lie in a week or a month.
    has_dates : bool
        Whether it counts sessions instead of time: it runs for 1 ns at the start of the date of each, in UTC.
    interval : int
        It runs for whole intervals of this length, aligned to the epoch, weeks to Monday. [ns]

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
    first: int
    last: int
    period: Period | None = None
    has_dates: bool = False
    interval: int = 1

    @classmethod
    def of(cls, session: Session, period: Period, rows: nw.LazyFrame[Any]) -> TradingClock:
        """Return the clock for some rows; raise QueryError where its times would not fit into int64."""
        first, last = span_of(rows)
        if not all(1827 <= _day(time).year <= 2112 for time in (first, last)):
            got = f"times from {_day(first)} to {_day(last)}"
            raise QueryError("timestamp", got=got, expected="times from 1827 to 2112, if a session is given")
        return cls(session, first, last, period)

    @classmethod
    def of_interval(cls, session: Session, interval: AnyInterval, rows: nw.LazyFrame[Any]) -> TradingClock:
        """Return the clock on which buckets of an interval lie: a day is a session, a week its sessions."""
        if interval.seconds * SECOND > DAY and interval.seconds * SECOND != WEEK:
            expected = "at most 1d, or 1w, if a session is given"
            raise QueryError("interval", got=interval.alias, expected=expected)
        return cls.of(session, "weekly" if interval.seconds * SECOND == WEEK else "daily", rows)

    @classmethod
    def of_intervals(cls, session: Session, length: int, first: int, last: int) -> TradingClock:
        """Return the clock that runs in the intervals of one length in which the market trades. [ns]

        An interval shorter than a day counts if the market trades in a part of it; a longer one counts if the date of a
        session lies in it.
        """
        return cls(session, first, last, has_dates=length >= DAY, interval=length)

    @property
    def length(self) -> FrameInterval:
        """From the beginning of a period to that of the next one: twice as long as a period can be."""
        return FrameInterval(2 * _LONGEST[self.period] * DAY // SECOND)

    @property
    def has_whole_minutes(self) -> bool:
        """Whether the market opens and closes on whole minutes."""
        return all(time % MINUTE == 0 for part in self.parts for time in (part.begin, part.end))

    def running(self, rows: nw.LazyFrame[Any], time: nw.Expr, name: str) -> nw.LazyFrame[Any]:
        """Add a time as this clock shows it, see `with_trading_time`. [ns]"""
        return with_trading_time(rows, time, name, {(): self})

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
        return with_world_time(rows, nw.col("timestamp"), "timestamp", {(): self}).select(*names)

    def with_ends(self, rows: nw.LazyFrame[Any], length: AnyInterval, name: str) -> nw.LazyFrame[Any]:
        """Add the time in the world at which the bucket ends that begins at ``timestamp`` on this clock. [ns]"""
        names = rows.collect_schema().names()
        rows = self.with_closes(rows, name)
        if length.seconds * SECOND >= DAY:
            return rows
        last = nw.col("timestamp") + (length.seconds * SECOND - 1)
        rows = with_world_time(rows, last, "__last", {(): self})  # null if the close cuts the bucket off
        return rows.with_columns(nw.coalesce(nw.col("__last") + 1, nw.col(name)).alias(name)).select(
            *names, name
        )

    def with_closes(self, rows: nw.LazyFrame[Any], name: str) -> nw.LazyFrame[Any]:
        """Add the close of the last session of the period in which ``timestamp`` lies on this clock. [ns]"""
        length = self.length.nanoseconds
        closes = {part.shown // length * length: part.end for part in self.parts}
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
        for part in replace(self, first=time, last=time + 60 * DAY).parts:
            if time < part.end:
                return part.shown + max(0, time - part.begin)
        return 2**62  # the market does not open again

    def later(self, time: int, duration: int) -> int:
        """Return when the clock has run for so long since a time within its span. [ns]"""
        part = self.parts[bisect_right(self.parts, time, key=lambda part: part.begin) - 1]
        shown = part.shown + min(time, part.end) - part.begin + duration
        part = self.parts[bisect_right(self.parts, shown, key=lambda part: part.shown) - 1]
        return part.begin + shown - part.shown

    @cached_property
    def parts(self) -> list[Part]:
        """The times in which the clock runs."""
        nearby = _NEARBY + timedelta(days=_LONGEST[self.period])  # the whole period of the first time
        parts, end = list[Part](), -(2**63)
        shown = 0 if self.period is None else -(2**63)
        for times in self.session._between(_day(self.first) - nearby, _day(self.last) + nearby):
            if self.period:
                shown = max(shown, self._number(times.session_date) * self.length.nanoseconds)
            goes_on = self.period is None and bool(parts) and times.open == parts[-1].end
            opened, date_start = parts[-1].opened if goes_on else shown, times.date_start
            for opens, closes in [(date_start, date_start + 1)] if self.has_dates else times.parts:
                # An interval in which two parts lie counts once.
                begin = max(opens - (opens - MONDAY) % self.interval, end)
                end = max(closes + (MONDAY - closes) % self.interval, end)
                if begin < end:
                    parts.append(Part(begin, end, shown, opened, date_start))
                shown += end - begin
        return parts

    @property
    def begins(self) -> NDArray[np.int64]:
        """When its parts begin. [ns since the epoch]"""
        return np.array([part.begin for part in self.parts], np.int64)

    @property
    def ends(self) -> NDArray[np.int64]:
        """When its parts end. [ns since the epoch]"""
        return np.array([part.end for part in self.parts], np.int64)

    @property
    def _spans(self) -> Iterator[tuple[int, ...]]:
        """The times from which the clock runs until it runs again, with the facts that `with_trading_time` needs."""
        if self.parts:
            first, last = self.parts[0], self.parts[-1]
            shown, start, end = last.shown + last.end - last.begin, self.first - _LONG, self.last + _LONG
            before, after = (
                Part(start, start, *first[2:]),
                Part(max(end, last.end), 0, shown, shown, last.date),
            )
            for part, following in pairwise([before, *self.parts, after]):
                facts = part.shown, part.end - part.begin, *part[3:], *following[3:]
                yield part.begin, following.begin, *facts

    def _number(self, day: date) -> int:
        """Return the number of the period in which a date lies."""
        if self.period == "monthly":
            return (day.year - _EPOCH.year) * 12 + day.month - 1
        return (day - (_MONDAY if self.period == "weekly" else _EPOCH)).days // _LONGEST[self.period]


class Part(NamedTuple):
    """A time without a break in which a clock runs. [ns]"""

    begin: int
    end: int
    shown: int
    """What the clock shows at its beginning."""
    opened: int
    """What the clock shows at the open of its session.

    A clock without a period shows no night between sessions that follow at once: then it is the open of their first.
    """
    date: int
    """The start of the date of its session in UTC."""


Clocks = Mapping[tuple[int, ...], TradingClock]
"""Clocks by the values of some columns."""


def with_trading_time(
    rows: nw.LazyFrame[Any],
    time: nw.Expr,
    name: str,
    clocks: Clocks,
    keys: Sequence[str] = (),
) -> nw.LazyFrame[Any]:
    """Add a time as a clock shows it, which stands still while the market is closed. [ns]

    ``__is_open`` says whether the market trades then; ``__opened`` and ``__date`` are those of the `Part` in which it
    trades then or next. All are null far from the times of the clock.

    Parameters
    ----------
    rows : narwhals LazyFrame
    time : expression, int64
        [ns since the epoch]
    name : str
        The new column.
    clocks : mapping
        The clock by the values of the ``keys``; without any, all time is trading time, and no other column is added.
    keys : sequence of str
        Columns of the rows that tell their clocks apart.
    """
    if not clocks:
        return rows.with_columns(time.alias(name))
    added = {name, "__is_open", "__opened", "__date"}
    names = [column for column in rows.collect_schema().names() if column not in added]
    facts = ("begin", "end", "shown", "traded", "opened", "date", "next_opened", "next_date")
    spans = {key: clock._spans for key, clock in clocks.items()}
    found = with_span(rows, time, spans, facts, keys=keys, prefix="__span_")
    since, traded = time - nw.col("__span_begin"), nw.col("__span_traded")
    return found.select(
        *names,
        (nw.col("__span_shown") + nw.when(since < traded).then(since).otherwise(traded)).alias(name),
        (since < traded).alias("__is_open"),
        *(
            nw.when(since < traded).then(f"__span_{fact}").otherwise(f"__span_next_{fact}").alias(f"__{fact}")
            for fact in ("opened", "date")
        ),
    )


def with_world_time(
    rows: nw.LazyFrame[Any],
    time: nw.Expr,
    name: str,
    clocks: Clocks,
    keys: Sequence[str] = (),
) -> nw.LazyFrame[Any]:
    """Add the time of the world at which a clock shows a time while it runs, null where it never does. [ns]

    The arguments are those of `with_trading_time`; ``time`` is a time of the clock.
    """
    if not clocks:
        return rows.with_columns(time.alias(name))
    spans = {
        key: [(part.shown, part.shown + part.end - part.begin, part.begin) for part in clock.parts]
        for key, clock in clocks.items()
    }
    found = with_span(rows, time, spans, ("shown", "until", "begin"), keys=keys, prefix="__span_")
    names = [column for column in rows.collect_schema().names() if column != name]
    return found.select(*names, (nw.col("__span_begin") + (time - nw.col("__span_shown"))).alias(name))


def _day(time: int) -> date:
    """Return the UTC day of a time. [ns since the epoch]"""
    return datetime.fromtimestamp(time // SECOND, UTC).date()
