"""Which trading session a time lies in, on every engine.

A row finds its session by its UTC day: a table has, for each day, the few sessions that overlap it, side by side. So
the row is joined with one row at most, and the table is small whatever the sessions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import QueryError
from tidytape.frames._dialects import in_sql
from tidytape.frames._table import OpenTable
from tidytape.frames._times import as_dates, bucket_by, bucket_start
from tidytape.sessions import Session, SessionTimes
from tidytape.times import DAY, MONDAY, SECOND, WEEK, frame_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FACTS = ("open", "close", "date", "break_start", "break_end")
_WIDTH = 20
"""Digits of a number in the text from which an SQL engine makes a table."""


def with_session(
    rows: nw.LazyFrame[Any],
    session: Session,
    *,
    first: int,
    last: int,
    prefix: str = "__",
    by: str = "timestamp",
) -> nw.LazyFrame[Any]:
    """Add the session of each row: its `_FACTS`, with a prefix; null outside of all sessions.

    A break belongs to its session. Without one, its two ends are 0.

    Parameters
    ----------
    rows : narwhals LazyFrame
    session : Session
    first, last : int
        The first and the last time of the rows. [ns since the epoch]
    prefix : str
        What the names of the new columns begin with. ``date`` is the start of the date in UTC. [ns since the epoch]
    by : str
        The column of times, int64. [ns since the epoch]

    Examples
    --------
    >>> import polars as pl
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> times = [1_723_123_799 * SECOND, 1_723_123_800 * SECOND]  # 2024-08-08, 13:29:59 and 13:30:00 UTC
    >>> rows = nw.from_native(pl.LazyFrame({"timestamp": times}))
    >>> found = with_session(rows, stocks, first=times[0], last=times[1]).collect()
    >>> found.select((nw.col("__close") - nw.col("__open")) // (60 * SECOND))["__close"].to_list()
    [None, 390]
    """
    spans = [
        (times.open, times.close, times.date_start, times.break_start or 0, times.break_end or 0)
        for times in sessions_near(session, first, last)
    ]
    return with_span(rows, nw.col(by), by_day_of(spans), _FACTS, prefix=prefix)


def by_day_of(spans: Iterable[tuple[int, ...]], *key: int) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the spans that overlap each UTC day, by the start of the day and a key of the spans.

    A span is its beginning, its end and other facts. [ns since the epoch]
    """
    by_day: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for begin, end, *facts in spans:
        for day in range(begin - begin % DAY, end, DAY):
            by_day.setdefault((day, *key), []).append((begin, end, *facts))
    return by_day


def with_trading_time(
    rows: nw.LazyFrame[Any],
    session: Session,
    *,
    first: int,
    last: int,
    prefix: str = "__",
    by: str = "timestamp",
) -> nw.LazyFrame[Any]:
    """Add how long the market traded before a time, so that two times with one number have no trading between them.

    Parameters
    ----------
    rows, session, first, last, prefix, by
        As in `with_session`. The rows have ``__is_long``, 1 if time is counted in sessions: each counts at its middle,
        which lies in the candle of its day, whether the candle starts at its open or at midnight. Else it is 0, and
        trading is counted in ns, without breaks.

    Returns
    -------
    narwhals LazyFrame
        The rows, and with the prefix

        - ``traded`` : int64, since some time before the first row. [ns or sessions]
        - ``is_start`` : bool, whether the market was closed before it next trades; a break does not close it.
        - ``of_year`` : int64, the sessions whose dates lie in the year of the session in which it next trades.

    Examples
    --------
    >>> import polars as pl
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> times = [hour * 3_600 * SECOND for hour in (478_651, 478_654, 478_672)]  # 2024-08-08, 19:00, 22:00, 16:00
    >>> rows = nw.from_native(pl.LazyFrame({"timestamp": times, "__is_long": [0, 0, 0]}))
    >>> timed = with_trading_time(rows, stocks, first=times[0], last=times[-1]).collect()
    >>> hours = timed.select((nw.col("__traded") - nw.col("__traded").min()).cast(nw.Float64) / (3_600 * SECOND))
    >>> hours["__traded"].to_list(), timed["__is_start"].to_list()
    ([0.0, 1.0, 3.5], [False, True, False])
    """
    facts = ("begin", "end", "before", "is_trading", "last_start", "of_year")
    by_day: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for is_long in (False, True):
        spans_of_length = _trading_spans(session, first - WEEK, last + 2 * WEEK, is_long=is_long)
        by_day |= by_day_of(spans_of_length, int(is_long))
    time = nw.col(by)
    spans = with_span(rows, time, by_day, facts, keys=["__is_long"], prefix="__span_")
    return spans.select(
        *rows.collect_schema().names(),
        (nw.col("__span_before") + (time - nw.col("__span_begin")) * nw.col("__span_is_trading")).alias(
            f"{prefix}traded"
        ),
        (time <= nw.col("__span_last_start")).alias(f"{prefix}is_start"),
        nw.col("__span_of_year").alias(f"{prefix}of_year"),
    )


def _trading_spans(session: Session, start: int, end: int, *, is_long: bool) -> Iterator[tuple[int, ...]]:
    """Yield the spans, with and without trading, that [start, end) consists of, see `with_trading_time`. [ns]"""
    sessions = sessions_near(session, start, end)
    of_year = {
        year: len(session._between(date(year, 1, 1), date(year + 1, 1, 1)))
        for year in {times.session_date.year for times in sessions}
    }
    traded = number = 0
    for times in sessions:
        number, middle = of_year[times.session_date.year], times.open + session._half
        parts = [(middle, middle + 1)] if is_long else times.parts
        for begin, stop in parts:
            # The last time from which on the next trade is the first after a night; none before a break ends.
            last_start = begin if start < begin and (is_long or begin != times.break_end) else begin - DAY
            if start < begin:
                yield start, begin, traded, 0, last_start, number
            yield begin, stop, traded, 1, last_start, number
            traded, start = traded + stop - begin, stop
    yield start, end, traded, 0, end, number


def with_span(
    rows: nw.LazyFrame[Any],
    time: nw.Expr,
    by_day: Mapping[tuple[int, ...], Sequence[tuple[int, ...]]],
    facts: Sequence[str],
    *,
    keys: Sequence[str] = (),
    prefix: str = "__",
) -> nw.LazyFrame[Any]:
    """Add the facts of the span in which a time lies, null if it lies in none.

    Parameters
    ----------
    rows : narwhals LazyFrame
    time : expression, int64
        [ns since the epoch]
    by_day : mapping
        By the start of a UTC day, and values of the ``keys``, the facts of the spans that overlap the day.
    facts : sequence of str
        What the facts are; the first two are the beginning and the end of the span.
    keys : sequence of str
        Columns of the rows whose spans are apart.
    prefix : str
        What the names of the new columns begin with.
    """
    on = ("__day", *keys)
    # Side by side, so that a row is joined with one row at most.
    width = max(map(len, by_day.values()), default=0)
    table = {name: [key[place] for key in by_day] for place, name in enumerate(on)}
    for place in range(width):
        for number, name in enumerate(facts):
            table[f"__{name}_{place}"] = [
                spans[place][number] if place < len(spans) else 0 for spans in by_day.values()
            ]
    days = rows.with_columns(bucket_start(time, frame_interval("1d")).alias("__day"))
    joined = _joined(days, numbers_table(rows, table), on)
    found = {name: nw.lit(None, nw.Int64) for name in facts}
    for place in range(width):
        of_place = {name: nw.col(f"__{name}_{place}") for name in facts}
        is_inside = (time >= of_place[facts[0]]) & (time < of_place[facts[1]])
        found = {name: nw.when(is_inside).then(of_place[name]).otherwise(found[name]) for name in facts}
    named = joined.with_columns(value.alias(f"{prefix}{name}") for name, value in found.items())
    return named.select(*rows.collect_schema().names(), *(f"{prefix}{name}" for name in found))


def _joined(rows: nw.LazyFrame[Any], days: nw.LazyFrame[Any], on: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return rows with the columns of their day, in the order of the rows where an engine has one."""
    if in_sql(rows):
        return rows.join(days, on=[*on], how="left")
    native = rows.to_native().join(days.to_native(), on=[*on], how="left", maintain_order="left")
    return cast("nw.LazyFrame[Any]", nw.from_native(native))


@dataclass(frozen=True)
class TradedIntervals:
    """The intervals of one length in which a market trades, counted from the first.

    Attributes
    ----------
    length : int
        [ns]
    begins, ends, before : array of int64
        Runs of such intervals without a gap: their beginnings and ends [ns since the epoch], and the number of
        intervals before each.
    """

    length: int
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    before: NDArray[np.int64]

    @classmethod
    def of(cls, session: Session, length: int, first: int, last: int) -> TradedIntervals:
        """Return the intervals from some days before ``first`` to some days after ``last``. [ns since the epoch]

        An interval shorter than a day counts if the market trades in a part of it; a longer one counts if the date of a
        session lies in it.

        Examples
        --------
        >>> stocks = Session("09:30", "16:00", zone="America/New_York")
        >>> hours = TradedIntervals.of(stocks, 3_600 * SECOND, 1_723_075_200 * SECOND, 1_723_161_600 * SECOND)
        >>> hours.counted(1_723_075_200 * SECOND, 1_723_161_600 * SECOND)  # of 2024-08-08, from 13:00 to 20:00 UTC
        7
        """
        begins, ends = list[int](), list[int]()
        for part_begin, part_end in _parts(sessions_near(session, first, last), is_long=length >= DAY):
            begin = part_begin - (part_begin - MONDAY) % length
            end = part_end + (MONDAY - part_end) % length
            begin = max(begin, ends[-1]) if ends else begin
            if begin < end:
                begins.append(begin)
                ends.append(end)
        starts, stops = np.array(begins, np.int64), np.array(ends, np.int64)
        before = np.cumsum((stops - starts) // length) - (stops - starts) // length
        return cls(length, starts, stops, before)

    def number(self, time: int) -> int:
        """Return how many of the intervals start before a time. [ns since the epoch]"""
        run = int(np.searchsorted(self.begins, time, side="right")) - 1
        if run < 0:
            return 0
        inside = min(time, int(self.ends[run])) - int(self.begins[run])
        return int(self.before[run]) + -(-inside // self.length)

    def counted(self, start: int, end: int) -> int:
        """Return how many of the intervals start in a span. [ns since the epoch]"""
        return max(0, self.number(end) - self.number(start))

    def first_start(self, start: int, end: int) -> int:
        """Return the start of the first interval that starts in a span; ``start`` if none does. [ns since the epoch]"""
        return self.start_of(self.number(start)) if self.counted(start, end) else start

    def last_end(self, start: int, end: int) -> int:
        """Return the end of the last interval that starts in a span; ``start`` if none does. [ns since the epoch]"""
        return self.start_of(self.number(end) - 1) + self.length if self.counted(start, end) else start

    def start_of(self, number: int) -> int:
        """Return when the interval of a number starts. [ns since the epoch]"""
        run = int(np.searchsorted(self.before, number, side="right")) - 1
        return int(self.begins[run]) + (number - int(self.before[run])) * self.length


def _parts(sessions: Iterable[SessionTimes], *, is_long: bool) -> Iterator[tuple[int, int]]:
    """Yield the times in which a market trades; for long intervals the dates of its sessions. [ns]"""
    for times in sessions:
        if is_long:
            yield times.date_start, times.date_start + 1
        else:
            yield from times.parts


def on_session_dates(rows: nw.LazyFrame[Any], session: Session) -> nw.LazyFrame[Any]:
    """Let ``__bucket`` of each row of a day or longer be the interval that has the date of the row's session.

    A row belongs to the session in which ``timestamp`` lies or which closes then, and else to the first one whose
    middle lies in its ``__length`` from then on. A row at 00:00 UTC that is no open stays: its time is a date already.

    Examples
    --------
    >>> import polars as pl
    >>> futures = Session("17:00", "16:00", zone="America/Chicago")
    >>> time = 1_722_808_800 * SECOND  # of Sunday 2024-08-04, 22:00 UTC
    >>> sunday = pl.LazyFrame({"timestamp": [time], "__length": [DAY], "__bucket": [time // DAY * DAY]})
    >>> moved = on_session_dates(nw.from_native(sunday), futures).collect()
    >>> (moved["__bucket"].item() - time) // (3_600 * SECOND)  # to Monday
    2
    """
    time, length = nw.col("timestamp"), nw.col("__length")
    by_day: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    lengths = rows.filter(~time.is_null(), length >= DAY).group_by("__length")
    for long, first, last in lengths.agg(first=time.min(), last=time.max()).collect("polars").rows():
        last_close, spans = first - long, list[tuple[int, ...]]()
        for times in sessions_near(session, first, last + long):
            begin = min(times.open, max(last_close + 1, times.open + session._half - long + 1))
            spans.append((begin, times.close + 1, times.open, times.date_start))
            last_close = times.close
        by_day |= by_day_of(spans, long)
    if not by_day:
        return rows
    in_spans = with_span(
        rows, time, by_day, ("begin", "end", "open", "date"), keys=["__length"], prefix="__span_"
    )
    moves = ~nw.col("__span_date").is_null() & ((time % DAY != 0) | (time == nw.col("__span_open")))
    moved = nw.when(moves).then(bucket_by(nw.col("__span_date"), length))
    return in_spans.with_columns(__bucket=moved.otherwise(nw.col("__bucket"))).select(
        *rows.collect_schema().names()
    )


def with_numbers(rows: nw.LazyFrame[Any], traded: Sequence[TradedIntervals]) -> nw.LazyFrame[Any]:
    """Add ``__number``, that of the interval which begins at ``__bucket`` among those of its ``__length``.

    And ``__prior`` and ``__after``, the starts of the interval before it and of the one after it. All three are null if
    the market does not trade in the interval.
    """
    by_day: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for intervals in traded:
        begins, ends = intervals.begins.tolist(), intervals.ends.tolist()
        around = [0, *ends][:-1], [*begins, 0][1:]  # none of no runs
        runs = zip(begins, ends, intervals.before.tolist(), *around, strict=True)
        by_day |= by_day_of(runs, intervals.length)
    bucket, length = nw.col("__bucket"), nw.col("__length")
    facts = ("begin", "end", "before", "last_end", "next_begin")
    found = with_span(rows, bucket, by_day, facts, keys=["__length"], prefix="__run_")
    steps = (
        ((bucket - nw.col("__run_begin")).cast(nw.Float64) / length.cast(nw.Float64)).round().cast(nw.Int64)
    )
    is_first, is_last = bucket == nw.col("__run_begin"), bucket + length == nw.col("__run_end")
    return found.select(
        *rows.collect_schema().names(),
        __number=nw.col("__run_before") + steps,
        __prior=nw.when(is_first).then(nw.col("__run_last_end")).otherwise(bucket) - length,
        __after=nw.when(is_last).then(nw.col("__run_next_begin")).otherwise(bucket + length),
    )


def span_of(rows: nw.LazyFrame[Any]) -> tuple[int, int]:
    """Return the first and the last time of some rows; 0 if there are none. [ns since the epoch]"""
    time = nw.col("timestamp")
    ((first, last),) = rows.select(first=time.min(), last=time.max()).collect("polars").rows()
    return first or 0, last or 0


def sessions_near(session: Session, first: int, last: int, *, days: int = 3) -> list[SessionTimes]:
    """Return every session that overlaps a span of time, and those some days around it. [ns since the epoch]"""
    begin, end = (datetime.fromtimestamp(time // SECOND, UTC).date() for time in (first, last))
    nearby = timedelta(days=days)  # at least 3: a session is no longer than a day, and no zone is a day off
    return session._between(begin - nearby, end + nearby)


def require_inside(session: Session, regular: Session, first: int, last: int) -> None:
    """Raise QueryError if regular hours in a span of time reach outside of the session. [ns since the epoch]

    They may lie on a day without a session, and go on after an early close: days off of the two may differ.
    """
    by_date = {times.session_date: times for times in sessions_near(session, first, last, days=5)}
    for hours in sessions_near(regular, first, last):
        near = [by_date.get(hours.session_date + timedelta(days=days)) for days in (-1, 0, 1)]
        met = [
            times
            for times in near
            if times
            and (
                times.session_date == hours.session_date
                or max(times.open, hours.open) < min(times.close, hours.close)
            )
        ]
        if met and not any(
            times.open <= hours.open and (hours.close <= times.close or times.is_early) for times in met
        ):
            expected = f"hours inside of the session {session}, which they leave on {hours.session_date}"
            hint = "``session`` is all the time in which the market trades, ``regular`` a part of it"
            raise QueryError("regular", got=str(regular), expected=expected, hint=hint)


class TradingDay(NamedTuple):
    """A session, and the time before it since the close of the one before. [ns since the epoch]"""

    begin: int
    close: int
    open: int
    balance_end: int
    """When the initial balance is over: after so much time in which the market trades."""
    date: int
    prior_close: int
    number: int


def trading_days(session: Session, first: int, last: int, balance: int) -> list[TradingDay]:
    """Return the sessions around a span of time, numbered, with an initial balance of some length. [ns]"""
    sessions = sessions_near(session, first, last, days=30)  # no market has more days off in a row
    days = list[TradingDay]()
    prior_close = first
    for number, times in enumerate(sessions):
        balance_end = times.open + balance
        if times.break_start is not None and times.break_end is not None and balance_end > times.break_start:
            balance_end += times.break_end - times.break_start
        begin, balance_end = min(prior_close, times.open), min(balance_end, times.close)
        days.append(
            TradingDay(begin, times.close, times.open, balance_end, times.date_start, prior_close, number)
        )
        prior_close = times.close
    return days


def with_trading_day(rows: nw.LazyFrame[Any], days: Iterable[TradingDay]) -> nw.LazyFrame[Any]:
    """Add the facts of the day in which each row lies, ``__<name>``; null if it lies in none."""
    return with_span(rows, nw.col("timestamp"), by_day_of(days), TradingDay._fields)


def with_facts_of_day(rows: nw.LazyFrame[Any], days: Sequence[TradingDay]) -> nw.LazyFrame[Any]:
    """Add the facts of the day whose number each row has, ``__<name>``; a row without such a day is left out."""
    table = {
        f"__{name}": values for name, values in zip(TradingDay._fields, zip(*days, strict=True), strict=True)
    }
    return rows.join(numbers_table(rows, table), on="__number")


def labelled(frame: IntoFrameT, session: Session, regular: Session | None) -> IntoFrameT:
    """Return a frame with the session of each row, see `Session.label`."""
    table = OpenTable.of(frame, ["timestamp"])
    if taken_names := {"session_date", "segment"}.intersection(table.names):
        name = min(taken_names)
        raise QueryError(
            "frame", got=f"a column {name!r}", expected="none, for it is a result", hint="drop or rename it"
        )
    first, last = span_of(table.rows)
    rows = with_session(table.rows, session, first=first, last=last)
    is_open, is_regular = _is_trading("__"), nw.lit(value=True)
    if regular is not None:
        require_inside(session, regular, first, last)
        rows = with_session(rows, regular, first=first, last=last, prefix="__regular_")
        is_regular = _is_trading("__regular_")
    inside = nw.when(is_regular).then(nw.lit("regular")).otherwise(nw.lit("overnight"))
    closed = nw.when(~nw.col("timestamp").is_null()).then(nw.lit("closed"))
    segment = nw.when(is_open).then(inside).otherwise(closed).alias("segment")
    rows = as_dates(rows.with_columns(segment, session_date=nw.col("__date")), "session_date")
    return table.closed(rows.select(*table.names, "session_date", "segment"), like_rows=True)


def _is_trading(prefix: str) -> nw.Expr:
    """Return whether a row lies in a session that `with_session` found, and not in its break."""
    time = nw.col("timestamp")
    in_break = (time >= nw.col(f"{prefix}break_start")) & (time < nw.col(f"{prefix}break_end"))
    return ~nw.col(f"{prefix}open").is_null() & ~in_break


def numbers_table(rows: nw.LazyFrame[Any], columns: Mapping[str, Sequence[int]]) -> nw.LazyFrame[Any]:
    """Return a table of integers on the engine of some rows."""
    if not in_sql(rows):
        polars = rows.implementation.to_native_namespace()
        return cast(
            "nw.LazyFrame[Any]",
            nw.from_native(polars.LazyFrame(columns, schema=dict.fromkeys(columns, polars.Int64))),
        )
    # As one text, like the digits of `spread`: an engine need not know where a table would come from.
    text = " ".join(
        "".join(f"{number:0{_WIDTH}d}" for number in row) for row in zip(*columns.values(), strict=True)
    )
    records = rows.select(__rows=nw.len()).with_columns(__text=nw.lit(text).str.split(" ")).explode("__text")
    return records.select(
        nw.col("__text").str.slice(place * _WIDTH, _WIDTH).cast(nw.Int64).alias(name)
        for place, name in enumerate(columns)
    )
