"""Trades to candles, to volume profiles, and to trades as the service returns them; liquidations to volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.catalogue import Side
from tidytape.frames import _exact as exact
from tidytape.frames._door import BUCKET, MARKET
from tidytape.frames._grid import Grid
from tidytape.frames._rows import first, last, order_keys
from tidytape.frames._table import Rows, tabular
from tidytape.frames._times import bucket_start
from tidytape.times import frame_interval


def _needed(*, by_side: bool = False, **_: Any) -> list[str]:
    return [*MARKET, "timestamp", "price", "amount", *(["side"] if by_side else [])]


@tabular(_needed, new_times=dict.fromkeys(("first_timestamp", "last_timestamp"), "timestamp"))
def candles(trades: Rows, /, *, interval: str, by_side: bool = False) -> Rows:
    """Candles of each market, or of each side of each market.

    The first trade of a bucket is the one with the smallest (timestamp, sequence), the last the one with the largest,
    whatever the order of the rows. Without ``sequence``, as in the trades of a client, an ``id`` that is a whole number
    takes its place. A bucket without trades has no row.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or times with a zone, ``price``
        [quote per coin], ``amount`` [coin], and ``side`` (BUY or SELL) if ``by_side``. ``sequence`` int64 and ``id``
        are optional.
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC,
        weeks to Monday.
    by_side : bool
        Whether each side has candles of its own; so have the trades whose side is not known, with a null as their side.

    Returns
    -------
    frame, one row per market, side if ``by_side``, and bucket with a trade; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``side`` if ``by_side``, ``timestamp`` as in ``trades``, start of the bucket,
        ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [coin], ``first_timestamp`` and
        ``last_timestamp``, of the same type, of the first and last trade. Sorted by that key where the engine keeps
        order. If neither ``sequence`` nor ``id`` orders the trades of the first (last) time, and they have several
        prices, the open (close) is null.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or times have no zone.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 5, start + 5, start + 9],
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
    groups = [*MARKET, "side"] if by_side else [*MARKET]
    return _candles(exact.in_parts(trades, "amount"), interval, groups, volume=True)


def candles_without_volume(trades: Rows, /, *, interval: str) -> Rows:
    """Return the result of `candles` without ``volume``, whose sum takes most of the time."""
    return _candles(trades, interval, [*MARKET], volume=False)


def _candles(trades: Rows, interval: str, groups: list[str], *, volume: bool) -> Rows:
    bucket = bucket_start(nw.col("timestamp"), frame_interval(interval))
    price, ordered_price = nw.col("price"), "price"
    if "sequence" in trades.collect_schema().names():
        keys, order = order_keys(trades, "__order")
    else:
        trades, ordered_price = _with_order(trades, [*groups, "timestamp"]), "__price"
        keys, order = [], ("timestamp", "__digits", "__id")
    return (
        trades.with_columns(bucket.alias(BUCKET), *keys)
        .group_by(*groups, BUCKET)
        .agg(
            first(trades, ordered_price, order).alias("open"),
            price.max().alias("high"),
            price.min().alias("low"),
            last(trades, ordered_price, order).alias("close"),
            *([exact.summed("amount")] if volume else []),
            nw.col("timestamp").min().alias("first_timestamp"),
            nw.col("timestamp").max().alias("last_timestamp"),
        )
        .select(
            *groups,
            nw.col(BUCKET).alias("timestamp"),
            *("open", "high", "low", "close"),
            *([exact.total("amount").alias("volume")] if volume else []),
            *("first_timestamp", "last_timestamp"),
        )
        .sort(*groups, "timestamp")
    )


def _with_order(trades: Rows, time_keys: list[str]) -> Rows:
    """Add ``__digits`` and ``__id``, the order of trades of one time; and ``__price``, null where they have none."""
    has_ids = "id" in trades.collect_schema().names()
    text, price = nw.col("id").cast(nw.String()) if has_ids else nw.lit(""), nw.col("price")
    # Whole numbers as text have the order of their lengths, and numbers of one length the order of text.
    is_number = text.str.contains("^(0|[1-9][0-9]*)$").fill_null(value=False)
    trades = trades.with_columns(
        __id=text, __digits=text.str.len_chars(), __ordered=nw.when(is_number).then(1).otherwise(0)
    )
    has_one_price = price.min().over(*time_keys) == price.max().over(*time_keys)
    has_order = nw.col("__ordered").min().over(*time_keys) == 1
    return trades.with_columns(__price=nw.when(has_one_price | has_order).then(price))


@tabular([*MARKET, "timestamp", "side", "price", "amount"])
def volume_profile(trades: Rows, /, *, interval: str, block_size: Decimal | float | str) -> Rows:
    """Volume per interval and price row of each market, split by the side of the aggressor.

    A row holds the trades at ``[price, price + block_size)``. Rows are integer multiples of the block size, decided on
    exact decimals: a price on the grid stays on its row. A row without trades does not appear.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] as in a lake, or times with a
        zone as in `tidytape.Client.trades`, ``side`` (BUY or SELL), ``price`` [quote per coin], ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]

    Returns
    -------
    frame, one row per market, bucket and price row with a trade; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the bucket, ``price``, low edge of the
        row [quote per coin], ``buy_volume``, ``sell_volume`` and ``volume`` [coin], which counts every trade; the two
        sides are null where the side of a trade is not known. Sorted by (exchange, raw_symbol, timestamp, price) where
        the engine keeps order. Trades without a price, or with a price more than 2**53 rows from zero, where floats
        cannot tell one row from the next, are in a row with a null price.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, times have no zone, or the block size is not a positive number.

    References
    ----------
    .. [1] Chicago Board of Trade, "A Six-Part Study Guide to Market Profile", 1996: volume by price.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 5, start + 6, start + 9],
    ...         "side": ["BUY", "SELL", "BUY"],
    ...         "price": [0.3, 0.35, 0.4],
    ...         "amount": [1.0, 2.0, 4.0],
    ...     }
    ... )
    >>> profile = volume_profile(trades, interval="1h", block_size="0.1")
    >>> profile.select("price", "buy_volume", "sell_volume", "volume").rows()
    [(0.3, 1.0, 2.0, 3.0), (0.4, 4.0, 0.0, 4.0)]
    """
    bucket = bucket_start(nw.col("timestamp"), frame_interval(interval))
    rows = trades.with_columns(bucket.alias(BUCKET), Grid.of(block_size).edge(nw.col("price")).alias("price"))
    volume = nw.col("buy_volume") + nw.col("sell_volume")
    return (
        summed_by_side(rows, [*MARKET, BUCKET, "price"], {"amount": ("buy_volume", "sell_volume")})
        .select(
            *MARKET,
            nw.col(BUCKET).alias("timestamp"),
            *("price", "buy_volume", "sell_volume"),
            nw.coalesce(volume, nw.col("amount")).alias("volume"),
        )
        .sort(*MARKET, "timestamp", "price")
    )


HAS_SIDES = "__sign"
"""Column of `summed_by_side`: 1 if each trade of a row has a side, else 0."""


def summed_by_side(trades: Rows, keys: Sequence[str], amounts: Mapping[str, tuple[str, str]]) -> Rows:
    """Return one row per keys: the sums of amounts, what of them was bought and sold, and `HAS_SIDES`.

    ``amounts`` has for each column of amounts the names of what was bought and of what was sold, which are null if a
    trade has no side.
    """
    return parts_by_side(exact.in_parts(trades, *amounts), keys, amounts)


def parts_by_side(trades: Rows, keys: Sequence[str], amounts: Mapping[str, tuple[str, str]]) -> Rows:
    """Return `summed_by_side` of trades, or of sums of them, whose amounts are in parts."""
    side, sign = nw.col("side"), nw.col(HAS_SIDES)
    # First sum by side, and only then put the sides into columns of their own: so amounts are split into parts once,
    # not once per side. Grouping by a number is faster than by text.
    sides = (
        trades.with_columns(
            ((side == Side.BUY.value).cast(nw.Int8()) - (side == Side.SELL.value).cast(nw.Int8()))
            .fill_null(0)
            .alias(HAS_SIDES)
        )
        .group_by(*keys, HAS_SIDES)
        .agg(exact.summed(*amounts))
    )
    of_sides = {
        name: (amount, sign_of_side)
        for amount, names in amounts.items()
        for name, sign_of_side in zip(names, (1, -1), strict=True)
    }
    for name, (amount, sign_of_side) in of_sides.items():
        sides = sides.with_columns(*exact.where(sign == sign_of_side, amount, name))
    columns = (*of_sides, *amounts)
    return (
        sides.with_columns(sign.abs())
        .group_by(*keys)
        .agg(exact.summed(*columns), sign.min())
        .with_columns(*map(exact.total, columns))
        .with_columns(nw.when(sign == 1).then(nw.col(name)).alias(name) for name in of_sides)
    )


_SIDE = (*MARKET, "side")
_PAYLOAD = ("timestamp", "id", "price", "amount", "quote_amount")


@tabular([*_SIDE, *_PAYLOAD, "sequence"])
def raw_trades(trades: Rows, /) -> Rows:
    """Trades of each market and side, in the order of trading.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``side`` (of the aggressor, BUY or SELL, null if it is not known),
        ``timestamp`` int64 [ns since the epoch] or with a zone, ``sequence`` int64, order among trades of one
        timestamp, ``id``, ``price`` [quote per coin], ``amount`` [coin], ``quote_amount`` [quote].

    Returns
    -------
    frame, n rows; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``side``, ``timestamp``, ``id``, ``price``, ``amount``, ``quote_amount``. Sorted
        by (exchange, raw_symbol, side, timestamp, sequence, id) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "side": "BUY",
    ...         "timestamp": [start + 5, start + 5, start + 1],
    ...         "sequence": [3, 2, 1],
    ...         "id": ["c", "b", "a"],
    ...         "price": [12.0, 11.0, 10.0],
    ...         "amount": 1.0,
    ...         "quote_amount": [12.0, 11.0, 10.0],
    ...     }
    ... )
    >>> raw_trades(trades).select(pl.col("timestamp") - start, "id", "price").rows()
    [(1, 'a', 10.0), (5, 'b', 11.0), (5, 'c', 12.0)]
    """
    return trades.sort(*_SIDE, "timestamp", "sequence", "id").select(*_SIDE, *_PAYLOAD)


@tabular([*_SIDE, "timestamp", "amount"], sort=[*_SIDE, "timestamp"])
def liquidations(events: Rows, /, *, interval: str) -> Rows:
    """Liquidated volume of each market and side.

    The side is that of the liquidated position: BUY means that longs were liquidated. Sums are exact, whatever the
    order of the rows. Feeds are sampled, so totals are lower bounds. A bucket without liquidations of a side has no row
    for it.

    Parameters
    ----------
    events : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or with a zone, ``side`` (BUY or
        SELL), ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC,
        weeks to Monday.

    Returns
    -------
    frame, one row per market, side and bucket with a liquidation; of the same kind as ``events``
        ``exchange``, ``raw_symbol``, ``side``, ``timestamp`` as in ``events``, start of the bucket, ``liquidations``
        [coin]. Sorted by (exchange, raw_symbol, side, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 10, start + 20, start + 30],
    ...         "side": ["BUY", "SELL", "BUY"],
    ...         "amount": [0.1, 4.0, 0.2],
    ...     }
    ... )
    >>> liquidations(events, interval="1m").select("side", "liquidations").rows()
    [('BUY', 0.3), ('SELL', 4.0)]
    """
    return (
        exact.in_parts(events, "amount")
        .with_columns(bucket_start(nw.col("timestamp"), frame_interval(interval)).alias(BUCKET))
        .group_by(*_SIDE, BUCKET)
        .agg(exact.summed("amount"))
        .select(
            *_SIDE,
            nw.col(BUCKET).alias("timestamp"),
            exact.total("amount").alias("liquidations"),
        )
    )


_COIN = ("exchange", "coin")


@tabular([*_COIN, "timestamp", "price", "amount"], sort=[*_COIN, "timestamp", "price"])
def liquidation_heatmap(events: Rows, /, *, interval: str, block_size: Decimal | float | str) -> Rows:
    """Liquidated volume of each coin across all markets of an exchange, per interval and price row.

    A row holds the liquidations at ``[price, price + block_size)``, both sides together. Rows are integer multiples of
    the block size, decided on exact decimals. Sums are exact. Feeds are sampled, so totals are lower bounds. A row
    without liquidations does not appear, nor an event whose coin is null.

    Prices in different quotes do not belong into one heatmap, so filter the markets first.

    Parameters
    ----------
    events : frame, n rows, in any order
        Columns ``exchange``, ``coin`` (from the markets registry), ``timestamp`` int64 [ns since the epoch] or with a
        zone, ``price`` [quote per coin], ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]

    Returns
    -------
    frame, one row per exchange, coin, bucket and price row with a liquidation; of the same kind as ``events``
        ``exchange``, ``coin``, ``timestamp`` as in ``events``, start of the bucket, ``price``, low edge of the row
        [quote per coin], ``liquidations`` [coin]. It has no ``raw_symbol``. Sorted by (exchange, coin, timestamp,
        price) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown or the block size is not a positive number.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> events = pl.DataFrame(
    ...     {
    ...         "exchange": "VENUEX",
    ...         "raw_symbol": ["BTC-PERP", "BTC-PERP", "BTC-241227"],
    ...         "coin": "BTC",
    ...         "timestamp": [start + 10, start + 20, start + 30],
    ...         "price": [60_010.0, 60_120.0, 60_050.0],
    ...         "amount": [0.1, 4.0, 0.2],
    ...     }
    ... )
    >>> heatmap = liquidation_heatmap(events, interval="1h", block_size=100)
    >>> heatmap.select("coin", "price", "liquidations").rows()
    [('BTC', 60000.0, 0.3), ('BTC', 60100.0, 4.0)]
    """
    return (
        events.filter(~nw.col("coin").is_null())
        .with_columns(
            bucket_start(nw.col("timestamp"), frame_interval(interval)).alias(BUCKET),
            Grid.of(block_size).edge(nw.col("price")).alias("price"),
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
