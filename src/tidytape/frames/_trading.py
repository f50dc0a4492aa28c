"""Which trading session a time lies in, on every engine.

A row finds its session by its UTC day: a table has, for each day, the few sessions that overlap it, side by side. So
the row is joined with one row at most, and the table is small whatever the sessions are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.frames._dialects import in_sql
from tidytape.frames._table import OpenTable
from tidytape.frames._times import as_dates, bucket_start
from tidytape.sessions import Session
from tidytape.times import DAY, SECOND, frame_interval

if TYPE_CHECKING:
    import polars as pl

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
    days = _table(rows, _by_day(session, first, last))
    width = sum(name.startswith("__open_") for name in days.collect_schema().names())
    time = nw.col(by)
    joined = _joined(rows.with_columns(bucket_start(time, frame_interval("1d")).alias("__day")), days)
    found = {name: nw.lit(None, nw.Int64) for name in _FACTS}
    for place in range(width):
        facts = {name: nw.col(f"__{name}_{place}") for name in _FACTS}
        is_open = (time >= facts["open"]) & (time < facts["close"])
        found = {name: nw.when(is_open).then(facts[name]).otherwise(value) for name, value in found.items()}
    named = joined.with_columns(value.alias(f"{prefix}{name}") for name, value in found.items())
    return named.select(*rows.collect_schema().names(), *(f"{prefix}{name}" for name in found))


def _joined(rows: nw.LazyFrame[Any], days: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return rows with the columns of their day, in the order of the rows where an engine has one."""
    if in_sql(rows):
        return rows.join(days, on="__day", how="left")
    native = rows.to_native().join(days.to_native(), on="__day", how="left", maintain_order="left")
    return cast("nw.LazyFrame[Any]", nw.from_native(native))


def span_of(rows: nw.LazyFrame[Any]) -> tuple[int, int]:
    """Return the first and the last time of some rows; 0 if there are none. [ns since the epoch]"""
    time = nw.col("timestamp")
    ((first, last),) = rows.select(first=time.min(), last=time.max()).collect("polars").rows()
    return first or 0, last or 0


def schedule_of(session: Session, first: int, last: int) -> pl.DataFrame:
    """Return the schedule of a session with every session that overlaps a span of time. [ns since the epoch]"""
    begin, end = (datetime.fromtimestamp(time // SECOND, UTC).date() for time in (first, last))
    nearby = timedelta(days=3)  # a session is no longer than a day, and no zone is a day off
    return session.schedule(begin - nearby, end + nearby)


def labelled(frame: IntoFrameT, session: Session, regular: Session | None) -> IntoFrameT:
    """Return a frame with the session of each row, see `Session.label`."""
    table = OpenTable.of(frame, ["timestamp"])
    first, last = span_of(table.rows)
    rows = with_session(table.rows, session, first=first, last=last)
    is_open, is_regular = _is_trading("__"), nw.lit(value=True)
    if regular is not None:
        rows = with_session(rows, regular, first=first, last=last, prefix="__regular_")
        is_regular = _is_trading("__regular_")
    inside = nw.when(is_regular).then(nw.lit("regular")).otherwise(nw.lit("overnight"))
    segment = nw.when(is_open).then(inside).otherwise(nw.lit("closed")).alias("segment")
    rows = as_dates(rows.with_columns(segment, session_date=nw.col("__date")), "session_date")
    return table.closed(rows.select(*table.names, "session_date", "segment"), like_rows=True)


def _is_trading(prefix: str) -> nw.Expr:
    """Return whether a row lies in a session that `with_session` found, and not in its break."""
    time = nw.col("timestamp")
    in_break = (time >= nw.col(f"{prefix}break_start")) & (time < nw.col(f"{prefix}break_end"))
    return ~nw.col(f"{prefix}open").is_null() & ~in_break


def _by_day(session: Session, first: int, last: int) -> dict[str, list[int]]:
    """Return for each UTC day from ``first`` to ``last`` the sessions that overlap it; 0 for a session less."""
    schedule = schedule_of(session, first, last)
    by_day: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
    dtype = schedule["open"].dtype
    times = [schedule[name].cast(dtype).to_physical() for name in ("session_date", *_FACTS[:2], *_FACTS[3:])]
    for date, open_, close, begins, ends in zip(*times, strict=True):
        facts = open_, close, date, *((0, 0) if begins is None else (begins, ends))
        for day in range(open_ - open_ % DAY, close, DAY):
            by_day[day].append(facts)
    width = max(map(len, by_day.values()), default=0)
    table: dict[str, list[int]] = {"__day": list(by_day)}
    for place in range(width):
        for number, name in enumerate(_FACTS):
            table[f"__{name}_{place}"] = [
                sessions[place][number] if place < len(sessions) else 0 for sessions in by_day.values()
            ]
    return table


def _table(rows: nw.LazyFrame[Any], columns: Mapping[str, Sequence[int]]) -> nw.LazyFrame[Any]:
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
