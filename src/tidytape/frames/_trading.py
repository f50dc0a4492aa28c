"""Which trading session a time lies in, on every engine.

A row finds its session by its UTC day: a table has, for each day, the few sessions that overlap it, side by side. So
the row is joined with one row at most, and the table is small whatever the sessions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import QueryError
from tidytape.frames._dialects import in_sql
from tidytape.frames._table import OpenTable
from tidytape.frames._times import as_dates, bucket_by, bucket_start
from tidytape.sessions import Session, SessionTimes
from tidytape.times import DAY, SECOND, frame_interval

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
    return with_span(rows, nw.col(by), {(): spans}, _FACTS, prefix=prefix)


def with_span(
    rows: nw.LazyFrame[Any],
    time: nw.Expr,
    spans: Mapping[tuple[int, ...], Iterable[tuple[int, ...]]],
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
    spans : mapping
        By values of the ``keys``, the facts of each span.
    facts : sequence of str
        What the facts are; the first two are the beginning and the end of the span.
    keys : sequence of str
        Columns of the rows whose spans are apart.
    prefix : str
        What the names of the new columns begin with.
    """
    by_day: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for key, spans_of_key in spans.items():
        for span in spans_of_key:
            for day in range(span[0] - span[0] % DAY, span[1], DAY):
                by_day.setdefault((day, *key), []).append(span)
    on = ("__day", *keys)
    # Side by side, so that a row is joined with one row at most.
    width = max(map(len, by_day.values()), default=0)
    table = {name: [key[place] for key in by_day] for place, name in enumerate(on)}
    for place in range(width):
        for number, name in enumerate(facts):
            table[f"__{name}_{place}"] = [
                of_day[place][number] if place < len(of_day) else 0 for of_day in by_day.values()
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
    spans: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    lengths = rows.filter(~time.is_null(), length >= DAY).group_by("__length")
    for long, first, last in lengths.agg(first=time.min(), last=time.max()).collect("polars").rows():
        last_close, of_length = first - long, spans.setdefault((long,), [])
        for times in sessions_near(session, first, last + long):
            begin = min(times.open, max(last_close + 1, times.open + session._half - long + 1))
            of_length.append((begin, times.close + 1, times.open, times.date_start))
            last_close = times.close
    if not spans:
        return rows
    in_spans = with_span(
        rows, time, spans, ("begin", "end", "open", "date"), keys=["__length"], prefix="__span_"
    )
    moves = ~nw.col("__span_date").is_null() & ((time % DAY != 0) | (time == nw.col("__span_open")))
    moved = nw.when(moves).then(bucket_by(nw.col("__span_date"), length))
    return in_spans.with_columns(__bucket=moved.otherwise(nw.col("__bucket"))).select(
        *rows.collect_schema().names()
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
