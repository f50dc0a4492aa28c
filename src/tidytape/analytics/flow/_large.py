"""The share of large trades in the volume, and cascades of liquidations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import inf
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.flow._sides import LIQUIDATIONS, amount_of, buckets, quotient, usable
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, require_one_unit
from tidytape.times import SECOND

_OF_CASCADES = (
    "start",
    "end",
    "liquidations",
    "count",
    "largest",
    "largest_at",
    "is_lower_bound",
    "threshold",
    "gap",
    "smallest",
)


def large_trade_share(
    trades: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    at_least: float | None = None,
    above_quantile: float | None = None,
    interval: str | timedelta | None = None,
    volume: str = "amount",
) -> IntoFrameT:
    r"""Large-trade share: the share of the volume that comes from trades of at least some size.

    .. math:: s = \frac{\sum_{i:\, v_i \ge v^*} v_i}{\sum_i v_i}

    or, with a quantile, the sum over :math:`v_i > v_{(k)}`, the :math:`k = \lceil q n \rceil`-th smallest of :math:`n`
    amounts.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Schema TRADE (``client.trades``): ``timestamp``, and ``amount`` [coin].
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame except ``side``. Null
        counts as a value.
    at_least : float, > 0, optional
        The size from which a trade is large. [as ``volume``]
    above_quantile : float, 0 < q < 1, optional
        Instead of ``at_least``: a trade is large if it is above this quantile of the amounts of its own bucket; 0.99
        for the largest hundredth. Pass exactly one of the two.
    interval : str or timedelta, optional
        Name, alias or length of the intervals to compute a share for, e.g. ``"1h"``. By default one share for all
        trades of a series.
    volume : str
        Column of the amounts, e.g. ``quote_amount``.

    Returns
    -------
    frame, one row per ``by``, or per (by, timestamp) with ``interval``; sorted by them, of the kind of ``trades``
        ``by``, and

        - ``timestamp`` : time, start of the interval; without ``interval``, the time of the first trade.
        - ``large_volume``, ``volume`` : float64. [as ``volume``]
        - ``large_trades``, ``trades`` : int64. [trades]
        - ``large_trade_share`` : float64, null where nothing was traded. [1]
        - ``threshold`` : float64, the size that a large trade reaches, or exceeds by the rule of a quantile. [as
          ``volume``]
        - ``threshold_rule`` : str, ``at_least`` or ``above_quantile``.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        Unless exactly one of the two thresholds is given; if it is out of range, the interval is unknown, a time has no
        zone, or amounts are not numbers. Or if an eager frame has several amount units in one series; in a lazy frame
        such amounts are unknown.

    Notes
    -----
    If an amount is null, not finite or below zero, it might be the largest, so the volumes, threshold and share of its
    interval are null. The same holds if a row of ``trades`` covers more than ``interval``. A trade without a time is
    left out. If all amounts are equal, none is above a quantile.

    An order that is filled in parts is several trades, so the share of large trades is lower than that of large orders.
    A quantile uses only the trades of its own interval, so no row depends on a later one.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> trades = pl.DataFrame({"timestamp": datetime(2024, 8, 8, tzinfo=UTC), "amount": [1.0, 2.0, 3.0, 10.0]})
    >>> large_trade_share(trades, at_least=3).select("large_volume", "volume", "large_trade_share").row(0)
    (13.0, 16.0, 0.8125)
    >>> large_trade_share(trades, above_quantile=0.75).select("large_trade_share", "threshold").row(0)
    (0.625, 3.0)
    """
    if (at_least is None) == (above_quantile is None):
        raise QueryError(
            "at_least", got=(at_least, above_quantile), expected="one of at_least and above_quantile"
        )
    rule = "at_least" if above_quantile is None else "above_quantile"
    if above_quantile is None:
        at_least = arguments.positive("at_least", at_least)
    elif arguments.share("above_quantile", above_quantile) == 1:
        raise QueryError("above_quantile", got=above_quantile, expected="a number above 0 and below 1")
    results = ("large_volume", "volume", "large_trades", "trades", "large_trade_share", "threshold")
    table = OpenTable.of(trades, ["timestamp"], numbers=[volume])
    keys = table.series_columns(by, without=["timestamp", *results, "threshold_rule"])
    keys = [name for name in keys if by is not None or name != "side"]
    table = require_one_unit(table, AMOUNT_UNIT, keys, [volume], parameter="trades")
    start, is_within, interval_column = buckets(table, keys, interval)
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(
        __amount=nw.when(usable(nw.col(volume)), is_within).then(nw.col(volume)),
        __bucket=nw.lit(0, nw.Int64()) if interval is None else start,
        __time=start,
    )
    groups = [*(name for name in keys if name not in interval_column), "__bucket"]
    rows = (
        _large(rows, groups, at_least=at_least, above_quantile=above_quantile)
        .with_columns(threshold_rule=nw.lit(rule), **interval_column)
        .select(*keys, nw.col("__time").alias("timestamp"), *results, "threshold_rule")
    )
    return table.with_text_columns(dict.fromkeys(interval_column)).closed(
        rows, sort=[*keys, "timestamp"], main=["large_volume", "volume", "large_trade_share"]
    )


def _large(
    rows: nw.LazyFrame[Any], groups: Sequence[str], *, at_least: float | None, above_quantile: float | None
) -> nw.LazyFrame[Any]:
    """Return one row per group with the share of its ``__amount`` that large trades make."""
    amount, threshold = nw.col("__amount"), nw.col("threshold")
    if above_quantile is None:
        rows = rows.with_columns(threshold=nw.lit(at_least))
        is_large = amount >= threshold
    else:
        # Use slightly less than the quantile, because the float product may lie above the whole number that it stands
        # for.
        quantile_rank = (nw.len().over(*groups).cast(nw.Float64) * (above_quantile * (1 - 1e-15))).ceil()
        is_within = amount.rank("min").over(*groups).cast(nw.Float64) <= quantile_rank
        rows = rows.with_columns(threshold=nw.when(is_within).then(amount)).with_columns(
            threshold.max().over(*groups)
        )
        is_large = amount > threshold
    rows = exact.in_parts(
        rows.with_columns(__is_large=is_large.fill_null(value=False)), "__amount"
    ).with_columns(
        *exact.where(nw.col("__is_large"), "__amount", "__large"),
        large_trades=nw.col("__is_large").cast(nw.Int64),
        trades=nw.lit(1, nw.Int64()),
    )
    sums = (
        rows.group_by(*groups)
        .agg(
            exact.summed("__amount", "__large"),
            nw.col("large_trades", "trades").sum(),
            nw.col("__time").min(),
            threshold.max(),
        )
        .with_columns(exact.total("__amount"), exact.total("__large"))
    )
    is_known = ~amount.is_null()
    return sums.with_columns(
        # DuckDB's sums of integers have 128 bits.
        nw.col("large_trades", "trades").cast(nw.Int64),
        large_volume=nw.when(is_known).then(nw.col("__large")),
        volume=amount,
        large_trade_share=quotient(nw.col("__large"), amount),
        threshold=nw.when(is_known).then(threshold),
    )


def liquidation_cascades(
    frame: IntoFrameT,
    /,
    *,
    threshold: float,
    gap: str | timedelta,
    by: str | Iterable[str] | None = None,
    smallest: float | None = None,
    liquidations: str | None = None,
    sampled: bool = True,
) -> IntoFrameT:
    r"""Liquidation cascades: runs of liquidations that follow each other closely and add up to a large amount.

    A run continues while the next liquidation comes at most ``gap`` after the last. It is a cascade if :math:`\sum_i
    L_i \ge` ``threshold``.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Schema LIQUIDATION_AGG (``client.liquidations``): ``timestamp``, ``side`` of the position (BUY = longs were
        liquidated), ``liquidations`` [coin; USD if fetched in USD]. Or single liquidations, with ``amount`` [coin].
    threshold : float, > 0
        The smallest sum of a cascade. [as in ``frame``]
    gap : str or timedelta
        The longest pause within a run, e.g. ``"1m"`` or ``"30s"``. Between intervals it counts from start to start, so
        ``"5m"`` joins neighbouring intervals of five minutes.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame, also ``side``, so that
        longs and shorts have cascades of their own. Null counts as a value.
    smallest : float, > 0, optional
        Smaller rows are left out. [as in ``frame``]
    liquidations : str, optional
        Column of the amounts; without it ``liquidations``, or else ``amount``.
    sampled : bool
        Whether the feed shows only some of the liquidations, as the feeds of exchanges do.

    Returns
    -------
    frame, one row per cascade, sorted by ``by`` and ``start``, of the kind of ``frame``
        ``by``, and

        - ``start``, ``end`` : time, of the first and of the last row; both are starts if rows are intervals.
        - ``liquidations`` : float64, the sum, null where an amount of the run is unknown. [as in ``frame``]
        - ``count`` : int64. [rows]
        - ``largest`` : float64, the largest row, null if ``liquidations`` is. [as in ``frame``]
        - ``largest_at`` : time of the first row of that size, null if ``liquidations`` is.
        - ``is_lower_bound`` : bool, the argument ``sampled``: whether the true amount may be larger.
        - ``threshold``, ``smallest`` [as in ``frame``], ``gap`` [s] : float64, the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, a time has no zone, or amounts are not numbers. Or if an eager frame has
        several amount units in one series; in a lazy frame such amounts are unknown.

    Notes
    -----
    Recorded feeds are sampled (many show the largest liquidation of a second and no other), so totals are lower bounds,
    and a cascade that was not shown is not found.

    An amount that is null, not finite or below zero is unknown. It belongs to its run. The run may be a cascade, so it
    stays in the result, with null ``liquidations``. Rows of zero, of less than ``smallest`` or without a time are left
    out.

    The last cascade may continue: its end is known only when ``gap`` has passed.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> minutes = [datetime(2024, 8, 8, 12, minute, tzinfo=UTC) for minute in (0, 1, 2, 9)]
    >>> frame = pl.DataFrame({"timestamp": minutes, "side": "BUY", "liquidations": [2.0, 5.0, 1.0, 9.0]})
    >>> cascades = liquidation_cascades(frame, threshold=8, gap="1m")
    >>> cascades.select("side", "liquidations", "count", "largest").rows()
    [('BUY', 8.0, 3, 5.0), ('BUY', 9.0, 1, 9.0)]
    """
    threshold = arguments.positive("threshold", threshold)
    least = 0.0 if smallest is None else arguments.positive("smallest", smallest)
    longest_pause = arguments.length("gap", gap)
    table = OpenTable.of(frame)
    name = amount_of(table, liquidations, LIQUIDATIONS)
    table = OpenTable.of(table, ["timestamp"], numbers=[name])
    keys = table.series_columns(by, without=["timestamp", *_OF_CASCADES])
    table = require_one_unit(table, AMOUNT_UNIT, keys, [name])
    amount, time, largest = nw.col("__amount"), nw.col("__time"), nw.col("__largest")
    rows = table.rows.select(
        *keys, __amount=nw.when(usable(nw.col(name))).then(nw.col(name)), __time=nw.col("timestamp")
    ).filter(~time.is_null(), amount.is_null() | ((amount > 0) & (amount >= least)))
    # Rows of one time have no order, so they become one row. An unknown amount may be the largest.
    rows = (
        exact.in_parts(rows, "__amount")
        .with_columns(__largest=amount.fill_null(inf))
        .group_by(*keys, "__time")
        .agg(exact.summed("__amount"), nw.len().alias("__count"), largest.max())
    )
    is_start = time - time.shift(1).over(*keys, order_by="__time") > longest_pause
    rows = rows.with_columns(__run=is_start.fill_null(value=False).cast(nw.Int64)).with_columns(
        nw.col("__run").cum_sum().over(*keys, order_by="__time")
    )
    run = [*keys, "__run"]
    runs = (
        rows.with_columns(__largest_at=nw.when(largest == largest.max().over(*run)).then(time))
        .group_by(run)
        .agg(
            exact.summed("__amount"),
            nw.col("__largest_at").min(),
            largest.max(),
            nw.col("__count").sum(),
            time.min().alias("start"),
            time.max().alias("end"),
        )
        .with_columns(exact.total("__amount"))
        .filter((amount >= threshold) | amount.is_null())
    )
    is_known = ~amount.is_null()
    cascades = runs.select(
        *keys,
        "start",
        "end",
        liquidations=amount,
        count=nw.col("__count").cast(nw.Int64),
        largest=nw.when(is_known).then(largest),
        largest_at=nw.when(is_known).then(nw.col("__largest_at")),
        is_lower_bound=nw.lit(arguments.flag("sampled", sampled)),
        threshold=nw.lit(threshold),
        gap=nw.lit(longest_pause / SECOND),
        smallest=nw.lit(least),
    )
    return table.closed(
        cascades,
        sort=[*keys, "start"],
        times=dict.fromkeys(("start", "end", "largest_at"), "timestamp"),
        main=["end", "count", "largest", "liquidations"],
    )
