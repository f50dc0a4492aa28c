"""Option quotes to the open interest of all options of a coin, with the underlying's price, per interval."""

from __future__ import annotations

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._reports import CARRY, beside, known_sum, latest, number
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET
from tidytape.frames.ordered import last
from tidytape.frames.table import Table
from tidytape.times import interval_of

__all__ = ["option_open_interest"]

_GROUPS = ("exchange", "coin")
_OPTION = ("raw_symbol", "expiry")


def option_open_interest(quotes: IntoFrameT, /, *, interval: str) -> IntoFrameT:
    """Open interest of all options of a coin on a venue at the end of each interval, and the underlying's last price.

    Open interest is a stock: each option counts with what it last reported, in this interval or before, as of the last
    quote of any option of the coin in the interval. It counts until it expires, and for 24 hours, ends included, after
    its last report. So give the 24 hours before the first interval too: an interval's point needs them. The point of a
    long interval is that of the last shorter one in it. Where an option was quoted in these 24 hours and did not report
    its open interest, the sum is unknown: null.

    The underlying's price is the last forward price in the interval, of the nearest expiry where several are quoted at
    one time; it is not carried. Sums are exact to 1e-12. A quote at or after its option's expiry is left out,
    and so is one with neither value.

    Parameters
    ----------
    quotes : frame, n rows, in any order
        Columns ``exchange``, ``coin``, ``raw_symbol``, ``timestamp`` and ``expiry`` int64 [ns since the epoch],
        ``forward`` [quote per coin], ``open_interest`` [coin]. Null, not a number and infinite are no report, nor is
        an open interest of 9e15 or more. Of two reports of one option and time the larger counts.
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.

    Returns
    -------
    frame, one row per venue, coin and bucket with a quote of it; of the same kind as ``quotes``
        ``exchange``, ``coin``, ``timestamp`` int64, start of the bucket [ns], ``underlying_price_close`` [quote per
        coin], ``oi_close`` [coin], null where it is not known of every option. It has no ``raw_symbol``. Sorted
        by (exchange, coin, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    Examples
    --------
    >>> import polars as pl
    >>> hour = 3_600_000_000_000
    >>> quotes = pl.DataFrame(
    ...     {
    ...         "exchange": "DERIBIT",
    ...         "coin": "BTC",
    ...         "raw_symbol": ["BTC-1JAN70-C", "BTC-2JAN70-C", "BTC-2JAN70-C"],
    ...         "timestamp": [0, 0, hour],
    ...         "expiry": [8 * hour, 32 * hour, 32 * hour],
    ...         "forward": [60_000.0, 60_100.0, 60_200.0],
    ...         "open_interest": [5.0, 1.0, 2.0],
    ...     }
    ... )
    >>> points = option_open_interest(quotes, interval="1h")
    >>> points.select("underlying_price_close", "oi_close").rows()
    [(60000.0, 6.0), (60200.0, 7.0)]
    """
    bucket = interval_of(interval)
    start = bucket_start(nw.col("timestamp"), bucket)
    table = Table.opened(
        quotes, [*_GROUPS, "raw_symbol", "forward", "open_interest"], times=["timestamp", "expiry"]
    )
    frame = (
        table.rows.filter(nw.col("timestamp") < nw.col("expiry"))
        .with_columns(start.alias(BUCKET), number("forward"), number("open_interest"))
        .filter(~(nw.col("forward").is_null() & nw.col("open_interest").is_null()))
    )
    moments = frame.group_by(*_GROUPS, BUCKET).agg(nw.col("timestamp").max()).select(*_GROUPS, "timestamp")
    lapses = nw.min_horizontal(nw.col("timestamp") + CARRY + 1, nw.col("expiry"))
    reported = latest(frame, bucket, [*_GROUPS, *_OPTION], "open_interest")
    quoted = frame.group_by(*_GROUPS, *_OPTION, BUCKET).agg(nw.col("timestamp").max())
    stock = known_sum(
        reported,
        moments,
        seen=quoted.select(*_GROUPS, *_OPTION, "timestamp"),
        groups=_GROUPS,
        members=_OPTION,
        value="open_interest",
        until=lapses,
    ).with_columns(start.alias(BUCKET))
    underlying = (
        frame.filter(~nw.col("forward").is_null())
        .with_columns((-nw.col("expiry")).alias("nearness"))
        .group_by(*_GROUPS, BUCKET)
        .agg(last(frame, "forward", ("timestamp", "nearness", "forward")).alias("underlying_price_close"))
    )
    points = beside(stock, underlying, [*_GROUPS, BUCKET]).select(
        *_GROUPS,
        nw.col(BUCKET).alias("timestamp"),
        "underlying_price_close",
        nw.col("open_interest").alias("oi_close"),
    )
    return table.closed(points, sort=[*_GROUPS, "timestamp"])
