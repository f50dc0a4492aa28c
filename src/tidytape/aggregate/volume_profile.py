"""Trades to a volume profile: bought and sold volume per interval and price row."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Interval, Side
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET, INSTRUMENT
from tidytape.frames.grid import Grid
from tidytape.frames.table import Table
from tidytape.times import interval_of

__all__ = ["volume_profile"]

_NEEDED = (*INSTRUMENT, "timestamp", "side", "price", "amount")
_SIGN = "__sign"


def volume_profile(trades: IntoFrameT, /, *, interval: str, block_size: Decimal | float | str) -> IntoFrameT:
    """Volume per interval and price row of each instrument, split by the side of the aggressor.

    A row holds the trades at ``[price, price + block_size)``. Rows are integer multiples of the block size, decided on
    exact decimals: a price on the grid stays on its row. A row without trades does not appear.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] as in a lake, or times with a
        zone as of `tidytape.Client.trades`, ``side`` (BUY or SELL), ``price`` [quote per coin], ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]

    Returns
    -------
    frame, one row per instrument, bucket and price row with a trade; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the bucket, ``price``, low edge of the
        row [quote per coin], ``buy_volume``, ``sell_volume`` and their sum ``volume`` [coin]. Sorted by (exchange,
        raw_symbol, timestamp, price) where the engine keeps order. What has no price, or one beyond 2**53 rows from
        zero, where floats do not tell one row from the next, is in a row of its own whose price is null.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, times have no zone, or the block size is no positive number.

    Examples
    --------
    >>> import polars as pl
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [5, 6, 9],
    ...         "side": ["BUY", "SELL", "BUY"],
    ...         "price": [0.3, 0.35, 0.4],
    ...         "amount": [1.0, 2.0, 4.0],
    ...     }
    ... )
    >>> profile = volume_profile(trades, interval="1h", block_size="0.1")
    >>> profile.select("price", "buy_volume", "sell_volume", "volume").rows()
    [(0.3, 1.0, 2.0, 3.0), (0.4, 4.0, 0.0, 4.0)]
    """
    wanted, grid = interval_of(interval), Grid.of(block_size)
    table = Table.opened(trades, _NEEDED, times=["timestamp"])
    return table.closed(profile_of_trades(table.rows, wanted, grid))


def profile_of_trades(trades: nw.LazyFrame[Any], interval: Interval, grid: Grid) -> nw.LazyFrame[Any]:
    """Return what `volume_profile` does."""
    bucket = bucket_start(nw.col("timestamp"), interval)
    side = nw.col("side")
    # By side first, and beside each other once they are few: the amounts are taken apart once and not for each side.
    # A number tells the sides apart faster than a text.
    sides = (
        exact.in_parts(trades, "amount")
        .with_columns(
            bucket.alias(BUCKET),
            grid.edge(nw.col("price")).alias("price"),
            ((side == Side.BUY.value).cast(nw.Int8()) - (side == Side.SELL.value).cast(nw.Int8())).alias(
                _SIGN
            ),
        )
        .group_by(*INSTRUMENT, BUCKET, "price", _SIGN)
        .agg(exact.summed("amount"))
    )
    return (
        sides.with_columns(*exact.where(nw.col(_SIGN) == 1, "amount", "buy_volume"))
        .with_columns(*exact.where(nw.col(_SIGN) == -1, "amount", "sell_volume"))
        .group_by(*INSTRUMENT, BUCKET, "price")
        .agg(exact.summed("buy_volume", "sell_volume"))
        .select(
            *INSTRUMENT,
            nw.col(BUCKET).alias("timestamp"),
            "price",
            exact.total("buy_volume"),
            exact.total("sell_volume"),
        )
        .with_columns((nw.col("buy_volume") + nw.col("sell_volume")).alias("volume"))
        .sort(*INSTRUMENT, "timestamp", "price")
    )
