"""Points in USD, and points of several exchanges combined into one series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._resample import CANDLES, in_one_unit, payload_of
from tidytape.catalogue import USD_QUOTES, AmountUnit
from tidytape.errors import QueryError
from tidytape.frames._door import MARKET, OHLC
from tidytape.frames._joined import (
    COVERAGE,
    STANDING,
    TRADED,
    UNKNOWN,
    as_of,
    consolidated,
    joined,
    standing_sums,
    summed,
    weighted,
    with_coverage,
    with_times,
)
from tidytape.frames._kinds import OF_BOOKS
from tidytape.frames._rows import with_all, within
from tidytape.frames._table import OpenTable, Rows
from tidytape.schema import schema_of
from tidytape.times import DAY

_AMOUNTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "TRADE": ("amount",),
        "OPEN_INTEREST_AGG": OHLC,
        "VOLUME_PROFILE_AGG": ("buy_volume", "sell_volume"),
        "BLOCK_BOOK_SNAPSHOT_AGG": ("size",),
        "VENUEX_LIQUIDATION_AGG": ("liquidations",),
    }
)
"""Columns of amounts to multiply by a price, by data type."""


def to_usd(
    frame: IntoFrameT,
    /,
    *,
    quote: str | None,
    data_type: str = "TRADE",
    rates: IntoFrameT | None = None,
    prices: IntoFrameT | None = None,
) -> IntoFrameT:
    r"""Convert amounts from coin to USD; prices do not change.

    .. math:: a_\mathrm{usd} = a\, p\, r

    with the price p at that time, and r, the price of the quote in USD at that time. For events, a recorded amount in
    the quote is used if the frame has it. For candles, profiles and sums of liquidations in USD, convert the events
    first, then aggregate.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Events or points with ``timestamp`` int64 [ns since the epoch] or with a zone. Events: ``price`` [quote per
        coin], ``amount`` [coin] and, if known, ``quote_amount`` [quote]. Points with levels: ``price`` and amounts
        [coin]. Open interest: ``exchange``, ``raw_symbol`` and amounts [coin].
    quote : str
        The quote of the prices. A quote in `tidytape.catalogue.USD_QUOTES` counts as one USD.
    data_type : str
        ``TRADE`` for events, which are trades or single liquidations; or ``OPEN_INTEREST_AGG``,
        ``VOLUME_PROFILE_AGG``, ``BLOCK_BOOK_SNAPSHOT_AGG`` or ``VENUEX_LIQUIDATION_AGG``.
    rates : frame of the same kind, optional
        ``quote_coin``, ``timestamp`` int64 [ns] or with a zone, ``usd`` [USD per quote]; needed if the quote does not
        count as USD. The newest rate at or before a row's ``timestamp`` counts.
    prices : frame of the same kind, optional
        ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns] or with a zone, start of the bucket, ``close`` [quote per
        coin]: candles; needed for open interest. A bucket without a trade gets the close before it.

    Returns
    -------
    frame, n rows, same columns, of the same kind as ``frame``
        Amounts in USD, null where there is no rate or no price yet; ``amount_unit`` is USD if the frame has it. The
        rows are in the same order, unless rates or prices are joined.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``rates`` are missing for a quote that does not count as USD, ``prices`` are missing for open interest, or
        the type has no price to convert with.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> trades = pl.DataFrame({"timestamp": [start + 5, start + 9], "price": [10.0, 12.0], "amount": [1.0, 2.0]})
    >>> to_usd(trades, quote="USDT")["amount"].to_list()
    [10.0, 24.0]
    >>> rates = pl.DataFrame({"quote_coin": ["EUR"], "timestamp": [start + 8], "usd": [1.25]})
    >>> to_usd(trades, quote="EUR", rates=rates).sort("timestamp")["amount"].to_list()
    [None, 30.0]
    """
    schema_of(data_type)
    if data_type not in _AMOUNTS:
        raise QueryError(
            "data_type",
            got=data_type,
            expected="one of " + ", ".join(_AMOUNTS),
            hint="convert the raw events first, then aggregate them",
            code="UNSUPPORTED",
        )
    is_stock = data_type == "OPEN_INTEREST_AGG"
    if is_stock and prices is None:
        raise QueryError("prices", got=None, expected="a frame of closes; open interest has no price")
    if quote not in USD_QUOTES and rates is None:
        raise QueryError(
            "quote",
            got=quote,
            expected="a quote that counts as USD: " + ", ".join(sorted(USD_QUOTES)),
            hint="another one needs rates",
            code="UNSUPPORTED",
        )
    price_columns = MARKET if is_stock else ("price",)
    table = OpenTable.of(
        frame, [*price_columns, "timestamp", *_AMOUNTS[data_type], "timestamp"], optional=["volume"]
    )
    closes = rate_rows = None
    if prices is not None and is_stock:
        closes = OpenTable.of(prices, [*MARKET, "close", "timestamp"], parameter="prices").rows
    if rates is not None and quote not in USD_QUOTES:
        rate_rows = OpenTable.of(rates, ["quote_coin", "usd", "timestamp"], parameter="rates").rows
    return table.closed(in_usd(table.rows, quote, data_type, rate_rows, closes))


def in_usd(
    rows: Rows,
    quote: str | None,
    data_type: str = "TRADE",
    rates: Rows | None = None,
    prices: Rows | None = None,
) -> Rows:
    """Return rows with amounts in USD, as `to_usd` does, without checks.

    ``rates`` are needed if the quote does not count as USD, ``prices`` for open interest.
    """
    names = rows.collect_schema().names()
    price: nw.Expr = nw.col("price")
    rate: nw.Expr | float = 1.0
    if prices is not None:
        rows = as_of(rows, prices.rename({"close": "__price"}), "__price", by=MARKET)
        price = nw.col("__price")
    if rates is not None:
        rows = as_of(
            rows, rates.filter(nw.col("quote_coin") == quote).rename({"usd": "__usd"}), "__usd", by=()
        )
        rate = nw.col("__usd")
        price = price * rate
    if data_type == "TRADE" and "quote_amount" in names:
        rows = rows.with_columns(amount=nw.col("quote_amount") * rate)
    else:
        rows = rows.with_columns(nw.col(name) * price for name in _AMOUNTS[data_type])
    if data_type == "VOLUME_PROFILE_AGG" and "volume" in names:
        volume = nw.col("buy_volume") + nw.col("sell_volume")
        rows = rows.with_columns(volume=nw.coalesce(volume, nw.col("volume") * price))
    if "amount_unit" in names:
        rows = rows.with_columns(amount_unit=nw.lit(AmountUnit.USD.value))
    return rows.select(*names)


_GROUPABLE: Final = (
    *CANDLES,
    "OPEN_INTEREST_AGG",
    "FUNDING_RATE_AGG",
    "LIQUIDATION_AGG",
    "VOLUME_PROFILE_AGG",
    "BLOCK_BOOK_SNAPSHOT_AGG",
)
_SERIES: Final = ("coin", "interval")
_COMMON: Final = ("normalized_symbol", "category")
_ALL, _WEIGHT, _LACKS_WEIGHT, _TOTAL = "__all", "__weight", "__lacks_weight", "__total"
_HAS_REPORT: Final = "__has_report"


def group(points: IntoFrameT, /, *, data_type: str, weights: IntoFrameT | None = None) -> IntoFrameT:
    r"""Combine the points of several markets of a coin, the members, into one series.

    Amounts of candles, liquidations, profiles and books are summed; the sums do not depend on the order of the rows.
    The high and low of a candle are the extremes, the open is that of the member that traded first, and the close that
    of the member that traded last. Members that traded at the same time are ordered by (exchange, raw_symbol): the
    first gives the open, the last the close. If it is unknown when one of several members traded first (last), as in
    recorded candles, the open (close) is null. A candle that only fills a gap counts only if no member traded, so group
    first, then fill. If one amount is unknown (null), the sum is null; a member without a row adds nothing.

    Open interest is a stock: in buckets in which only other members report, a member counts with its last close, for at
    most 24 hours from start to start of the buckets. Then open, high, low and close are summed. If a member's open,
    high or low is null, its close replaces it. If its close is null, the sums are null until it reports again, at most
    24 hours.

    Funding is weighted by the members' open interest O at the bucket's close:

    .. math:: f = \sum_i f_i O_i \Big/ \sum_i O_i

    over the members that have both; these sums do not depend on the order of the rows either. A bucket without such a
    member has no point. A member without a row of ``weights`` is absent and left out. A member whose weight is null is
    unknown, and so is the mean of each rate that it has.

    Parameters
    ----------
    points : frame, n rows, key (exchange, raw_symbol, timestamp) and the type's own, in any order
        Schema of ``data_type``, with times as int64 [ns since the epoch] or with a zone. All amounts have one unit.
        With a column ``coin``, each coin has a series of its own; without it, all members form one series.
    data_type : str
        A candle type, ``OPEN_INTEREST_AGG``, ``FUNDING_RATE_AGG``, ``LIQUIDATION_AGG``, ``VOLUME_PROFILE_AGG`` or
        ``BLOCK_BOOK_SNAPSHOT_AGG``.
    weights : frame of the same kind, key (exchange, raw_symbol, timestamp), optional
        Needed for funding: ``close``, the open interest at the close of each bucket, also of members without a rate;
        and ``coin`` if the points have it. [USD]

    Returns
    -------
    frame, one row per series, bucket and what else the type's key holds; of the same kind as ``points``
        ``normalized_symbol`` and ``category`` if all members of the series agree, else null; ``coin``, ``interval`` and
        ``side``; ``timestamp`` as in ``points``; the values of the type in its units. The result has no exchange, no
        raw symbol and no descriptors; amounts are null if ``amount_unit`` has several units. And ``coverage`` : float64
        [1], how much of the point is known:

        - for sums, the share of the members' rows with known amounts; for levels, all rows of the point count together;
        - for open interest, the share of the members with a report whose amount is known;
        - for funding, the open interest of the members with both, divided by that of all members. It is null if a
          member's open interest is unknown.

        Sorted by that key where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If points of the type cannot be grouped, if weights are missing for funding, or if they are given for another
        type.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> candles = pl.DataFrame(
    ...     {
    ...         "exchange": ["A", "B"],
    ...         "raw_symbol": ["BTCUSDT", "BTC-PERP"],
    ...         "coin": "BTC",
    ...         "category": ["SPOT", "PERPETUAL"],
    ...         "timestamp": start,
    ...         "open": [10.0, 10.5],
    ...         "high": [12.0, 11.0],
    ...         "low": [9.0, 10.0],
    ...         "close": [11.0, 10.0],
    ...         "volume": [0.1, 0.2],
    ...         "first_timestamp": [start + 5, start + 4],
    ...         "last_timestamp": [start + 50, start + 40],
    ...     }
    ... )
    >>> group(candles, data_type="TRADE_SIDE_AGNOSTIC_AGG").select(
    ...     "coin", "category", "open", "high", "low", "close", "volume"
    ... ).rows()
    [('BTC', None, 10.5, 12.0, 9.0, 11.0, 0.3)]
    """
    schema = schema_of(data_type, grouped=True)
    if data_type not in _GROUPABLE:
        raise QueryError(
            "data_type", got=data_type, expected="one of " + ", ".join(_GROUPABLE), code="UNSUPPORTED"
        )
    is_of_rates = data_type == "FUNDING_RATE_AGG"
    if is_of_rates != (weights is not None):
        expected = "open interest of the members in USD" if is_of_rates else f"nothing; {data_type} is summed"
        raise QueryError("weights", got=type(weights).__name__, expected=expected)
    point_key = [name for name in schema.key if name not in MARKET]
    columns = payload_of(data_type)
    needed = [*MARKET, *point_key, *(name for name in columns if name not in TRADED)]
    is_of_books = data_type == "BLOCK_BOOK_SNAPSHOT_AGG"
    table = OpenTable.of(
        points, needed, kinds=OF_BOOKS if is_of_books else None, optional=(*TRADED, "volume")
    )
    frame: Any = with_times(table.rows, columns).with_columns(nw.col(*MARKET).cast(nw.String()))
    series_columns, common_columns = (
        [name for name in names if name in table.names] for names in (_SERIES, _COMMON)
    )
    frame = with_all(frame, (nw.col(name).cast(nw.String()) for name in (*series_columns, *common_columns)))
    smallest = {name: within(nw.col(name).min(), series_columns) for name in common_columns}
    frame = with_all(
        frame,
        (
            nw.when(least == within(nw.col(name).max(), series_columns)).then(least).alias(name)
            for name, least in smallest.items()
        ),
    )
    series_columns += common_columns
    frame = in_one_unit(frame, data_type, series_columns)
    keys = [*series_columns, *point_key]
    if is_of_rates:
        grouped = _weighted(frame, series_columns, columns, weights, same_nulls=table.same_nulls(columns))
    elif data_type == "OPEN_INTEREST_AGG":
        grouped = standing_sums(
            frame, frame, members=MARKET, series_columns=series_columns, columns=OHLC, carry=DAY
        )
        coverage = (nw.col(STANDING) - nw.col(UNKNOWN)) / nw.col(STANDING)
        grouped = grouped.with_columns(coverage.alias(COVERAGE))
    elif data_type in CANDLES:
        frame = with_coverage(frame, columns)
        grouped = consolidated(frame, keys, [*columns, COVERAGE], members=MARKET)
    else:
        frame = with_coverage(
            frame, columns, point=[*series_columns, "timestamp"] if "price" in point_key else ()
        )
        grouped = summed(frame, keys, [*columns, COVERAGE])
    order = dict.fromkeys(
        (*schema.identity, *schema.descriptors, "timestamp", *point_key, *columns, *schema.names)
    )
    present = grouped.collect_schema().names()
    return table.closed(
        grouped.select(
            name for name in order if name in present and (name in table.names or name not in TRADED)
        ),
        sort=keys,
        main=schema.names[-4:],
    )


def _weighted(
    frame: Any,
    series_columns: Sequence[str],
    rates: Sequence[str],
    weights: Any,
    *,
    same_nulls: Mapping[str, str],
) -> Any:
    """Return the mean of each rate over the members with rate and open interest, and the coverage of ``rate_close``."""
    member = [*MARKET, "timestamp"]
    of_series = [name for name in ("coin",) if name in series_columns]
    weights = OpenTable.of(weights, [*member, *of_series, "close"], parameter="weights").rows.select(
        *(nw.col(name).cast(nw.String()) for name in (*MARKET, *of_series)),
        "timestamp",
        nw.col("close").alias(_WEIGHT),
        nw.lit(1).alias(_HAS_REPORT),
    )
    # If a member has open interest but no rate at a time, its open interest lowers the coverage. A market that never
    # has a rate counts as a member only if its open interest is known.
    members_without_rate = (
        joined(
            weights.with_columns(nw.lit(0).alias(_ALL)),
            frame.select(nw.lit(0).alias(_ALL), *series_columns).unique(),
            on=[_ALL, *of_series],
            how="inner",
        )
        .drop(_ALL)
        .join(frame.select(*MARKET).unique().with_columns(__has_rate=nw.lit(1)), on=[*MARKET], how="left")
        .filter(~nw.col("__has_rate").is_null() | ~nw.col(_WEIGHT).is_null())
        .drop("__has_rate")
        .join(frame.select(*member), on=member, how="anti")
    )
    weights = weights.drop(*of_series)
    rows = nw.concat([frame.join(weights, on=member, how="left"), members_without_rate], how="diagonal")
    weight, keys = nw.col(_WEIGHT), [*series_columns, "timestamp"]
    is_known = weight.is_finite().fill_null(value=False)
    is_unknown = ~nw.col(_HAS_REPORT).is_null() & ~is_known
    flags = {name: f"__unknown_{name}" for name in rates}
    rows = rows.with_columns(
        nw.when(is_unknown & ~nw.col(name).is_null()).then(1).otherwise(0).max().over(*keys).alias(flag)
        for name, flag in flags.items()
    )
    rows = rows.with_columns(
        nw.when(is_known).then(0.0).otherwise(1.0).alias(_LACKS_WEIGHT),
        nw.when(is_known & (weight > 0)).then(weight).otherwise(0.0).alias(_WEIGHT),
        nw.lit(1.0).alias(_TOTAL),
    ).with_columns(nw.col(_LACKS_WEIGHT).max().over(*keys))
    keys_of_means = [*keys, _LACKS_WEIGHT, *flags.values()]
    means = weighted(rows, keys_of_means, [*rates, _TOTAL], weight=_WEIGHT, same_nulls=same_nulls)
    has_rate = nw.any_horizontal(*(~nw.col(name).is_null() for name in rates), ignore_nulls=False)
    used, all_weights = nw.col("__used_rate_close").fill_null(0.0), nw.col(f"__used_{_TOTAL}")
    # The two sums are rounded separately, so their quotient could exceed 1.
    share = nw.min_horizontal(used / all_weights, nw.lit(1.0))
    return means.filter(has_rate).select(
        *keys,
        *(nw.when(nw.col(flag) == 0).then(nw.col(name)).alias(name) for name, flag in flags.items()),
        nw.when(nw.col(_LACKS_WEIGHT) == 0).then(share).alias(COVERAGE),
    )
