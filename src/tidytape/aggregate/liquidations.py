"""Liquidations to liquidated volume: the sum per side and interval."""

from __future__ import annotations

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET, INSTRUMENT
from tidytape.frames.table import Table
from tidytape.times import interval_of

__all__ = ["liquidations"]

_GROUPS = (*INSTRUMENT, "side")


def liquidations(events: IntoFrameT, /, *, interval: str) -> IntoFrameT:
    """Liquidated volume of each instrument and side.

    The side is that of the liquidated position: BUY = longs were liquidated. Sums are exact, whatever the order of the
    rows. Feeds are sampled, so totals are lower bounds. A bucket without liquidations of a side has no row for it.

    Parameters
    ----------
    events : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch], ``side`` (BUY or SELL),
        ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC,
        weeks to Monday.

    Returns
    -------
    frame, one row per instrument, side and bucket with a liquidation; of the same kind as ``events``
        ``exchange``, ``raw_symbol``, ``side``, ``timestamp`` int64, start of the bucket [ns], ``liquidations`` [coin].
        Sorted by (exchange, raw_symbol, side, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    Examples
    --------
    >>> import polars as pl
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [10, 20, 30],
    ...         "side": ["BUY", "SELL", "BUY"],
    ...         "amount": [0.1, 4.0, 0.2],
    ...     }
    ... )
    >>> liquidations(events, interval="1m").select("side", "liquidations").rows()
    [('BUY', 0.3), ('SELL', 4.0)]
    """
    bucket = bucket_start(nw.col("timestamp"), interval_of(interval))
    table = Table.opened(events, [*_GROUPS, "amount"], times=["timestamp"])
    points = (
        exact.in_parts(table.rows, "amount")
        .with_columns(bucket.alias(BUCKET))
        .group_by(*_GROUPS, BUCKET)
        .agg(exact.summed("amount"))
        .select(
            *_GROUPS,
            nw.col(BUCKET).alias("timestamp"),
            exact.total("amount").alias("liquidations"),
        )
    )
    return table.closed(points, sort=[*_GROUPS, "timestamp"])
