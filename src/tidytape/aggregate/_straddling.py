"""Candles that lie in a bucket of time in part, so that how much of them belongs to it is not known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.errors import QueryError
from tidytape.frames._door import MARKET
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_start, length_of
from tidytape.frames._trading_clock import TradingClock
from tidytape.sessions import Session, unless_utc_day
from tidytape.times import AnyInterval

STRADDLES: Final = "__straddles"
_TELLING: Final = 3
"""How many candles it takes to infer their length from their distance: two may lie far apart if trades are rare."""


def least_distance(table: OpenTable[Any]) -> int | None:
    """Return the least distance of the candles of a market, None for lazy frames and for few candles. [ns]"""
    if not table.is_eager:
        return None
    market = [name for name in MARKET if name in table.names]
    times = table.rows.select(*market, "timestamp").drop_nulls().unique().sort(*market, "timestamp").collect()
    distance = nw.col("timestamp").diff()
    distance = distance.over(*market) if market else distance
    return times.select(distance.min()).item() if len(times) >= _TELLING else None


def length_of_candles(table: OpenTable[Any]) -> nw.Expr:
    """Return the length of each candle; 1 where it is not known, as if the candle were a moment. [ns]

    It is what the column ``interval`` says. Without that column it is the least distance between candles in memory, if
    each candle starts a whole number of these distances after the first.
    """
    if "interval" in table.names:
        length = length_of(nw.col("interval"))
        return nw.when(length > 0).then(length).otherwise(1)
    distance, time = least_distance(table), nw.col("timestamp")
    if distance is None:
        return nw.lit(1, nw.Int64())
    are_in_a_row = table.rows.select(((time - time.min()) % distance == 0).all()).collect().item()
    return nw.lit(distance if are_in_a_row else 1, nw.Int64())


def with_straddles(
    rows: Rows, length: nw.Expr, start_of: Callable[[nw.Expr], nw.Expr], clock: TradingClock | None = None
) -> Rows:
    """Add `STRADDLES`, whether a candle lies in a bucket in part, and in another bucket or outside of all.

    With a clock, a candle in which the market does not trade is left out, and ``timestamp`` becomes that of the clock.
    A candle may end after the close, if candles of its length that begin at the open fall on it.

    Parameters
    ----------
    rows : narwhals LazyFrame
        With ``timestamp``. [ns since the epoch]
    length : expression, int64
        The length of each candle. [ns]
    start_of : function
        Return the start of the bucket in which a time lies, on the clock if there is one.
    clock : TradingClock, optional
        The clock on which buckets lie.
    """
    time = nw.col("timestamp")
    if clock is None:
        return rows.with_columns((start_of(time) != start_of(time + length - 1)).alias(STRADDLES))
    names = rows.collect_schema().names()
    rows = clock.running(rows.with_columns(__length=length), time, "__begin")
    rows = rows.rename({"__is_open": "__opens", "__opened": "__session"})
    rows = clock.running(rows, time + nw.col("__length") - 1, "__end")
    begin, end, length = nw.col("__begin"), nw.col("__end"), nw.col("__length")
    begins_open, ends_open = (nw.col(name).fill_null(value=False) for name in ("__opens", "__is_open"))
    # After a close, the clock stands where the next bucket may begin.
    last = nw.when(ends_open).then(end).otherwise(end - 1)
    is_from_open = (begin - nw.col("__session")) % length == 0
    is_whole = (
        begins_open & ((last - begin + 1 == length) | is_from_open) & (start_of(begin) == start_of(last))
    )
    found = rows.filter(begins_open | ends_open | (end > begin))
    straddles = (~is_whole).fill_null(value=True).alias(STRADDLES)
    # A candle that begins before the open lies in the session in part.
    shown = nw.when(begins_open).then(begin).otherwise(nw.coalesce(end, begin))
    return found.with_columns(straddles, shown.alias("timestamp")).select(*names, STRADDLES)


def buckets(
    session: Session | None, length: AnyInterval, rows: Rows
) -> tuple[TradingClock | None, Callable[[nw.Expr], nw.Expr]]:
    """Return the clock of a session, and the function of a time that returns the start of its bucket on it."""
    own_session = unless_utc_day(session)
    if own_session is None:
        return None, partial(bucket_start, interval=length)
    clock = TradingClock.of_interval(own_session, length, rows)
    return clock, partial(clock.bucket_start, length=length)


def require_whole(rows: Rows, bucket: str, session: object = None, *, parameter: str = "candles") -> Rows:
    """Return rows in memory without `STRADDLES`; raise QueryError if a candle has it."""
    cut = rows.filter(STRADDLES).select(nw.len()).collect().item()
    if cut:
        of = f"the session {session}" if session is not None else "UTC, weeks from Monday"
        raise QueryError(
            parameter,
            got=f"{cut:,} that lie in two {bucket}s, or in one in part",
            expected=f"{parameter} that each lie in one {bucket} of {of}",
            hint=f"how much of such a one belongs to each is not known; fetch {parameter} of a shorter interval",
        )
    return rows.drop(STRADDLES)
