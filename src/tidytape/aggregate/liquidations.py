"""Liquidations to liquidated volume: per side of a market, and per price row of a coin across a venue."""

from __future__ import annotations

from decimal import Decimal

import narwhals.stable.v2 as nw

from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET, INSTRUMENT
from tidytape.frames.grid import Grid
from tidytape.frames.table import Rows, tabular
from tidytape.times import interval_of

__all__ = ["liquidation_heatmap", "liquidations"]


_OF_SIDE = (*INSTRUMENT, "side")


@tabular([*_OF_SIDE, "timestamp", "amount"], sort=[*_OF_SIDE, "timestamp"])
def liquidations(events: Rows, /, *, interval: str) -> Rows:
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
    return (
        exact.in_parts(events, "amount")
        .with_columns(bucket.alias(BUCKET))
        .group_by(*_OF_SIDE, BUCKET)
        .agg(exact.summed("amount"))
        .select(
            *_OF_SIDE,
            nw.col(BUCKET).alias("timestamp"),
            exact.total("amount").alias("liquidations"),
        )
    )


_COIN = ("exchange", "coin")


@tabular([*_COIN, "timestamp", "price", "amount"], sort=[*_COIN, "timestamp", "price"])
def liquidation_heatmap(events: Rows, /, *, interval: str, block_size: Decimal | float | str) -> Rows:
    """Liquidated volume of each coin across all instruments of a venue, per interval and price row.

    A row holds the liquidations at ``[price, price + block_size)``, both sides together. Rows are integer multiples of
    the block size, decided on exact decimals. Sums are exact. Feeds are sampled, so totals are lower bounds. A row
    without liquidations does not appear, nor an event whose coin is null.

    Prices of instruments with another quote are other prices: choose the instruments before.

    Parameters
    ----------
    events : frame, n rows, in any order
        Columns ``exchange``, ``coin`` (from the markets registry), ``timestamp`` int64 [ns since the epoch], ``price``
        [quote per coin], ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]

    Returns
    -------
    frame, one row per venue, coin, bucket and price row with a liquidation; of the same kind as ``events``
        ``exchange``, ``coin``, ``timestamp`` int64, start of the bucket [ns], ``price``, low edge of the row [quote
        per coin], ``liquidations`` [coin]. It has no ``raw_symbol``. Sorted by (exchange, coin, timestamp, price)
        where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown or the block size is no positive number.

    Examples
    --------
    >>> import polars as pl
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "VENUEX",
    ...         "raw_symbol": ["BTC-PERP", "BTC-PERP", "BTC-241227"],
    ...         "coin": "BTC",
    ...         "timestamp": [10, 20, 30],
    ...         "price": [60_010.0, 60_120.0, 60_050.0],
    ...         "amount": [0.1, 4.0, 0.2],
    ...     }
    ... )
    >>> heatmap = liquidation_heatmap(events, interval="1h", block_size=100)
    >>> heatmap.select("coin", "price", "liquidations").rows()
    [('BTC', 60000.0, 0.3), ('BTC', 60100.0, 4.0)]
    """
    bucket = bucket_start(nw.col("timestamp"), interval_of(interval))
    grid = Grid.of(block_size)
    return (
        events.filter(~nw.col("coin").is_null())
        .with_columns(
            bucket.alias(BUCKET),
            grid.edge(nw.col("price")).alias("price"),
        )
        .pipe(exact.in_parts, "amount")
        .group_by(*_COIN, BUCKET, "price")
        .agg(exact.summed("amount"))
        .select(
            *_COIN,
            nw.col(BUCKET).alias("timestamp"),
            "price",
            exact.total("amount").alias("liquidations"),
        )
    )
