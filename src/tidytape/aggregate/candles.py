"""Trades to candles: open, high, low, close and volume per interval."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Interval
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET, INSTRUMENT
from tidytape.frames.ordered import first, last, order_keys
from tidytape.frames.table import Table
from tidytape.times import interval_of

__all__ = ["candles"]

_NEEDED = (*INSTRUMENT, "timestamp", "sequence", "price", "amount")


def candles(trades: IntoFrameT, /, *, interval: str, by_side: bool = False) -> IntoFrameT:
    """Candles of each instrument, or of each side of it.

    The first trade of a bucket is the one with the smallest (timestamp, sequence), the last the one with the largest,
    whatever the order of the rows. A bucket without trades has no row.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or times with a zone,
        ``sequence`` int64, ``price`` [quote per coin], ``amount`` [coin], and ``side`` (BUY or SELL) if ``by_side``.
        Trades of a client have no ``sequence``: it has candles.
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC,
        weeks to Monday.
    by_side : bool
        One candle per side instead of one over both.

    Returns
    -------
    frame, one row per instrument, side if ``by_side``, and bucket with a trade; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``side`` if ``by_side``, ``timestamp`` as in ``trades``, start of the bucket,
        ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [coin], ``first_timestamp`` and
        ``last_timestamp`` likewise, of the first and last trade. Sorted by that key where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or times have no zone.

    Examples
    --------
    >>> import polars as pl
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [5, 5, 9],
    ...         "sequence": [2, 1, 3],
    ...         "side": ["BUY", "SELL", "BUY"],
    ...         "price": [11.0, 10.0, 12.0],
    ...         "amount": [1.0, 2.0, 4.0],
    ...     }
    ... )
    >>> candles(trades, interval="1m").select("open", "high", "low", "close", "volume").rows()
    [(10.0, 12.0, 10.0, 12.0, 7.0)]
    >>> candles(trades, interval="1m", by_side=True).select("side", "open", "volume").rows()
    [('BUY', 11.0, 5.0), ('SELL', 10.0, 2.0)]
    """
    wanted = interval_of(interval)
    table = Table.opened(trades, [*_NEEDED, "side"] if by_side else _NEEDED, times=["timestamp"])
    points = candles_of_trades(table.rows, wanted, by_side=by_side)
    return table.closed(points, times=dict.fromkeys(("first_timestamp", "last_timestamp"), "timestamp"))


def candles_of_trades(
    trades: nw.LazyFrame[Any], interval: Interval, *, by_side: bool = False
) -> nw.LazyFrame[Any]:
    """Return what `candles` does."""
    bucket = bucket_start(nw.col("timestamp"), interval)
    groups = [*INSTRUMENT, "side"] if by_side else [*INSTRUMENT]
    price = nw.col("price")
    keys, order = order_keys(trades, "__order")
    return (
        exact.in_parts(trades, "amount")
        .with_columns(bucket.alias(BUCKET), *keys)
        .group_by(*groups, BUCKET)
        .agg(
            first(trades, "price", order).alias("open"),
            price.max().alias("high"),
            price.min().alias("low"),
            last(trades, "price", order).alias("close"),
            exact.summed("amount"),
            nw.col("timestamp").min().alias("first_timestamp"),
            nw.col("timestamp").max().alias("last_timestamp"),
        )
        .select(
            *groups,
            nw.col(BUCKET).alias("timestamp"),
            *("open", "high", "low", "close"),
            exact.total("amount").alias("volume"),
            *("first_timestamp", "last_timestamp"),
        )
        .sort(*groups, "timestamp")
    )
