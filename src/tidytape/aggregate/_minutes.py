"""One-minute candles and profiles of trades, from which points of every coarser interval are computed.

Minutes also keep what combining them needs: the order of the first and last trade, and amounts both in coin and in the
quote. So trades are read once, and every later answer is computed from minutes::

    trades -> minute_candles -> candles_of -> candles of any interval, of sides or of both
    trades -> minute_profile -> profile_of -> profiles of any interval and any multiple of the block size
                             -> tpo_of     -> market profiles, see `tidytape.aggregate.tpo`
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw

from tidytape.aggregate._trades import HAS_SIDES, parts_by_side
from tidytape.analytics._arguments import one_of
from tidytape.catalogue import Interval
from tidytape.frames import _exact as exact
from tidytape.frames._door import BUCKET, MARKET, OHLC
from tidytape.frames._grid import Grid
from tidytape.frames._rows import first, last, order_keys
from tidytape.frames._table import Rows, tabular
from tidytape.frames._times import bucket_start
from tidytape.times import frame_interval

Amount = Literal["coin", "quote"]

_TRADES: Final = (*MARKET, "timestamp", "sequence", "side", "price", "amount", "quote_amount")
_TIMES: Final = ("timestamp", "first_timestamp", "last_timestamp")
_FIRST: Final = ("first_timestamp", "first_sequence")
_LAST: Final = ("last_timestamp", "last_sequence")
_CANDLES: Final = (*MARKET, "timestamp", *OHLC, *_FIRST, *_LAST)
_VOLUME: Final[Mapping[str, str]] = {"coin": "volume", "quote": "quote_volume"}
_SIDES: Final = ("buy_volume", "sell_volume")
_PROFILE: Final[Mapping[str, tuple[str, str]]] = {
    "coin": _SIDES,
    "quote": ("buy_quote_volume", "sell_quote_volume"),
}


@tabular(_TRADES, new_times=dict.fromkeys(_TIMES[1:], "timestamp"))
def minute_candles(trades: Rows, /, *, by_side: bool = True) -> Rows:
    """One-minute candles of each market, or of each side, with amounts in coin and quote and the order of their trades.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or with a zone, ``sequence``
        int64, ``side`` (BUY, SELL, or null if it is not known), ``price`` [quote per coin], ``amount`` [coin],
        ``quote_amount`` [quote].
    by_side : bool
        Whether each side has a row of its own; so have the trades whose side is not known, with a null as their side.

    Returns
    -------
    frame, one row per market, minute, and side if ``by_side``, with a trade; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the minute, ``side`` if ``by_side``,
        ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [coin], ``quote_volume`` [quote],
        ``first_timestamp`` and ``last_timestamp`` of the same type, ``first_sequence``, ``last_sequence`` int64,
        ``trades`` int64, the number of trades. Sorted by that key where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.

    See Also
    --------
    candles_of : Candles from these minutes.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start + 5, start + 9], "sequence": [1, 2],
    ...         "side": ["BUY", "BUY"], "price": [11.0, 10.0], "amount": [1.0, 2.0], "quote_amount": [11.0, 20.0],
    ...     }
    ... )
    >>> minute_candles(trades).select("side", "open", "close", "volume", "quote_volume", "trades").rows()
    [('BUY', 11.0, 10.0, 3.0, 31.0, 2)]
    >>> "side" in minute_candles(trades, by_side=False).columns
    False
    """
    side = ["side"] if by_side else []
    return candles_of_sums(minute_sums(trades, *side), *side)


def minute_sums(trades: Rows, /, *keys: str) -> Rows:
    """Return minutes by some more columns with the parts of their amounts, so that `united_sums` can unite them."""
    time, price = nw.col("timestamp"), nw.col("price")
    order_columns, order = order_keys(trades, "__order")
    return (
        exact.in_parts(trades, "amount", "quote_amount")
        .with_columns(bucket_start(time, Interval.MINUTE).alias(BUCKET), *order_columns)
        .group_by(*MARKET, BUCKET, *keys)
        .agg(
            first(trades, "price", order).alias("open"),
            price.max().alias("high"),
            price.min().alias("low"),
            last(trades, "price", order).alias("close"),
            exact.summed("amount", "quote_amount"),
            time.min().alias("first_timestamp"),
            time.max().alias("last_timestamp"),
            first(trades, "sequence", order).alias("first_sequence"),
            last(trades, "sequence", order).alias("last_sequence"),
            nw.len().cast(nw.Int64).alias("trades"),
        )
    )


def united_sums(sums: Rows, /, *keys: str) -> Rows:
    """Return `minute_sums` by fewer columns, to the last bit."""
    first_keys, by_first = order_keys(sums, "__first", _FIRST)
    last_keys, by_last = order_keys(sums, "__last", _LAST)
    return (
        sums.with_columns(*first_keys, *last_keys)
        .group_by(*MARKET, BUCKET, *keys)
        .agg(
            first(sums, "open", by_first).alias("open"),
            nw.col("high").max(),
            nw.col("low").min(),
            last(sums, "close", by_last).alias("close"),
            exact.summed("amount", "quote_amount"),
            nw.col("first_timestamp").min(),
            nw.col("last_timestamp").max(),
            first(sums, "first_sequence", by_first).alias("first_sequence"),
            last(sums, "last_sequence", by_last).alias("last_sequence"),
            nw.col("trades").sum(),
        )
    )


def candles_of_sums(sums: Rows, /, *side: str) -> Rows:
    """Return `minute_candles` of `minute_sums` by side, or of those of all trades."""
    return sums.select(
        *MARKET,
        nw.col(BUCKET).alias("timestamp"),
        *side,
        *OHLC,
        exact.total("amount").alias("volume"),
        exact.total("quote_amount").alias("quote_volume"),
        *("first_timestamp", "last_timestamp", "first_sequence", "last_sequence", "trades"),
    ).sort(*MARKET, "timestamp", *side)


def needed_of_candles(*, by_side: bool = False, amount: Amount = "coin", **_: Any) -> list[str]:
    """Return the columns of minutes that `candles_of` needs."""
    one_of("amount", amount, _VOLUME)
    return [*_CANDLES, *(["side"] if by_side else []), _VOLUME[amount]]


@tabular(needed_of_candles)
def candles_of(minutes: Rows, /, *, interval: str, by_side: bool = False, amount: Amount = "coin") -> Rows:
    """Candles of each market, or of each side, from one-minute candles.

    Parameters
    ----------
    minutes : frame, n rows, in any order
        From `minute_candles`, with or without ``by_side``.
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``.
    by_side : bool
        Whether each side has candles of its own; needs minutes by side.
    amount : {"coin", "quote"}
        What ``volume`` counts.

    Returns
    -------
    frame, one row per market, side if ``by_side``, and bucket with a trade; of the same kind as ``minutes``
        As from `tidytape.aggregate.candles`; ``volume`` is the sum of the minutes' volumes. [coin or quote]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or ``amount`` is unknown.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start + 5, start + 5], "sequence": [2, 1],
    ...         "side": ["BUY", "SELL"], "price": [11.0, 10.0], "amount": [1.0, 2.0], "quote_amount": [11.0, 20.0],
    ...     }
    ... )
    >>> candles_of(minute_candles(trades), interval="1h").select("open", "close", "volume").rows()
    [(10.0, 11.0, 3.0)]
    """
    bucket, volume = bucket_start(nw.col("timestamp"), frame_interval(interval)), _VOLUME[amount]
    group_columns = [*MARKET, "side"] if by_side else [*MARKET]
    first_keys, by_first = order_keys(minutes, "__first", _FIRST)
    last_keys, by_last = order_keys(minutes, "__last", _LAST)
    return (
        exact.in_parts(minutes, volume)
        .with_columns(bucket.alias(BUCKET), *first_keys, *last_keys)
        .group_by(*group_columns, BUCKET)
        .agg(
            first(minutes, "open", by_first).alias("open"),
            nw.col("high").max(),
            nw.col("low").min(),
            last(minutes, "close", by_last).alias("close"),
            exact.summed(volume),
            nw.col("first_timestamp").min(),
            nw.col("last_timestamp").max(),
        )
        .select(
            *group_columns,
            nw.col(BUCKET).alias("timestamp"),
            *OHLC,
            exact.total(volume).alias("volume"),
            *("first_timestamp", "last_timestamp"),
        )
        .sort(*group_columns, "timestamp")
    )


@tabular([name for name in _TRADES if name != "sequence"])
def minute_profile(trades: Rows, /, *, block_size: Decimal | float | str) -> Rows:
    """One-minute volume profiles of each market: amounts bought and sold in each price row, in coin and in the quote.

    Parameters
    ----------
    trades : frame, n rows, in any order
        As in `minute_candles`; ``sequence`` is not needed.
    block_size : Decimal, int, float or str, > 0
        Height of a row. [quote per coin]

    Returns
    -------
    frame, one row per market, minute and price row with a trade; of the same kind as ``trades``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``trades``, start of the minute, ``price``, low edge of the
        row [quote per coin], ``buy_volume``, ``sell_volume`` [coin], ``buy_quote_volume``, ``sell_quote_volume``
        [quote]. Where the side of a trade is not known these are null, and ``volume`` [coin] and ``quote_volume``
        [quote] count every trade; elsewhere those two are null. Sorted by that key where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the block size is not a positive number.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start + 5, start + 9],
    ...         "side": ["BUY", "SELL"],
    ...         "price": [10.5, 10.0], "amount": [1.0, 2.0], "quote_amount": [10.5, 20.0],
    ...     }
    ... )
    >>> minute_profile(trades, block_size=1).select("price", "buy_volume", "sell_quote_volume").rows()
    [(10.0, 1.0, 20.0)]
    """
    grid = Grid.of(block_size)
    rows = trades.with_columns(
        bucket_start(nw.col("timestamp"), Interval.MINUTE).alias(BUCKET),
        grid.row(nw.col("price")).alias("row"),
    )
    return profile_of_sums(exact.in_parts(rows, "amount", "quote_amount"), grid)


def profile_of_sums(rows: Rows, /, grid: Grid) -> Rows:
    """Return `minute_profile` of trades whose amounts are in parts, or of `minute_sums` by side and row."""
    has_sides = nw.col(HAS_SIDES) == 1
    amounts = dict(zip(("amount", "quote_amount"), _PROFILE.values(), strict=True))
    return (
        parts_by_side(rows, [*MARKET, BUCKET, "row"], amounts)
        .select(
            *MARKET,
            nw.col(BUCKET).alias("timestamp"),
            grid.price(nw.col("row")).alias("price"),
            *(name for names in amounts.values() for name in names),
            *(
                nw.when(~has_sides).then(nw.col(amount)).alias(total)
                for amount, total in zip(amounts, _VOLUME.values(), strict=True)
            ),
        )
        .sort(*MARKET, "timestamp", "price")
    )


def needed_of_profile(*, amount: Amount = "coin", **_: Any) -> list[str]:
    """Return the columns of minutes that `profile_of` needs."""
    one_of("amount", amount, _PROFILE)
    return [*MARKET, "timestamp", "price", *_PROFILE[amount]]


@tabular(needed_of_profile, optional=tuple(_VOLUME.values()))
def profile_of(
    minutes: Rows, /, *, interval: str, block_size: Decimal | float | str, amount: Amount = "coin"
) -> Rows:
    """Volume per interval and price row of each market, from one-minute profiles.

    Parameters
    ----------
    minutes : frame, n rows, in any order
        From `minute_profile`, with a block size that divides this one.
    interval : str
        Name or alias of an interval.
    block_size : Decimal, int, float or str, > 0
        Height of a row. It must be a whole multiple of that of the minutes, which is not checked, because minutes do
        not have it. [quote per coin]
    amount : {"coin", "quote"}
        What the volumes count.

    Returns
    -------
    frame, one row per market, bucket and price row with a trade; of the same kind as ``minutes``
        As from `tidytape.aggregate.volume_profile`. [coin or quote]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or ``amount`` is unknown, or the block size is not a positive number.

    References
    ----------
    .. [1] Chicago Board of Trade, "A Six-Part Study Guide to Market Profile", 1996: volume by price.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": [start + 5, start + 9],
    ...         "side": ["BUY", "SELL"],
    ...         "price": [10.5, 11.0], "amount": [1.0, 2.0], "quote_amount": [10.5, 22.0],
    ...     }
    ... )
    >>> minutes = minute_profile(trades, block_size=1)
    >>> profile_of(minutes, interval="1h", block_size=2).select("price", "buy_volume", "volume").rows()
    [(10.0, 1.0, 3.0)]
    """
    grid, total, (bought, sold) = Grid.of(block_size), nw.col(_VOLUME[amount]), map(nw.col, _PROFILE[amount])
    if _VOLUME[amount] not in minutes.collect_schema().names():
        minutes = minutes.with_columns(nw.lit(None, nw.Float64()).alias(_VOLUME[amount]))
    is_sideless = bought.is_null() & ~total.is_null()
    rows = minutes.select(
        *MARKET,
        bucket_start(nw.col("timestamp"), frame_interval(interval)).alias(BUCKET),
        grid.row(nw.col("price")).alias("row"),
        # A total without sides is added to what was bought, so that only two columns are split into parts.
        nw.coalesce(bought, total).alias("buy_volume"),
        nw.when(is_sideless).then(nw.lit(0.0)).otherwise(sold).alias("sell_volume"),
        (~is_sideless).cast(nw.Int8()).alias(HAS_SIDES),
    )
    has_sides, volume = nw.col(HAS_SIDES) == 1, nw.col("buy_volume") + nw.col("sell_volume")
    return (
        exact.in_parts(rows, *_SIDES)
        .group_by(*MARKET, BUCKET, "row")
        .agg(exact.summed(*_SIDES), nw.col(HAS_SIDES).min())
        .with_columns(*map(exact.total, _SIDES), *exact.added(*_SIDES, "volume"))
        .select(
            *MARKET,
            nw.col(BUCKET).alias("timestamp"),
            grid.price(nw.col("row")).alias("price"),
            *(nw.when(has_sides).then(nw.col(name)).alias(name) for name in _SIDES),
            nw.when(has_sides).then(volume).otherwise(exact.total("volume")).alias("volume"),
        )
        .sort(*MARKET, "timestamp", "price")
    )
